"""The cases that tests run in several processes; `python process_cases.py OUT CASES` runs one process.

Every case is a function of a folder that returns tensors; the first process writes those of all cases to OUT.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn

import toys
from ports import free_port
from subjects import SUBJECTS
from unspur import parallel, stages
from unspur.audit import auditor
from unspur.data.batches import Preprocess, Resident, Source
from unspur.data.mixing import Mixing
from unspur.data.splits import Splits, open_splits
from unspur.data.streaming import Streaming
from unspur.errors import UnspurError
from unspur.methods import ERM, own_stages
from unspur.models import builder
from unspur.parallel.agreement import gather_objects
from unspur.stages.estimate import estimate
from unspur.stages.place import pick_device
from unspur.store import open_store
from unspur.testing import Subject
from unspur.testing.tiny import MemoryCheckpointer, TinyNet, resident, shapes_set
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.loop import fit
from unspur.training.method import Method

STEPS = 50
OPTIONS = FitOptions(steps=STEPS, optimiser=Optimiser(rate=1e-3), log_every=10)
Tensors = dict[str, Tensor]


def disent(model: nn.Module, inputs: object) -> Method:
    """DisEnt that swaps features from the sixth step on."""
    own = own_stages()["disent"].own_stage
    assert own is not None
    return own.build(model, inputs, own.settings(swap_start=5))


class Dropping(TinyNet):
    """A network with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(torch.relu(self.norm(self.conv(x))).mean((2, 3))))


ALL = {
    **SUBJECTS,
    "disent": Subject("disent", disent),
    "dropout": Subject("dropout", lambda model, inputs: ERM(Dropping())),
}


def train(
    name: str, batch: int, streamed: bool, mixing: Mixing, folder: Path, *, steps: int = STEPS
) -> Tensors:
    """Train a method in float64, which LC and mixing do not support; return its state and its mean losses.

    In float32, Adam would turn a gradient that is only rounding error into a full step.
    """
    torch.set_default_dtype(torch.float32 if name == "lc" or mixing == MIXED else torch.float64)
    try:
        return train_in_default_type(name, batch, source_of(ALL[name], streamed, mixing), steps)
    finally:
        torch.set_default_dtype(torch.float32)


def train_in_default_type(name: str, batch: int, source: Source, steps: int) -> Tensors:
    subject, log = ALL[name], MemoryCheckpointer()
    method = subject.make()
    conflict = shapes_set().conflicting("train")
    order = sampling.Weighted(1 + 4 * conflict.double(), batch=batch, seed=5)
    fit(method, source, order, replace(OPTIONS, steps=steps), checkpointer=log)
    losses = {
        f"{key} at {row['step']}": torch.tensor(value)
        for row in log.rows
        for key, value in row.items()
        if key not in ("step", "seconds")
    }
    return {**method.state_dict(), **losses}


def source_of(subject: Subject, streamed: bool, mixing: Mixing) -> Source:
    splits = shapes_set()
    how = {"augment": "crop-flip", "seed": 3, "mixing": mixing, "bias": subject.labels()}
    if not streamed:
        return resident(splits, **how)
    conflict = splits.conflicting("train")
    cpu = torch.device("cpu")
    return Streaming(splits.train, device=cpu, preprocess=Preprocess(), conflict=conflict, **how)


def run_plan(changes: Sequence[str], folder: Path) -> Tensors:
    """Run a plan; return the tensors of all its artifacts, by stage and key.

    Plans share a store, except with streamed images, whose keys are those of resident ones.
    """
    store = folder if "data.source=streaming" in changes else folder.parent / "store"
    results, scores = stages.run(toys.context(store, [*FIFTY, *changes]))
    found = {**results, "evaluate": scores}
    return {
        f"{artifact.path.name} {name}": tensor
        for artifact in found.values()
        for name, tensor in artifact.tensors.items()
    }


def run_audit(folder: Path) -> Tensors:
    """Run an audit; return the margins of every network, the suspects and their scores."""
    context = toys.context(folder, ["mine.batch=31", "pretrain.batch=31", "pretrain.rate=0.001"])
    found = auditor.audit(context)
    margins = {f"{name} margin": each.margin for name, each in found.predictions.items()}
    return {**margins, "suspects": found.suspects.conflict, "score": found.suspects.score}


def run_at_address(folder: Path) -> Tensors:
    """Train with a store at an address that other processes cannot see; return weights, also as stored."""
    context = toys.context(folder, ["plan=erm", "pretrain.batch=31", "pretrain.rate=0.001"])
    with mock.patch.dict(os.environ, UNSPUR_CACHE=str(folder)):
        context = replace(context, store=open_store(f"memory://{folder.name}"))
    weights = stages.run(context)[0].weights("pretrain")
    run = stages.Run(context)
    assert run.stored == ["pretrain"]
    assert not any(row.steps_left for row in estimate(run))
    parallel.from_first(lambda: shutil.rmtree(folder))  # it is downloaded again
    found = context.store.find(run.keys["pretrain"].ingredients)
    assert found is not None
    return {**weights, **{f"found {name}": tensor for name, tensor in found.tensors.items()}}


FIFTY = [
    *(f"{stage}.steps=50" for stage in ("mine", "pretrain", "prune", "finetune", "adapt")),
    *(f"{stage}.batch=31" for stage in ("mine", "pretrain", "prune", "finetune", "adapt")),
    *("mine.rate=0.02", "prune.rate=0.02", "finetune.iterates=[25, 50]", "data.augment=crop-flip"),
]
MIXED = Mixing(spectrum=0.5, style=0.5, mix=0.5)
PLAIN = Mixing()
STEP_CASES: dict[str, Callable[[Path], Tensors]] = {
    **{f"{name}/resident": partial(train, name, 31, False, PLAIN) for name in ALL},
    **{f"{name}/streamed": partial(train, name, 30, True, PLAIN, steps=5) for name in ALL},
    "debiased/mixed": partial(train, "debiased", 31, False, MIXED),
    "erm/streamed, mixed": partial(train, "erm", 31, True, MIXED),
}
PLAN_CASES: dict[str, Callable[[Path], Tensors]] = {
    "dcwp": partial(
        run_plan, ["mine.how=epoch-ensemble", "mine.threshold=0.4", "finetune.drop=0.2"]
    ),
    "streamed": partial(run_plan, ["data.source=streaming"]),
    "unspur": partial(run_plan, ["plan=unspur", "data.style=0.5", "data.mix=0.5"]),
    "control": partial(run_plan, ["plan=control"]),
    "grasp": partial(run_plan, ["plan=grasp", "prune.how=grasp", "prune.keep=0.5"]),
    "dfr": partial(run_plan, ["plan=dfr"]),
    "channels": partial(run_plan, ["prune.unit=channel"]),
    "address": run_at_address,
    "audit": run_audit,
}

FEW = (  # the cases of three processes: losses of every kind, and the stages of our preset
    *("erm/resident", "lff/resident", "lc/resident", "groupdro/resident", "dropout/resident"),
    *("erm/streamed", "debiased/mixed", "erm/streamed, mixed", "unspur"),
)


def train_resnet(device: str, folder: Path) -> Tensors:
    """Train ResNet-18 for a hundred steps in float64; return its state and its losses.

    In float32, rounding decides the sign of a few activations, and the two runs drift apart.
    """
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        method, source, order = resnet_training(pick_device(device))
        how, log = Optimiser(name="sgd", rate=0.001, schedule="cosine"), MemoryCheckpointer()
        options = FitOptions(steps=100, optimiser=how, log_every=1)
        fit(method, source, order, options, checkpointer=log)
    finally:
        torch.set_default_dtype(torch.float32)
    losses = torch.tensor([row["loss"] for row in log.rows if "loss" in row], dtype=torch.float64)
    return {**{name: t.cpu() for name, t in method.state_dict().items()}, "losses": losses}


def resnet_training(place: torch.device) -> tuple[Method, Source, sampling.Passes]:
    method = ERM(builder("resnet18", 2).make()).to(place, memory_format=torch.channels_last)
    splits = shapes_set(samples=512)
    source = Resident(
        splits.train, device=place, preprocess=Preprocess(), augment="crop-flip", seed=3
    )
    return method, source, sampling.Passes(torch.arange(512, device=place), batch=63, seed=5)


LARGE = 480  # number of images that is large enough for shared memory


def open_images(folder: Path) -> Tensors:
    """Load images once for all processes; return how many processes loaded them, and a checksum."""

    def read() -> Splits:
        (folder.parent / f"read-by-{os.getpid()}").touch()
        return shapes_set(samples=LARGE)

    splits = open_splits(read)
    splits.train.images[0] += 1  # other processes must not see this change
    assert splits.train.images.is_contiguous(memory_format=torch.channels_last)
    readers = torch.tensor(len(list(folder.parent.glob("read-by-*"))))
    return {"readers": readers, "sum": splits.train.images.long().sum()}


GROUPS: dict[str, dict[str, Callable[[Path], Tensors]]] = {
    "steps": STEP_CASES,
    "plans": PLAN_CASES,
    "few": {name: (STEP_CASES | PLAN_CASES)[name] for name in FEW},
    "images": {"images": open_images},
    "resnet-cuda": {"resnet": partial(train_resnet, "cuda")},
}


def do(groups: str, folder: Path) -> dict[str, Tensors]:
    """Run all cases of some groups."""
    cases = {name: case for group in groups.split(",") for name, case in GROUPS[group].items()}
    return {
        name: {key: t.detach().clone() for key, t in case(folder / name.replace("/", "-")).items()}
        for name, case in cases.items()
    }


def start(
    count: int,
    *command: str,
    ranks: Sequence[int] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[subprocess.Popen[str]]:
    """Start processes (all, or those of some ranks) as a launcher would, with `python COMMAND` in each.

    They are a process group with the id of the first one, as those of a terminal are.
    """
    shared = {
        **os.environ,
        **(environment or {}),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    started: list[subprocess.Popen[str]] = []
    for rank in range(count) if ranks is None else ranks:
        started.append(
            subprocess.Popen(
                [sys.executable, *command],
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=started[0].pid if started else 0,
            )
        )
    return started


def finish(
    processes: Sequence[subprocess.Popen[str]], seconds: float
) -> list[tuple[int, str, str]]:
    """Wait for processes, and kill those that take too long; return the exit code and output of each."""
    end = time.monotonic() + seconds
    found = []
    for process in processes:
        try:
            printed = process.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            printed = process.communicate()
        found.append((process.returncode, *printed))
    return found


def run_in_processes(count: int, group: str, folder: Path) -> dict[str, Tensors]:
    """Run all cases of a group in several processes; return the results of the first."""
    out = folder / "results.pt"
    ended = finish(start(count, __file__, str(out), group), 600)
    assert [code for code, *_ in ended] == [0] * count, "\n".join(err for *_, err in ended)
    found: dict[str, Tensors] = torch.load(out)
    return found


CHECKPOINTED = (
    *("plan=erm", "pretrain.steps=120", "pretrain.batch=33", "pretrain.rate=0.001"),
    *("checkpoint_every=10", "checkpoint_seconds=0"),
)


def run_slowly(out: Path) -> None:
    """Train with many checkpoints and with errors as a command shows them; as one of several, slowly."""
    pause = 1.0 if "RANK" in os.environ else 0.0
    try:
        with parallel.joined():
            context = toys.context(out / "store", CHECKPOINTED)
            stages.run(replace(context, show=lambda stage: nullcontext(Slow(pause))))
    except UnspurError as error:
        if parallel.launched_rank() == 0:
            print(error, file=sys.stderr)
        sys.exit(error.exit_code)


class Slow:
    """A progress display that waits at every tenth step, so that a test can stop the training."""

    def __init__(self, pause: float):
        self.pause = pause

    def update(self, step: int, steps: int, loss: float) -> None:
        time.sleep(self.pause)


def main() -> None:
    torch.set_num_threads(1)
    out, group = Path(sys.argv[1]), sys.argv[2]
    if group == "slowly":
        run_slowly(out)
        return
    with parallel.joined() as team:
        assert team is not None
        found = do(group, out.parent)
        sums = {
            name: {key: float(t.double().sum()) for key, t in tensors.items()}
            for name, tensors in found.items()
        }
        for name in sums:
            first, *others = gather_objects(sums[name], team)
            assert all(other == first for other in others), f"{name}: processes differ"
        if team.rank == 0:
            torch.save(found, out)


if __name__ == "__main__":
    main()

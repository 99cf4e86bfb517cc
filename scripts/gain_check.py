"""Measure gain and cost of debiasing on sets with and without a shortcut, to choose when to keep the result.

    python scripts/gain_check.py --out results/gain-check.json.gz --data-root DIR

DIR holds MNIST, CIFAR-10, the faces in the layout of BFFHQ and CelebA. Every set is debiased without asking
the audit first. The record has what `unspur debias` measures without bias labels, on images that neither
model was trained on, and the accuracies on test images that it never sees. The rule was chosen on the runs
with `use` "choice" and checked on those with `use` "check". The settings are those of `unspur debias` on a
CPU, with a small network; a run takes one or two minutes of a CPU core. Runs that are already in the record
are not repeated. `make pages` writes the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from clean_sets import SETS
from torch import Tensor

from unspur import workflow
from unspur.data.benchmarks import bffhq, celeba, cifar10, mnist, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Part, Split, Splits
from unspur.errors import DataError
from unspur.report import terminal
from unspur.stages.place import Place, temporary_place
from unspur.store import environment, read_document, write_document
from unspur.training.metrics import mining_quality
from unspur.training.prediction import predict
from unspur.workflow import Outcome

IMAGES, TEST, SHARE, SIDE = 1500, 1000, 0.05, 64
SETTINGS = {"model.options": {"width": 16}}
KINDS = ("colour", "patch", "texture", "light")
CHOICE = (
    *("faces, sex", "CIFAR-10, first five classes", "CIFAR-10, last five classes", "gratings"),
    *("digits: colour", "digits: patch", "digits: light"),
    *("photographs: tint", "photographs: corruption"),
)
LATER = 1000  # added to the seed for test images

More = Callable[[Outcome], Mapping[str, Any]]  # further numbers of a run


@dataclass(frozen=True)
class Pair:
    """Training images, with bias labels if there is a shortcut, and test images to score the models on."""

    train: Splits
    test: Splits


def clean(root: Path, name: str, seed: int) -> Pair:
    """Return a set without a shortcut; the seed only changes the training."""
    found = SETS[name](root)
    assert found.test is not None
    train, test = (_some(part) for part in (found.train, found.test))
    return Pair(replace(found, train=train, test=None), replace(found, train=test, test=None))


def _some(part: Part) -> Split:
    """Return some images of a split, which may be sorted by class, in random order."""
    some = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:IMAGES]
    return Split(part.take(some), part.targets[some])


def digits(root: Path, kind: str, seed: int) -> Pair:
    """Return digits with a planted shortcut."""
    found = mnist.mnist(root)
    train = planted.from_digits(found.train_images, found.train_labels, name="mnist")
    kind, _, share = kind.partition(", ")
    return _planted(train, kind, seed, float(share or SHARE))


def photographs(root: Path, kind: str, seed: int) -> Pair:
    """Return photographs of CIFAR-10 with a planted shortcut."""
    found = cifar10.read(root)
    return _planted(planted.Base(found.train_images, found.train_labels, "cifar10"), kind, seed)


def _planted(base: planted.Base, kind: str, seed: int, share: float = SHARE) -> Pair:
    both = base.some(IMAGES + TEST, seed=seed)
    order = torch.randperm(len(both.labels), generator=torch.Generator().manual_seed(seed))
    train, test = both.only(order[:IMAGES]), both.only(order[IMAGES:])
    return Pair(
        planted.planted(train, kind, share=share, seed=seed),
        planted.unrelated(test, kind, seed=LATER + seed),
    )


def faces(root: Path, kind: str, seed: int) -> Pair:
    """Return faces of which 1 % contradict the shortcut from sex to age, or CelebA, from sex to hair."""
    load, ratio = {"age": (bffhq.load, "1pct"), "hair": (celeba.load, "keep88")}[kind]
    found = load(root, ratio, size=SIDE)
    assert found.test is not None
    train = replace(found, valid=None, test=None, bias={"train": found.bias["train"]})
    return Pair(train, replace(train, train=found.test, bias={"train": found.bias["test"]}))


Cases = Mapping[str, tuple[Callable[[Path, str, int], Pair], str]]
CASES: Cases = {
    **{name: (clean, name) for name in SETS},
    **{f"digits: {kind}": (digits, kind) for kind in KINDS},
    **{f"digits: {kind}, 10 %": (digits, f"{kind}, 0.1") for kind in KINDS},
    **{f"photographs: {kind}": (photographs, kind) for kind in ("tint", "border", "corruption")},
    "faces: age by sex": (faces, "age"),
    "CelebA: hair by sex": (faces, "hair"),
}


def nothing_more(outcome: Outcome) -> dict[str, Any]:
    """Return no further numbers of a run."""
    return {}


def measure(
    pair: Pair, seed: int, place: Place, changes: Mapping[str, Any], more: More = nothing_more
) -> dict[str, Any]:
    """Debias images without bias labels; return the measured gain and the accuracies on test images."""
    own = Splits(train=pair.train.train, classes=pair.train.classes, name="own")
    began, cpu = time.perf_counter(), time.process_time()
    run = workflow.open_debias(
        UserImages(own),
        place,
        model="convnet",
        settings={**SETTINGS, **changes, "seed": seed},
        anyway=True,
    )
    outcome = workflow.carry_out(run)
    results, truth = outcome.results, pair.train.conflicting("train")
    weights = {"ordinary": results.weights("pretrain"), "debiased": results.final_weights}
    test = {name: accuracies(outcome, each, pair.test) for name, each in weights.items()}
    suspects = results.suspects().conflict
    return {
        "images": len(own.train),
        "suspects": int(suspects.sum()),
        "gain": outcome.numbers.get("gain"),
        "test": test,
        "mining": mining_quality(suspects, truth) if truth is not None else None,
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        **more(outcome),
    }


def accuracies(outcome: Outcome, weights: dict[str, Tensor], test: Splits) -> dict[str, float]:
    """Return the accuracy on the test images, and on aligned and conflicting ones if these are known."""
    context, conflict = outcome.context, test.conflicting("train")
    model = context.place(context.final_network(weights)).eval()
    predicted = predict(model, context.source(test.train).plain()).argmax(1)
    right = (predicted == test.train.targets).double()
    parts = {"average": torch.ones(len(right), dtype=torch.bool)}
    if conflict is not None:
        parts |= {"aligned": ~conflict, "conflicting": conflict}
    return {name: float(right[part].mean()) for name, part in parts.items()}


def wanted(cases: Iterable[str], only: str, seeds: list[int]) -> Iterator[tuple[str, int]]:
    """Yield the runs whose names match, the first seed of all cases first."""
    yield from ((name, seed) for seed in seeds for name in cases if fnmatch(name, only))


def trial_options(about: str | None, out: str, only: str = "*") -> argparse.Namespace:
    """Parse the command line of a script that tries sets with several seeds; use one thread."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--data-root", type=Path, help="folder with the data")
    parser.add_argument("--only", default=only, help="names of sets, such as 'digits: *'")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    torch.set_num_threads(1)
    return parser.parse_args()


def run_cases(
    about: str | None, out: str, cases: Cases, choice: Sequence[str], more: More = nothing_more
) -> None:
    """Parse the command line and measure every case that has no record yet."""
    options = trial_options(about, out)
    runs = read_document(options.out)["runs"] if options.out.exists() else []
    done = {(run["case"], run["seed"]) for run in runs}
    for name, seed in wanted(cases, options.only, options.seeds):
        if (name, seed) in done:
            continue
        make, which = cases[name]
        try:
            pair = make(mnist.find_root(options.data_root), which, seed)
        except DataError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        use = "choice" if name in choice else "check"
        with temporary_place("cpu", terminal.show(quiet=True)) as place:
            found = measure(pair, seed, place, {}, more)
        runs.append({"case": name, "seed": seed, "use": use, **found})
        write_document(options.out, {"with": environment(), "runs": runs})
        print(runs[-1], flush=True)


if __name__ == "__main__":
    run_cases(__doc__, "results/gain-check.json.gz", CASES, CHOICE)

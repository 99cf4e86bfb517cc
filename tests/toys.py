"""Small data, networks and checkpointers that several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from unspur import models, recipes
from unspur.data.batches import Preprocess, Resident
from unspur.data.benchmarks.mnist import Digits, mnist
from unspur.data.splits import Split, Splits
from unspur.recipes.loading import Recipe
from unspur.stages.context import Context
from unspur.store import Store

# A run of about a third of a second that finds suspects and prunes.
SMALL = (
    *("mine.steps=40", "mine.batch=32", "mine.rate=0.05", "mine.decay_every=0"),
    *("pretrain.steps=40", "pretrain.batch=32"),
    *("prune.steps=20", "prune.batch=32", "prune.batch_norm_batches=4"),
    *("prune.init=0.5", "prune.rate=0.1", "prune.sparsity=1e-4"),
    *("finetune.steps=30", "finetune.batch=32", "finetune.iterates=[10, 30]"),
    *("select.every=10", "select.minimum=2"),
    *("log_every=10", "checkpoint_every=15", "checkpoint_seconds=0", "precision=fp32"),
)


class TinyNet(nn.Module):
    """A convolution with batch norm and a head: everything a real network has, in 200 weights."""

    def __init__(self, classes: int = 2):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def shapes_set(*, samples: int = 240, conflicting: int = 24, seed: int = 0) -> Splits:
    """Two classes: a bright bar that stands or lies; its colour nearly always gives the class away."""
    parts, bias = {}, {}
    for offset, name in enumerate(("train", "valid", "test")):
        g = torch.Generator().manual_seed(100 * seed + offset)
        targets = torch.randint(2, (samples,), generator=g)
        colour = targets.clone()
        odd = torch.randperm(samples, generator=g)[
            : samples // 2 if name == "test" else conflicting
        ]
        colour[odd] = 1 - colour[odd]
        parts[name] = Split(bars(targets, colour, g), targets)
        bias[name] = colour
    return Splits(**parts, classes=("stands", "lies"), bias=bias, name="bars")


def bars(targets: Tensor, colour: Tensor, g: torch.Generator) -> Tensor:
    """Bars of 8 x 8 pixels with noise."""
    images = torch.randint(0, 40, (len(targets), 3, 8, 8), generator=g, dtype=torch.uint8)
    place = torch.randint(1, 7, (len(targets),), generator=g)
    for i, (target, c, at) in enumerate(zip(targets, colour, place, strict=True)):
        where = images[i, 2 * int(c)]
        if int(target) == 0:
            where[:, int(at)] = 220
        else:
            where[int(at), :] = 220
    return images


def resident(splits: Splits, device: str = "cpu", **kwargs: object) -> Resident:
    return Resident(
        splits.train,
        device=torch.device(device),
        preprocess=Preprocess(),
        conflict=splits.conflicting("train"),
        **kwargs,  # type: ignore[arg-type]
    )


class MemoryCheckpointer:
    """Keeps checkpoints in memory, as the store does on disk."""

    def __init__(self) -> None:
        self.saved: tuple[dict[str, Tensor], dict[str, int]] | None = None
        self.rows: list[dict[str, float]] = []

    def resume(self):
        return self.saved

    def checkpoint(self, tensors, facts):
        self.saved = ({k: v.detach().clone().cpu() for k, v in tensors.items()}, dict(facts))

    def log(self, row):
        self.rows.append(dict(row))


def without_valid(splits: Splits) -> Splits:
    """The same data, nothing kept apart for selection."""
    bias = {name: labels for name, labels in splits.bias.items() if name != "valid"}
    return replace(splits, valid=None, bias=bias)


def context(
    store: Path,
    changes: Iterable[str] = (),
    *,
    splits: Splits | None = None,
    model: nn.Module | None = None,
    builder: models.Builder | None = None,
) -> Context:
    """A small run on a store, on one CPU; its model is the same each time unless given."""
    if model is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = TinyNet()
    return Context(
        recipe=recipes.change(Recipe(), recipes.parse_changes([*SMALL, *changes])),
        splits=shapes_set(seed=1) if splits is None else splits,
        builder=builder or models.given(model),
        store=Store(store),
        device=torch.device("cpu"),
        show=lambda stage: nullcontext(),
    )


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """The same names and the same bits, NaN included."""
    return a.keys() == b.keys() and all(_bits(a[k]) == _bits(b[k]) for k in a)


def _bits(tensor: Tensor) -> tuple[object, ...]:
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return tensor.dtype, tuple(tensor.shape), raw.numpy().tobytes()


def real_mnist() -> Digits:
    """The real digits, where UNSPUR_DATA names their folder; the test is skipped elsewhere."""
    root = Path(os.environ.get("UNSPUR_DATA") or "unset")
    folders = (root, root / "MNIST" / "raw")
    if not any(path for folder in folders for path in folder.glob("train-images-idx3-ubyte*")):
        pytest.skip("UNSPUR_DATA names no folder with MNIST")
    return mnist(root)


class NoSync(TorchDispatchMode):
    """Refuses what would wait for the device or make a shape depend on values."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func.overloadpacket)
        self.seen.add(name)
        refused = ("aten._local_scalar_dense", "aten.nonzero", "aten.masked_select", "aten.equal")
        assert name not in refused, f"{name} inside a step"
        if name in ("aten.index", "aten.index_put", "aten.index_put_", "aten._index_put_impl_"):
            kinds = [t.dtype for t in args[1] if t is not None]
            assert torch.bool not in kinds, "boolean indexing inside a step"
        return func(*args, **(kwargs or {}))


class Counting(Store):
    """A store that notes which stages it has to make."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.made: list[str] = []

    @contextmanager
    def making(self, wanted):
        with super().making(wanted) as (found, missing):
            self.made += [path.name.partition("-")[0] for path in missing]
            yield found, missing

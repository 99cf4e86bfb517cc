"""Tiny data and networks to test a method in seconds on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..data.batches import Preprocess, Resident
from ..data.splits import Split, Splits
from ..models import builder
from ..models.head import find_head
from ..training.metrics import group_counts
from ..training.sections import NetworkSettings


class TinyNet(nn.Module):
    """A convolution, batch norm and a head: the parts of a real network, with about 200 weights."""

    def __init__(self, classes: int = 2):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))
        return logits


class OddNet(nn.Module):
    """An unusual network of a user: a nested head, functional layers, a parameter outside all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, 3, 1, 1))
        self.parts = nn.ModuleDict({"seen": nn.Linear(192, 12, bias=False)})
        self.out = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(12, 2))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.parts["seen"](torch.sin(x * self.scale).flatten(1)))
        return logits


class RowReader(nn.Module):
    """A transformer encoder over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(24, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.permute(0, 2, 1, 3).flatten(2)
        logits: Tensor = self.head(self.encoder(rows).mean(1))
        return logits


class WideNet(nn.Module):
    """A network that is large enough to tell vertical bars from horizontal ones."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).amax((2, 3)))
        return logits


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "tiny": TinyNet,
    "odd": OddNet,
    "transformer": RowReader,
    "convnet": lambda: builder("convnet", 2).make(),
}


def shapes_set(*, samples: int = 240, conflicting: int = 24, seed: int = 0) -> Splits:
    """Return vertical and horizontal bright bars, two classes, whose colour nearly always fits the class."""
    parts: dict[str, Any] = {}
    bias: dict[str, Tensor] = {}
    for offset, name in enumerate(("train", "valid", "test")):
        g = torch.Generator().manual_seed(100 * seed + offset)
        targets = torch.randint(2, (samples,), generator=g)
        colour = targets.clone()
        count = samples // 2 if name == "test" else conflicting
        odd = torch.randperm(samples, generator=g)[:count]
        colour[odd] = 1 - colour[odd]
        parts[name] = Split(bars(targets, colour, g), targets)
        bias[name] = colour
    return Splits(**parts, classes=("stands", "lies"), bias=bias, name="bars")


def bars(targets: Tensor, colour: Tensor, g: torch.Generator) -> Tensor:
    """Draw bars of 8 x 8 pixels with noise."""
    images = torch.randint(0, 40, (len(targets), 3, 8, 8), generator=g, dtype=torch.uint8)
    place = torch.randint(1, 7, (len(targets),), generator=g)
    for i, (target, c, at) in enumerate(zip(targets, colour, place, strict=True)):
        where = images[i, 2 * int(c)]
        if int(target) == 0:
            where[:, int(at)] = 220
        else:
            where[int(at), :] = 220
    return images


def resident(splits: Splits, device: str = "cpu", **options: Any) -> Resident:
    """Put the training split on a device, with its conflicting samples flagged."""
    assert isinstance(splits.train, Split), "tiny data are in memory"
    return Resident(
        splits.train,
        device=torch.device(device),
        preprocess=Preprocess(),
        conflict=splits.conflicting("train"),
        **options,
    )


@dataclass(frozen=True)
class TinyInputs:
    """The inputs from which a method is built, for tiny data and one kind of network."""

    splits: Splits
    make: Callable[[], nn.Module]

    @property
    def targets(self) -> Tensor:
        return self.splits.train.targets

    @property
    def example(self) -> Tensor:
        return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))

    @property
    def head(self) -> str:
        return find_head(self.make(), self.example)

    @property
    def group_counts(self) -> Tensor:
        return group_counts(self.targets, self.splits.bias["train"], classes=2, biases=2)

    def seed(self, purpose: str) -> int:
        return 0

    def another_network(self, purpose: str) -> nn.Module:
        return self.make()

    def extra_network(self, settings: NetworkSettings, purpose: str) -> nn.Module:
        return self.make()


class MemoryCheckpointer:
    """A checkpointer that keeps the last checkpoint in memory instead of on disk."""

    def __init__(self) -> None:
        self.saved: tuple[dict[str, Tensor], dict[str, Any]] | None = None
        self.rows: list[dict[str, Any]] = []

    def resume(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        return self.saved

    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        self.saved = ({k: v.detach().clone().cpu() for k, v in tensors.items()}, dict(facts))

    def log(self, row: Mapping[str, Any]) -> None:
        self.rows.append(dict(row))


WAITS = ("aten._local_scalar_dense", "aten.nonzero", "aten.masked_select", "aten.equal")
INDEXES = ("aten.index", "aten.index_put", "aten.index_put_", "aten._index_put_impl_")


class NoSync(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises AssertionError for operations that wait for the device or whose shape depends on values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket)
        self.seen.add(name)
        assert name not in WAITS, f"{name} inside a step"
        if name in INDEXES:
            kinds = [t.dtype for t in args[1] if t is not None]
            assert torch.bool not in kinds, "boolean indexing inside a step"
        return func(*args, **(kwargs or {}))


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Return whether names and bits are the same; NaN equals NaN."""
    return a.keys() == b.keys() and all(_bits(a[k]) == _bits(b[k]) for k in a)


def _bits(tensor: Tensor) -> tuple[object, ...]:
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return tensor.dtype, tuple(tensor.shape), raw.numpy().tobytes()

"""Small data, networks and keepers that several tests share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unspur.data.source import Preprocess, Resident
from unspur.data.splits import Split, Splits


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


class MemoryKeeper:
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

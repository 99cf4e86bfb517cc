"""Donors: for each image another one of its own class, and one of another class.

The class of an image is the one that the first model predicts. A cue that the model does not use, and that
says nothing of the class, then has the same distribution in donors of both kinds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Donors:
    """Numbers of donors by image; `towards` is the class of the other donor, `usable` where both exist."""

    own: Tensor
    other: Tensor
    towards: Tensor
    usable: Tensor


def choose_donors(predicted: Tensor, *, seed: int, towards: int | None = None) -> Donors:
    """Choose donors at random; those of another class are of any, or of the class `towards`."""
    draw = torch.Generator().manual_seed(seed)
    members = {c: (predicted == c).nonzero().squeeze(1) for c in sorted({*predicted.tolist()})}
    own, other, target = (torch.arange(len(predicted)) for _ in range(3))
    usable = torch.zeros(len(predicted), dtype=torch.bool)
    for image, label in enumerate(predicted.tolist()):
        classes = [c for c in members if c != label and towards in (None, c)]
        if len(members[label]) < 2 or not classes:
            continue
        chosen = classes[_any(len(classes), draw)]
        same = members[label][members[label] != image]
        own[image] = same[_any(len(same), draw)]
        other[image] = members[chosen][_any(len(members[chosen]), draw)]
        target[image], usable[image] = chosen, True
    return Donors(own, other, target, usable)


def _any(count: int, draw: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=draw))

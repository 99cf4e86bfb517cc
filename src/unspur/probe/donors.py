"""Donors: for each image another one of its own class, and one of another class.

The class of an image is the prediction of the first model. So if the model does not use a cue, and the cue is
independent of the class, it has the same distribution in both kinds of donors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Donors:
    """The indices of both donors of each image.

    `own` has the same class as the image, `other` has the class `towards`. An image is `usable` if it has
    both donors.
    """

    own: Tensor
    other: Tensor
    towards: Tensor
    usable: Tensor


def choose_donors(predicted: Tensor, *, seed: int, towards: int | None = None) -> Donors:
    """Choose donors at random; donors of another class have any class, or the class `towards`."""
    generator = torch.Generator().manual_seed(seed)
    members = {c: (predicted == c).nonzero().squeeze(1) for c in sorted({*predicted.tolist()})}
    own, other, target = (torch.arange(len(predicted)) for _ in range(3))
    usable = torch.zeros(len(predicted), dtype=torch.bool)
    for image, label in enumerate(predicted.tolist()):
        classes = [c for c in members if c != label and towards in (None, c)]
        if len(members[label]) < 2 or not classes:
            continue
        target_class = classes[_random_index(len(classes), generator)]
        same = members[label][members[label] != image]
        own[image] = same[_random_index(len(same), generator)]
        candidates = members[target_class]
        other[image] = candidates[_random_index(len(candidates), generator)]
        target[image], usable[image] = target_class, True
    return Donors(own, other, target, usable)


def _random_index(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (1,), generator=generator))

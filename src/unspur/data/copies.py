"""Find images that occur more than once, so that copies of an image are never divided.

If one copy of an image is used for training and another to judge the network, the network has seen it, with
its label. Wrong labels then look like a shortcut to an audit, and a gain is measured on images that the model
was trained on.
"""

from __future__ import annotations

import hashlib
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from .splits import Part, Split

LEAST_SHARE = 0.01  # of images that are copies; fewer cannot change a verdict, and are ignored
FEWEST_DIFFERENT = 10  # different images that every class needs to be divided without its copies
_FOUND: WeakKeyDictionary[Split, Tensor | None] = WeakKeyDictionary()  # runs share their images


def first_copies(part: Part) -> Tensor | None:
    """Return the index of the first image with the same pixels for each image of a part.

    None if there are hardly any copies, if a class has too few different images, or if the images are not in
    memory: to read all files again would take too long.
    """
    if not isinstance(part, Split):
        return None
    if part not in _FOUND:
        _FOUND[part] = _first_copies(part)
    return _FOUND[part]


def _first_copies(part: Split) -> Tensor | None:
    known: dict[bytes, int] = {}
    images = part.images.cpu()
    hashes = (hashlib.blake2b(image.contiguous().numpy()).digest() for image in images)
    first = torch.tensor([known.setdefault(each, i) for i, each in enumerate(hashes)])
    is_first = first == torch.arange(len(first))
    if int((~is_first).sum()) < LEAST_SHARE * len(first):
        return None
    targets = part.targets.cpu()
    different = torch.bincount(targets[is_first], minlength=int(targets.max()) + 1)
    present = torch.bincount(targets) > 0
    return first if int(different[present].min()) >= FEWEST_DIFFERENT else None


def without_divided(chosen: Tensor, first: Tensor | None) -> Tensor:
    """Return the chosen images whose copies are all chosen; `first` has the first copy of each image."""
    if first is None:
        return chosen
    divided = torch.zeros_like(chosen)
    divided[first[~chosen]] = True
    return chosen & ~divided[first]

"""Small pictures of samples for the pages, with what is known of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.splits import Part
from .context import Context
from .corrections import sample_names
from .results import Pictures
from .suspects import Suspects

PICTURES, CLASSES = 200, 20  # in the gallery, at most


SUSPECTS, FEWEST, TYPICAL = 12, 4, 4  # of each class there: suspects at most and at least, members


LOOKS, COPIES = 12, 16  # pictures, and steps on the way from a blank one to each


SIDE = 96  # pixels of a picture's longer side


CHUNK = 64  # pictures a network looks at at once


Says = Callable[[Tensor], Mapping[str, Sequence[int]]]  # what each network says to samples by index


def gallery(
    context: Context, suspects: Suspects, says: Says, marks: Mapping[str, Tensor] | None = None
) -> Pictures:
    """The strongest suspects of each class and typical members of it, of the training split.

    `marks` are other things to know of a sample: yes or no.
    """
    part = context.splits.train
    shown = (
        ~context.corrections.excluded
        if context.corrections
        else torch.ones(len(part), dtype=torch.bool)
    )
    flagged = [
        int((suspects.conflict & shown & (part.targets == c)).sum()) for c in _labels(context)
    ]
    most = sorted(_labels(context), key=lambda c: -flagged[c])[:CLASSES]
    chosen: list[tuple[int, str]] = []
    for label in sorted(most):
        own = shown & (part.targets == label)
        count = max(FEWEST, min(SUSPECTS, flagged[label], PICTURES // len(most) - TYPICAL))
        chosen += [(i, "suspect") for i in _strongest(suspects, own, count)]
        easy = Suspects(-suspects.score, suspects.conflict, suspects.predicted)
        chosen += [(i, "typical") for i in _strongest(easy, own & ~suspects.conflict, TYPICAL)]
    index = [index for index, _ in chosen]
    samples = described(context, "train", suspects, index, says)
    for sample, (i, role) in zip(samples, chosen, strict=True):
        sample |= {"role": role, **{name: bool(t[i]) for name, t in (marks or {}).items()}}
    totals = torch.bincount(part.targets, minlength=len(flagged)).tolist()
    counts = [{"samples": n, "flagged": k} for n, k in zip(totals, flagged, strict=True)]
    notes = {"gallery": samples, "counts": counts}
    return Pictures({"gallery.images": pictures(part, index)}, notes)


def _labels(context: Context) -> range:
    return range(len(context.splits.classes))


def _strongest(suspects: Suspects, among: Tensor, count: int) -> list[int]:
    """Some of the samples, flagged ones first, then by score."""
    index = among.nonzero().squeeze(1)
    rank = suspects.score[index].double() + 1e6 * suspects.conflict[index]
    order = torch.argsort(rank, descending=True, stable=True)[:count]
    return [int(i) for i in index[order]]


def described(
    context: Context,
    split: str,
    suspects: Suspects,
    index: Sequence[int],
    says: Says,
) -> list[dict[str, Any]]:
    """What is known of some samples of a split, and what each network says to them."""
    part, said = context.splits.parts()[split], says(torch.tensor(index, dtype=torch.long))
    named, conflicting = sample_names(part), context.splits.conflicting(split)
    return [
        {
            "split": split,
            "name": named[i],
            "label": int(part.targets[i]),
            "score": round(float(suspects.score[i]), 4),
            "predicted": int(suspects.predicted[i]),
            "flagged": bool(suspects.conflict[i]),
            "bias": int(context.splits.bias[split][i]) if split in context.splits.bias else None,
            "conflicting": None if conflicting is None else bool(conflicting[i]),
            "says": {name: labels[place] for name, labels in said.items()},
        }
        for place, i in enumerate(index)
    ]


def asked(context: Context, networks: Mapping[str, nn.Module], part: Part) -> Says:
    """Networks to be asked about samples of a split."""
    return lambda index: {
        name: _said(context, model, part, index) for name, model in networks.items()
    }


@torch.no_grad()
def _said(context: Context, model: nn.Module, part: Part, index: Tensor) -> list[int]:
    """The classes a network says some samples are of."""
    return [int(c) for x in inputs(context, part, index) for c in model(x).argmax(1)]


def inputs(context: Context, part: Part, index: Tensor) -> Iterator[Tensor]:
    for some in torch.split(index, CHUNK):
        if len(some):
            yield context.preprocess(part.take(some).to(context.device))


def pictures(part: Part, index: Sequence[int]) -> Tensor:
    """Samples as small pictures: uint8 (N, 3, high, wide)."""
    parts = torch.split(torch.tensor(index, dtype=torch.long), CHUNK)
    return torch.cat([smaller(colours(part.take(some).cpu())) for some in parts]).byte()


def colours(images: Tensor) -> Tensor:
    """Images of any number of channels as red, green and blue between 0 and 255."""
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1].expand(-1, 3, -1, -1)
    if images.dtype == torch.uint8:
        return images.float()
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    return 255 * (images - low) / (high - low).clamp(min=1e-9)


def smaller(images: Tensor) -> Tensor:
    """Images (N, C, H, W) whose longer side is at most SIDE."""
    high, wide = images.shape[2:]
    shrink = SIDE / max(high, wide)
    if shrink >= 1:
        return images
    size = [max(1, round(high * shrink)), max(1, round(wide * shrink))]
    smaller = F.interpolate(images, size=size, mode="bilinear", antialias=True)
    return smaller.clamp(images.min(), images.max())


def in_turns(suspects: Suspects, among: Tensor, targets: Tensor, classes: int) -> list[int]:
    """The strongest suspect of every class, then the second of every class, and so on."""
    chosen = suspects.conflict & among
    ranked = [_strongest(suspects, chosen & (targets == c), LOOKS) for c in range(classes)]
    turns = [own[turn] for turn in range(LOOKS) for own in ranked if turn < len(own)]
    return turns[:LOOKS]

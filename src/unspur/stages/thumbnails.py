"""Small pictures of samples for the pages, with facts about each sample."""

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

PICTURES, CLASSES = 200, 20  # at most in the gallery
SUSPECTS, FEWEST, TYPICAL = 12, 4, 4  # for each class: most and fewest suspects, typical members
LOOKS, COPIES = 12, 16  # of saliency maps: pictures, and steps of integrated gradients
SIDE = 96  # pixels of a picture's longer side
CHUNK = 64  # pictures in one forward pass


# A function from indices of samples to the predictions of each network.
Says = Callable[[Tensor], Mapping[str, Sequence[int]]]


def gallery(
    context: Context, suspects: Suspects, says: Says, marks: Mapping[str, Tensor] | None = None
) -> Pictures:
    """Return the strongest suspects and typical members of each class of the training split.

    `marks` are further facts about each sample, as booleans.
    """
    part, counts = context.splits.train, _class_counts(context, suspects)
    chosen = _gallery_samples(context, suspects, [each["flagged"] for each in counts])
    index = [index for index, _ in chosen]
    samples = describe(context, "train", suspects, index, says)
    for sample, (i, role) in zip(samples, chosen, strict=True):
        sample |= {"role": role, **{name: bool(t[i]) for name, t in (marks or {}).items()}}
    notes = {"gallery": samples, "counts": counts}
    return Pictures({"gallery.images": pictures(part, index)}, notes)


def _can_show(context: Context) -> Tensor:
    """Return which training samples may be shown: all but those a user excludes."""
    if context.corrections is not None:
        return ~context.corrections.excluded
    return torch.ones(len(context.splits.train), dtype=torch.bool)


def _class_counts(context: Context, suspects: Suspects) -> list[dict[str, int]]:
    """Return for each class its number of training samples, and of suspects that may be shown."""
    targets, classes = context.splits.train.targets, len(context.splits.classes)
    totals = torch.bincount(targets, minlength=classes).tolist()
    flagged = torch.bincount(targets[suspects.conflict & _can_show(context)], minlength=classes)
    return [{"samples": n, "flagged": k} for n, k in zip(totals, flagged.tolist(), strict=True)]


def _gallery_samples(
    context: Context, suspects: Suspects, flagged: Sequence[int]
) -> list[tuple[int, str]]:
    """Return (index, role) of the samples to show, from the classes with the most suspects."""
    most = sorted(range(len(flagged)), key=lambda c: -flagged[c])[:CLASSES]
    easy = Suspects(-suspects.score, suspects.conflict, suspects.predicted)
    chosen: list[tuple[int, str]] = []
    for label in sorted(most):
        members = _can_show(context) & (context.splits.train.targets == label)
        count = max(FEWEST, min(SUSPECTS, flagged[label], PICTURES // len(most) - TYPICAL))
        chosen += [(i, "suspect") for i in _strongest(suspects, members, count)]
        typical = _strongest(easy, members & ~suspects.conflict, TYPICAL)
        chosen += [(i, "typical") for i in typical]
    return chosen


def _strongest(suspects: Suspects, among: Tensor, count: int) -> list[int]:
    """Return at most `count` of the samples, suspects first, then by score."""
    index = among.nonzero().squeeze(1)
    rank = suspects.score[index].double() + 1e6 * suspects.conflict[index]
    order = torch.argsort(rank, descending=True, stable=True)[:count]
    return [int(i) for i in index[order]]


def describe(
    context: Context,
    split: str,
    suspects: Suspects,
    index: Sequence[int],
    says: Says,
) -> list[dict[str, Any]]:
    """Return the facts about some samples of a split, and the predictions of each network."""
    part, predicted = context.splits.parts()[split], says(torch.tensor(index, dtype=torch.long))
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
            "says": {name: labels[place] for name, labels in predicted.items()},
        }
        for place, i in enumerate(index)
    ]


def answers_of(context: Context, networks: Mapping[str, nn.Module], part: Part) -> Says:
    """Return a function that predicts samples of a split with several networks."""
    return lambda index: {
        name: _predictions(context, model, part, index) for name, model in networks.items()
    }


@torch.no_grad()
def _predictions(context: Context, model: nn.Module, part: Part, index: Tensor) -> list[int]:
    """Return the classes that a network predicts for some samples."""
    return [int(c) for x in inputs(context, part, index) for c in model(x).argmax(1)]


def inputs(context: Context, part: Part, index: Tensor) -> Iterator[Tensor]:
    """Yield some samples as network input, in chunks."""
    for some in torch.split(index, CHUNK):
        if len(some):
            yield context.preprocess(part.take(some).to(context.device))


def pictures(part: Part, index: Sequence[int]) -> Tensor:
    """Return samples as small pictures: uint8 (N, 3, high, wide)."""
    parts = torch.split(torch.tensor(index, dtype=torch.long), CHUNK)
    return torch.cat([shrink(colours(part.take(some).cpu())) for some in parts]).byte()


def colours(images: Tensor) -> Tensor:
    """Convert images with any number of channels to RGB between 0 and 255."""
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1].expand(-1, 3, -1, -1)
    if images.dtype == torch.uint8:
        return images.float()
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    return 255 * (images - low) / (high - low).clamp(min=1e-9)


def shrink(images: Tensor) -> Tensor:
    """Shrink images (N, C, H, W) so that their longer side is at most SIDE."""
    high, wide = images.shape[2:]
    factor = SIDE / max(high, wide)
    if factor >= 1:
        return images
    size = [max(1, round(high * factor)), max(1, round(wide * factor))]
    resized = F.interpolate(images, size=size, mode="bilinear", antialias=True)
    return resized.clamp(images.min(), images.max())


def pick_by_class(suspects: Suspects, among: Tensor, targets: Tensor, classes: int) -> list[int]:
    """Return the strongest suspect of every class, then the second of every class, and so on."""
    chosen = suspects.conflict & among
    ranked = [_strongest(suspects, chosen & (targets == c), LOOKS) for c in range(classes)]
    turns = [each[turn] for turn in range(LOOKS) for each in ranked if turn < len(each)]
    return turns[:LOOKS]

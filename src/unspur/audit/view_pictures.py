"""Suspects as a network gets them that cannot see something: pictures for the audit's page."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..stages.context import Context
from ..stages.results import Pictures
from ..stages.suspects import Suspects
from ..stages.thumbnails import Says, colours, described, in_turns, inputs, pictures, smaller
from .views import VIEWS


def through(context: Context, view: str, suspects: Suspects, among: Tensor, says: Says) -> Pictures:
    """Suspects of the training split, and what a network behind a view gets to see of them."""
    part = context.splits.train
    index = in_turns(suspects, among, part.targets, len(context.splits.classes))
    if not index:
        return Pictures()
    tensors = {
        f"views.{view}.images": pictures(part, index),
        f"views.{view}.seen": _seen(context, view, index),
    }
    return Pictures(tensors, {view: described(context, "train", suspects, index, says)})


def _seen(context: Context, view: str, index: Sequence[int]) -> Tensor:
    """Training samples as they are behind a view, as small pictures."""
    where, part = torch.tensor(index, dtype=torch.long), context.splits.train
    seen = torch.cat([VIEWS[view](x).cpu() for x in inputs(context, part, where)])
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in _scaling(context))
    pixels = seen * std + mean
    if part.dtype == torch.uint8:
        pixels = (255 * pixels).clamp(0, 255).round().byte()
    return smaller(colours(pixels)).byte()


def _scaling(context: Context) -> tuple[Sequence[float], Sequence[float]]:
    """What images are normalised by: nothing, unless a user has said so."""
    data = context.recipe.data
    return (data.mean, data.std) if data.mean else ((0.0,), (1.0,))

"""Make pictures of suspects as seen through a view, for the audit's page."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..stages.context import Context
from ..stages.results import Pictures
from ..stages.suspects import Suspects
from ..stages.thumbnails import Says, colours, describe, inputs, pick_by_class, pictures, shrink
from . import audit_networks
from .views import detail


def pictures_through(
    context: Context, view: str, suspects: Suspects, among: Tensor, says: Says
) -> Pictures:
    """Return pictures of training suspects, unchanged and as seen through a view."""
    part = context.splits.train
    index = pick_by_class(suspects, among, part.targets, len(context.splits.classes))
    if not index:
        return Pictures()
    tensors = {
        f"views.{view}.images": pictures(part, index),
        f"views.{view}.seen": _through(context, view, index),
    }
    return Pictures(tensors, {view: describe(context, "train", suspects, index, says)})


def _through(context: Context, name: str, index: Sequence[int]) -> Tensor:
    """Return small pictures of training samples as seen through a view."""
    where, part = torch.tensor(index, dtype=torch.long), context.splits.train
    view = audit_networks.find(name).view
    assert view is not None, f"{name} has a view"
    seen = torch.cat([view(x).cpu() for x in inputs(context, part, where)])
    if view is detail:
        return shrink(colours(_as_grey(seen))).byte()
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in _scaling(context))
    pixels = seen * std + mean
    if part.dtype == torch.uint8:
        pixels = (255 * pixels).clamp(0, 255).round().byte()
    return shrink(colours(pixels)).byte()


def _as_grey(differences: Tensor) -> Tensor:
    """Return differences as pictures: grey is 0, and the largest difference has full contrast."""
    largest = differences.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-9)
    return (127.5 * (1 + differences / largest)).clamp(0, 255).round().byte()


def _scaling(context: Context) -> tuple[Sequence[float], Sequence[float]]:
    """Return the mean and standard deviation that images are normalised by; 0 and 1 unless set."""
    data = context.recipe.data
    return (data.mean, data.std) if data.mean else ((0.0,), (1.0,))

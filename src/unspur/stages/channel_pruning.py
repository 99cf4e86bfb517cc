"""The parts of the pruning stage that differ if whole channels are pruned instead of single weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import masks, noise
from ..errors import RecipeError
from ..masks.channels import Channels, removable
from ..masks.channels.gates import Gate, unit_masks
from ..masks.channels.shares import MultiplyAddCounter, keep_share, norms
from .context import Context


def check(context: Context) -> None:
    """Raise if the recipe combines channels with a setting that needs masks on single weights."""
    settings, plan = context.recipe.prune, context.recipe.plan
    if settings.unit == "weight":
        return
    if plan == "control":
        raise RecipeError(
            'plan = "control" compares masks of single weights. With prune.unit = "channel" compare with '
            'plan = "dcwp" and prune.how = "magnitude" or "random".'
        )
    if settings.how == "grasp":
        raise RecipeError(
            'prune.how = "grasp" scores single weights. With prune.unit = "channel" use "learned", '
            '"magnitude" or "random".'
        )


def cut(context: Context, model: nn.Module) -> dict[str, Tensor]:
    """Return masks by magnitude or at random that keep a share of the multiply–adds; nothing is trained."""
    settings = context.recipe.prune
    model = context.network({name: t.cpu() for name, t in model.state_dict().items()})
    channels = removable(model, context.probe)
    if settings.how == "magnitude":
        scores = norms(model, channels)
    else:
        seed, shape = context.seed("masks"), (channels.count,)
        scores = noise.uniform(seed, 0, noise.FIRST_WEIGHT, shape)
    counter = MultiplyAddCounter.of(model, channels, context.probe)
    keep = keep_share(scores, counter, settings.keep, spread=settings.spread)
    return unit_masks(model, channels, keep)


@torch.no_grad()
def fit(context: Context, model: nn.Module) -> None:
    """Set the logits of learned masks, in place, so that they keep a share of the multiply–adds."""
    settings = context.recipe.prune
    gates = [g for g in masks.learned(model).values() if isinstance(g, Gate)]
    channels: Channels = gates[0].channels
    scores = torch.zeros(channels.count)
    for gate in gates:
        scores[gate.members] = gate.logits.detach().cpu()
    counter = MultiplyAddCounter.of(context.network(), channels, context.probe)
    keep = keep_share(scores, counter, settings.keep, spread=settings.spread)
    for gate in gates:
        signs = torch.where(keep[gate.members], 1.0, -1.0)
        gate.logits.copy_(signs.to(gate.logits.device))

"""What the stage of pruning does differently where whole channels are cut instead of weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from . import masks, noise
from .channels import Channels, removable
from .channels.cutting import Bill, keep_share, norms
from .errors import RecipeError
from .lab import Lab


def check(lab: Lab) -> None:
    """Raise if a recipe asks of channels what only single weights can do."""
    settings, plan = lab.recipe.prune, lab.recipe.plan
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


def cut(lab: Lab, model: nn.Module) -> dict[str, Tensor]:
    """The masks of a rule that needs no training: its units fit into a share of the multiply–adds."""
    settings = lab.recipe.prune
    model = lab.network({name: t.cpu() for name, t in model.state_dict().items()})
    channels = removable(model, lab.probe)
    stream = noise.FIRST_WEIGHT
    scores = (
        norms(model, channels)
        if settings.how == "magnitude"
        else noise.uniform(lab.seed("masks"), 0, stream, (channels.count,))
    )
    keep = keep_share(
        scores, Bill.of(model, channels, lab.probe), settings.keep, spread=settings.spread
    )
    return masks.of_units(model, channels, keep)


@torch.no_grad()
def fit(lab: Lab, model: nn.Module) -> None:
    """Move the thresholds of learned masks so that what they keep fits into the share, in place."""
    settings = lab.recipe.prune
    gates = [g for g in masks.learned(model).values() if isinstance(g, masks.Gate)]
    channels: Channels = gates[0].channels
    scores = torch.zeros(channels.count)
    for gate in gates:
        scores[gate.members] = gate.logits.detach().cpu()
    bill = Bill.of(lab.network(), channels, lab.probe)
    keep = keep_share(scores, bill, settings.keep, spread=settings.spread)
    for gate in gates:
        signs = torch.where(keep[gate.members], 1.0, -1.0)
        gate.logits.copy_(signs.to(gate.logits.device))

"""Attach learned masks of either kind: on single weights, or on whole channels."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import MaskError
from . import verbs
from .channels.gates import attach_channels
from .layers import NoiseOn
from .multiply_adds import uses

Unit = Literal["weight", "channel"]
Weigh = Literal["weights", "macs"]


def attach(
    model: nn.Module,
    *,
    select: verbs.Select = verbs.weights,
    init: float = 1.5,
    noise: NoiseOn = "logit",
    keep_zero: bool = False,
    seed: int = 0,
    unit: Unit = "weight",
    weigh: Weigh = "weights",
    example: Tensor | None = None,
) -> list[str]:
    """Attach a learned mask to every selected weight, in place; return the names of the masked weights.

    With unit="channel" every removable channel gets a mask, and `select` is not used. `weigh` sets what the
    sparsity loss counts: weights, or multiply–adds. unit="channel" and weigh="macs" need `example`, a few
    images as network input.
    """
    if unit == "channel":
        return attach_channels(
            model,
            _require(example, 'unit="channel"'),
            count_macs=weigh == "macs",
            init=init,
            on=noise,
            keep_zero=keep_zero,
            seed=seed,
        )
    names = verbs.attach(
        model, select=select, init=init, noise=noise, keep_zero=keep_zero, seed=seed
    )
    if weigh == "macs":
        _count_macs(model, _require(example, 'weigh="macs"'))
    return names


def _count_macs(model: nn.Module, example: Tensor) -> None:
    """Set the cost of every logit to the multiply–adds of its weight, scaled to a mean of 1."""
    masks = verbs.learned(model)
    times = uses(model, example, list(masks))
    size = sum(mask.logits.numel() for mask in masks.values())
    total = sum(mask.logits.numel() * times[name] for name, mask in masks.items())
    for name, mask in masks.items():
        mask.cost = torch.tensor(times[name] * size / total)


def _require(example: Tensor | None, option: str) -> Tensor:
    if example is None:
        raise MaskError(f"{option} needs example=..., a few images as network input.")
    return example

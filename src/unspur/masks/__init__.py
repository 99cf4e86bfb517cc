"""Masks on networks: verbs on single weights, the layers and kernels behind them, whole channels.

`verbs.py` and `layers.py` are masks on weights and know nothing of `channels/`.
May import: deprecation, errors, models, noise.
"""

from .attaching import Unit, Weigh, attach
from .layers import FixedMask, LearnedMask, NoiseOn, concrete, straight_through
from .verbs import (
    apply,
    bake,
    density,
    follow,
    harden,
    learned,
    logits,
    plain_state,
    weights,
)

__all__ = [
    "FixedMask",
    "LearnedMask",
    "NoiseOn",
    "Unit",
    "Weigh",
    "apply",
    "attach",
    "bake",
    "concrete",
    "density",
    "follow",
    "harden",
    "learned",
    "logits",
    "plain_state",
    "straight_through",
    "weights",
]

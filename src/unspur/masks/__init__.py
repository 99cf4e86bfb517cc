"""Masks on networks: on single weights (functions, layers, GPU kernels) and on whole channels.

`verbs.py` and `layers.py` hold masks on single weights and do not depend on `channels/`.
May import: deprecation, errors, models, noise.
"""

from .attaching import attach
from .compile_ahead import compile_ahead
from .layers import FixedMask, LearnedMask, concrete
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
    "apply",
    "attach",
    "bake",
    "compile_ahead",
    "concrete",
    "density",
    "follow",
    "harden",
    "learned",
    "logits",
    "plain_state",
    "weights",
]

"""Masks as parametrizations: learned, fixed, or shared by several parameters.

`verbs.py` attaches them to a model and removes them.
"""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor, nn

from .. import noise
from . import blockwise

kernels: ModuleType | None = None
if torch.version.cuda:
    with contextlib.suppress(ImportError):  # most builds of torch for NVIDIA GPUs include Triton
        from . import kernels

NoiseOn = Literal["logit", "probability"]


def concrete(
    logits: Tensor, g: Tensor, *, on: NoiseOn = "logit", temperature: float = 1.0
) -> Tensor:
    """Return the soft sample of a keep decision: the logistic noise `g` added to θ, or to σ(θ)."""
    centre = logits if on == "logit" else torch.sigmoid(logits)
    shifted = centre + g
    return torch.sigmoid(shifted if temperature == 1 else shifted / temperature)


def straight_through(soft: Tensor) -> Tensor:
    """Return 0 or 1 in the forward pass, with the gradient of `soft` in the backward pass."""
    hard = (soft > 0.5).to(soft.dtype)
    # Exactly 0 or 1: 1 - soft is exact wherever soft > 1/2.
    return soft + (hard - soft).detach()


class LearnedMask(nn.Module):
    """A parametrization that multiplies a weight by a learned mask.

    `cost` is the weight of an entry in the sparsity loss; None counts as 1. If
    `keeps_sums` is set and a GPU kernel computes the mask, `sums` are the sums of blocks of the logits.
    """

    cost: Tensor | None

    def __init__(
        self, weight: Tensor, *, init: float, on: NoiseOn, keep_zero: bool, seed: int, stream: int
    ):
        super().__init__()
        self.logits = nn.Parameter(torch.full_like(weight, init, requires_grad=True))
        self.register_buffer("cost", None, persistent=False)
        self.on: NoiseOn = on
        self.keep_zero = keep_zero
        self.seed, self.stream = seed, stream
        self.step: int | Tensor = 0
        self.keeps_sums = False
        self.sums: Tensor | None = None

    def keep(self) -> Tensor:
        """Return the thresholded mask, as booleans."""
        logits = self.logits.detach()
        return logits >= 0 if self.keep_zero else logits > 0

    def forward(self, weight: Tensor) -> Tensor:
        if not self.training:
            return weight * self.keep()
        if not weight.requires_grad and (fused := _fused(weight, self.logits, self.step)):
            keys = noise.stream_keys(self.seed, self.stream)
            masked, sums = fused.sample(weight, self.logits, self.step, *keys, self.on == "logit")
            self.sums = sums if self.keeps_sums else None
            return masked
        if not weight.requires_grad and blockwise.fits(weight, self.logits):
            at = noise.step_keys(self.seed, self.step, self.stream)
            if at is not None:
                return blockwise.sample(weight, self.logits, at, self.on == "logit")
        u = noise.uniform(self.seed, self.step, self.stream, tuple(weight.shape), weight.device)
        mask = straight_through(concrete(self.logits, noise.logistic(u), on=self.on))
        return weight * mask.to(weight.dtype)


class SharedMask(nn.Module):
    """A parametrization whose mask is learned once for several parameters, in `gate`."""

    gate: NamedMask

    def decision(self, model: nn.Module) -> Tensor:
        """Return which units the gates of `model` keep."""
        raise NotImplementedError

    def masks(self, model: nn.Module, keep: Tensor) -> dict[str, Tensor]:
        """Return the masks on all parameters of the unmasked `model` that keep only these units."""
        raise NotImplementedError


class NamedMask(LearnedMask):
    """A learned mask that several parameters share, under the name of the weight it belongs to."""

    name: str


class FixedMask(nn.Module):
    """A parametrization that multiplies a weight by a known mask.

    With `drop`, a random share of the kept weights is set to 0 at every training step, and the others are
    scaled up (dropout of weights), so that fine-tuning does not rely on single weights.
    """

    keep: Tensor

    def __init__(self, keep: Tensor, *, drop: float = 0.0, seed: int = 0, stream: int = 0):
        super().__init__()
        self.register_buffer("keep", keep.to(torch.bool))
        self.drop = drop
        self.seed, self.stream = seed, stream
        self.step: int | Tensor = 0

    def forward(self, weight: Tensor) -> Tensor:
        if self.drop == 0 or not self.training:
            return weight * self.keep
        if fused := _fused(weight, self.keep, self.step):
            keys = noise.stream_keys(self.seed, self.stream)
            return fused.thin(weight, self.keep, self.step, *keys, self.drop)
        u = noise.uniform(self.seed, self.step, self.stream, tuple(weight.shape), weight.device)
        return weight * ((u >= self.drop) & self.keep) / (1 - self.drop)


def _fused(weight: Tensor, other: Tensor, step: int | Tensor) -> Fused | None:
    """Return the GPU kernels of the masks, if they support this weight."""
    if kernels is None or not weight.is_cuda or not isinstance(step, Tensor):
        return None
    return cast(Fused, kernels) if kernels.fits(weight, other) else None


class Fused(Protocol):
    """The functions of `kernels.py` that the masks use."""

    def sample(
        self, weight: Tensor, logits: Tensor, step: Any, first: int, second: int, on_logit: bool, /
    ) -> tuple[Tensor, Tensor]: ...
    def thin(
        self, x: Tensor, keep: Tensor, step: Any, first: int, second: int, drop: float, /
    ) -> Tensor: ...

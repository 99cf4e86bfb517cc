"""Losses as pure functions of tensors; each names its equation in the paper (CVPR 2023) or its source.

All keep fixed shapes: "skip" and "if none" are masked arithmetic, so a step can be captured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Positives = Literal["either", "column"]
Sparsity = Literal["sum", "absolute", "probability"]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of each sample, in float32 at least."""
    return F.cross_entropy(_full(logits), targets, reduction="none")


def gce(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """Generalised cross entropy (1 - p^q) / q of each sample: easy samples dominate its gradient."""
    # 1 - p^q as -expm1(q log p): its gradient stays finite where p underflows.
    return -torch.expm1(-q * cross_entropy(logits, targets)) / q


def gce_released(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """The form the released codes run: cross entropy times a constant q·p^q (0.7 × the true gradient)."""
    p = F.softmax(_full(logits).detach(), dim=1).gather(1, targets[:, None]).squeeze(1)
    return q * p**q * cross_entropy(logits, targets)


def confident_cross_entropy(logits: Tensor, targets: Tensor, *, eta: float = 0.05) -> Tensor:
    """Mean cross entropy over the samples with p > eta; 0 where there are none (epoch-ensemble miner)."""
    losses = cross_entropy(logits, targets)
    picked = torch.exp(-losses.detach()) > eta
    return masked_mean(losses, picked)


def group_cross_entropy(losses: Tensor, conflict: Tensor, *, up: float) -> Tensor:
    """ℓ_WCE as written: up × the mean over conflicting plus the mean over the other samples."""
    return up * masked_mean(losses, conflict) + masked_mean(losses, ~conflict)


def masked_mean(values: Tensor, among: Tensor) -> Tensor:
    """The mean over the marked entries; 0 where none is marked."""
    return torch.where(among, values, 0.0).sum() / among.sum().clamp(min=1)


def contrast(
    features: Tensor, positive: Tensor, *, temperature: float = 0.07
) -> tuple[Tensor, Tensor]:
    """Supervised contrastive loss of each anchor (0 without a positive), and whether it has one.

    `features` (B, D) are L2-normalised; `positive` (B, B) marks the pairs to pull together. The
    denominator runs over the whole batch but the anchor itself.
    """
    features = _full(features)
    own = torch.eye(len(features), dtype=torch.bool, device=features.device)
    positive = positive & ~own
    # A large negative number, not -inf: a batch of one must give 0, not NaN.
    similarity = (features @ features.T / temperature).masked_fill(own, -1e30)
    log_share = similarity - torch.logsumexp(similarity, dim=1, keepdim=True)
    count = positive.sum(1)
    pulled = torch.where(positive, log_share, 0.0).sum(1)
    return -pulled / count.clamp(min=1), count > 0


def alignment(
    features: Tensor,
    targets: Tensor,
    conflict: Tensor,
    *,
    temperature: float = 0.07,
    positives: Positives = "either",
) -> Tensor:
    """ℓ_align: conflicting samples are pulled to their class, the others to its conflicting samples.

    Features are normalised here. `positives="column"` is what the released code runs: only pairs
    whose second sample is conflicting. Anchors without a positive are left out of the mean.
    """
    same = targets[:, None] == targets[None]
    flagged = conflict[None].expand_as(same)
    if positives == "either":
        flagged = flagged | conflict[:, None]
    losses, has = contrast(
        F.normalize(_full(features), dim=1), same & flagged, temperature=temperature
    )
    return masked_mean(losses, has)


def sparsity(logits: Iterable[Tensor], *, kind: Sparsity = "sum") -> Tensor:
    """The pressure on mask logits: Σθ (released code), Σ|θ| (paper) or Σσ(θ) (expected weights kept)."""
    if kind == "absolute":
        logits = (each.abs() for each in logits)
    elif kind == "probability":
        logits = (torch.sigmoid(each) for each in logits)
    return torch.stack([each.sum() for each in logits]).sum()


def _full(x: Tensor) -> Tensor:
    """At least float32: half precision loses the tails of softmax."""
    return x if x.dtype == torch.float64 else x.float()

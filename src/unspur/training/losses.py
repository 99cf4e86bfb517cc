"""Losses as pure functions of tensors; each names its equation in the paper (CVPR 2023) or its source.

All keep fixed shapes: "skip" and "if none" are masked arithmetic, so a step can be captured. Logits and
features are float32 at least; within autocast the products of features are in its type, as a network's are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Positives = Literal["either", "column"]
Sparsity = Literal["sum", "absolute", "probability"]
Pairs = Literal["all", "released"]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy of each sample, in float32 at least."""
    return F.cross_entropy(_full(logits), targets, reduction="none")


def gce(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """Return (1 - p^q) / q, the generalised cross entropy: easy samples dominate its gradient."""
    # 1 - p^q as -expm1(q log p): its gradient stays finite where p underflows.
    return -torch.expm1(-q * cross_entropy(logits, targets)) / q


def gce_released(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """Return the released form: cross entropy times a constant q·p^q (0.7 × the true gradient)."""
    p = F.softmax(_full(logits).detach(), dim=1).gather(1, targets[:, None]).squeeze(1)
    return q * p**q * cross_entropy(logits, targets)


def confident_cross_entropy(
    logits: Tensor, targets: Tensor, *, eta: float | Tensor = 0.05
) -> Tensor:
    """Return the mean cross entropy over samples with p > eta, 0 if there are none (epoch-ensemble miner)."""
    losses = cross_entropy(logits, targets)
    picked = torch.exp(-losses.detach()) > eta
    return masked_mean(losses, picked)


def group_cross_entropy(losses: Tensor, conflict: Tensor, *, up: float) -> Tensor:
    """Return ℓ_WCE as written: up × the mean over conflicting plus the mean over the other samples."""
    return up * masked_mean(losses, conflict) + masked_mean(losses, ~conflict)


def masked_mean(values: Tensor, among: Tensor) -> Tensor:
    """Return the mean over the marked entries; 0 if none is marked."""
    return torch.where(among, values, 0.0).sum() / among.sum().clamp(min=1)


def contrast(
    features: Tensor, positive: Tensor, *, temperature: float = 0.07
) -> tuple[Tensor, Tensor]:
    """Return the supervised contrastive loss of each anchor (0 without a positive), and whether it has one.

    `features` (B, D) are L2-normalised; `positive` (B, B) marks the pairs to pull together. The
    denominator runs over the whole batch but the anchor itself.
    """
    features = _full(features)
    diagonal = torch.eye(len(features), dtype=torch.bool, device=features.device)
    positive = positive & ~diagonal
    # A large negative number, not -inf: a batch of one must give 0, not NaN.
    similarity = (features @ features.T / temperature).masked_fill(diagonal, -1e30)
    log_share = F.log_softmax(similarity, dim=1)
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
    """Return ℓ_align: conflicting samples are pulled to their class, the others to its conflicting samples.

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


def disentangle(features: Tensor, bias: Tensor) -> Tensor:
    """Return EnD's R⊥: (1/M) Σ_v |Σ cosines of the pairs that share the bias v|, M such pairs; or 0."""
    same = _earlier(len(bias), bias.device) & (bias[:, None] == bias)
    by_sample = torch.where(same, _cosines(features), 0.0).sum(1)
    members = (bias[:, None] == bias).to(by_sample.dtype)
    # Every sample of a bias holds the sum over that bias: their mean is one term of Σ_v.
    over_bias = (members * by_sample).sum(1).abs() / members.sum(1)
    return over_bias.sum() / same.sum().clamp(min=1)


def entangle(features: Tensor, targets: Tensor, bias: Tensor, *, pairs: Pairs = "all") -> Tensor:
    """Return EnD's R∥: 1 minus the mean of (1 + cosine) / 2 over pairs of one class and two biases.

    `pairs="released"` counts, as the released code does, only those whose later sample has the smaller bias.
    """
    other = bias[:, None] < bias if pairs == "released" else bias[:, None] != bias
    wanted = _earlier(len(bias), bias.device) & (targets[:, None] == targets) & other
    closeness = masked_mean((1 + _cosines(features)) / 2, wanted)
    return torch.where(wanted.any(), 1 - closeness, 0.0)


def _cosines(features: Tensor) -> Tensor:
    features = F.normalize(_full(features), dim=1)
    return (features @ features.T).clamp(-1, 1)


def _earlier(size: int, device: torch.device) -> Tensor:
    """Mark the pairs (i, j) with j before i."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


def hsic(x: Tensor, y: Tensor, *, radius_x: float = 1.0, radius_y: float = 1.0) -> Tensor:
    """Return the dependence of two sets of features: the unbiased HSIC estimator with RBF kernels (ReBias).

    It needs four samples, and is 0 of fewer.
    """
    m = len(x)
    if m < 4:
        return 0.0 * (x.sum() + y.sum())
    k, h = _kernel(x, radius_x), _kernel(y, radius_y)
    total = (
        (k * h).sum()
        + k.sum() * h.sum() / ((m - 1) * (m - 2))
        - 2 / (m - 2) * (k.sum(0) * h.sum(1)).sum()
    )
    return (total / (m * (m - 3))).to(_full(x).dtype)


def _kernel(x: Tensor, radius: float) -> Tensor:
    """Return exp(-‖a - b‖² / 2r²) of every pair, 0 for a sample with itself."""
    x = x.double()  # the estimator's terms cancel, and TF32 products would not do
    size = x.square().sum(1)
    distance = (size[:, None] + size - 2 * x @ x.T).clamp(min=0)
    diagonal = torch.eye(len(x), dtype=torch.bool, device=x.device)
    return torch.exp(-distance / (2 * radius**2)).masked_fill(diagonal, 0.0)


def sparsity(
    logits: Iterable[Tensor],
    *,
    kind: Sparsity = "sum",
    costs: Iterable[Tensor | None] | None = None,
) -> Tensor:
    """Return the penalty on mask logits: Σθ (released code), Σ|θ| (paper) or Σσ(θ) (expected weights kept).

    With `costs` each counts as much as it costs.
    """
    if kind == "absolute":
        logits = (each.abs() for each in logits)
    elif kind == "probability":
        logits = (torch.sigmoid(each) for each in logits)
    if costs is not None:
        pairs = zip(logits, costs, strict=True)
        logits = (each if cost is None else each * cost for each, cost in pairs)
    return torch.stack([each.sum() for each in logits]).sum()


def _full(x: Tensor) -> Tensor:
    """Convert to float32 at least: half precision loses the tails of softmax."""
    return x if x.dtype == torch.float64 else x.float()

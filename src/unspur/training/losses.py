"""Losses as pure functions of tensors; each names its equation in the paper (CVPR 2023) or its source.

Shapes do not depend on the data: samples are left out with masks, so that a step can be captured. Logits and
features are converted to float32 at least. Under autocast the products of features use its type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Positives = Literal["either", "column", "text"]
Sparsity = Literal["sum", "absolute", "probability"]
Pairs = Literal["all", "released"]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy of each sample, in float32 at least."""
    return F.cross_entropy(_full(logits), targets, reduction="none")


def gce(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """Return (1 - p^q) / q, the generalised cross entropy: its gradient is dominated by easy samples."""
    # 1 - p^q is computed as -expm1(q log p), whose gradient stays finite if p underflows.
    return -torch.expm1(-q * cross_entropy(logits, targets)) / q


def gce_released(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """Return GCE as in the released code: cross entropy times q·p^q, detached (q × the true gradient)."""
    p = F.softmax(_full(logits).detach(), dim=1).gather(1, targets[:, None]).squeeze(1)
    return q * p**q * cross_entropy(logits, targets)


def confident_cross_entropy(
    logits: Tensor, targets: Tensor, *, eta: float | Tensor = 0.05
) -> Tensor:
    """Return the mean cross entropy over samples with p > eta, or 0 if there are none."""
    losses = cross_entropy(logits, targets)
    confident = torch.exp(-losses.detach()) > eta
    return masked_mean(losses, confident)


def group_cross_entropy(losses: Tensor, conflict: Tensor, *, up: float) -> Tensor:
    """Return ℓ_WCE as in the paper: up × the mean over conflicting plus the mean over other samples."""
    return up * masked_mean(losses, conflict) + masked_mean(losses, ~conflict)


def masked_mean(values: Tensor, among: Tensor) -> Tensor:
    """Return the mean over the entries in `among`, or 0 if there are none."""
    return torch.where(among, values, 0.0).sum() / among.sum().clamp(min=1)


def contrast(
    features: Tensor, positive: Tensor, *, temperature: float = 0.07
) -> tuple[Tensor, Tensor]:
    """Return the supervised contrastive loss of each anchor (0 without a positive), and whether it has one.

    `features` (B, D) are L2-normalised; `positive` (B, B) marks the pairs to pull together. The
    denominator is a sum over the whole batch except the anchor.
    """
    features = _full(features)
    diagonal = torch.eye(len(features), dtype=torch.bool, device=features.device)
    positive = positive & ~diagonal
    # A large negative number, not -inf: a batch of one must give 0, not NaN.
    similarity = (features @ features.T / temperature).masked_fill(diagonal, -1e30)
    log_share = F.log_softmax(similarity, dim=1)
    count = positive.sum(1)
    total = torch.where(positive, log_share, 0.0).sum(1)
    return -total / count.clamp(min=1), count > 0


def alignment(
    features: Tensor,
    targets: Tensor,
    conflict: Tensor,
    *,
    temperature: float = 0.07,
    positives: Positives = "either",
) -> Tensor:
    """Return ℓ_align: pull conflicting samples to their class, and other samples to its conflicting ones.

    Features are normalised here. `positives="column"` is the form of the released code: only pairs
    whose second sample is conflicting. Anchors without a positive are left out of the mean.
    `positives="text"` is the formula of the paper's text, see `alignment_of_text`.
    """
    features = F.normalize(_full(features), dim=1)
    same = targets[:, None] == targets[None]
    flagged = conflict[None].expand_as(same)
    if positives != "column":
        flagged = flagged | conflict[:, None]
    if positives == "text":
        return alignment_of_text(features, same & flagged, conflict, temperature=temperature)
    losses, has_positive = contrast(features, same & flagged, temperature=temperature)
    return masked_mean(losses, has_positive)


def alignment_of_text(
    features: Tensor, positive: Tensor, conflict: Tensor, *, temperature: float
) -> Tensor:
    """Return ℓ_con(S_bc, S) + ℓ_con(S_ba, S_bc) by the letter of the paper's text.

    It is a sum over anchors, not a mean. The denominator of an anchor is a sum over the other anchors of its
    term: the conflicting samples of the batch, or all others.
    """
    itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    others = (conflict[:, None] == conflict[None]) & ~itself
    positive = positive & ~itself
    similarity = features @ features.T / temperature
    # A large negative number, not -inf: an anchor without others must give 0, not NaN.
    norm = similarity.masked_fill(~others, -1e30).logsumexp(1)
    log_shares = torch.where(positive, similarity - norm[:, None], 0.0)
    each = -log_shares.sum(1) / positive.sum(1).clamp(min=1)
    return torch.where(positive.any(1) & others.any(1), each, 0.0).sum()


def disentangle(features: Tensor, bias: Tensor) -> Tensor:
    """Return EnD's R⊥: (1/M) Σ_v |Σ cosines of the pairs with bias v|, with M such pairs; 0 if M = 0."""
    same = _earlier(len(bias), bias.device) & (bias[:, None] == bias)
    by_sample = torch.where(same, _cosines(features), 0.0).sum(1)
    members = (bias[:, None] == bias).to(by_sample.dtype)
    # Every sample with bias v gets the sum for v, so their mean is one term of Σ_v.
    over_bias = (members * by_sample).sum(1).abs() / members.sum(1)
    return over_bias.sum() / same.sum().clamp(min=1)


def entangle(features: Tensor, targets: Tensor, bias: Tensor, *, pairs: Pairs = "all") -> Tensor:
    """Return EnD's R∥: 1 minus the mean of (1 + cosine) / 2 over pairs of one class and two biases.

    `pairs="released"` counts only pairs whose later sample has the smaller bias, as the released code does.
    """
    other = bias[:, None] < bias if pairs == "released" else bias[:, None] != bias
    chosen = _earlier(len(bias), bias.device) & (targets[:, None] == targets) & other
    closeness = masked_mean((1 + _cosines(features)) / 2, chosen)
    return torch.where(chosen.any(), 1 - closeness, 0.0)


def _cosines(features: Tensor) -> Tensor:
    features = F.normalize(_full(features), dim=1)
    return (features @ features.T).clamp(-1, 1)


def _earlier(size: int, device: torch.device) -> Tensor:
    """Mark the pairs (i, j) with j before i."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril(-1)


def hsic(x: Tensor, y: Tensor, *, radius_x: float = 1.0, radius_y: float = 1.0) -> Tensor:
    """Return the dependence of two sets of features: the unbiased HSIC estimator with RBF kernels (ReBias).

    It needs at least four samples; with fewer it is 0.
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
    """Return exp(-‖a - b‖² / 2r²) of every pair, and 0 on the diagonal."""
    x = x.double()  # the terms of the estimator cancel, so TF32 products are not exact enough
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

    `costs` are factors of the terms; None counts as 1.
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

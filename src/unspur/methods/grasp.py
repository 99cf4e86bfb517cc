"""GraSP: prune before training and preserve the gradient flow (Wang et al., ICLR 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from .. import noise
from ..training import losses
from .entry import MethodEntry


def scores(
    model: nn.Module, names: Iterable[str], x: Tensor, y: Tensor, *, temperature: float = 200.0
) -> dict[str, Tensor]:
    """Return -θ·(Hg) of every named weight; removing a weight with a high score raises the gradient flow.

    The batch is split into two halves, each with its own mean loss; g and Hg are sums over the halves.
    Weights that the output does not depend on have the score 0.
    """
    parameters = dict(model.named_parameters())
    weights = {name: parameters[name].requires_grad_() for name in names}  # also of frozen layers
    middle = len(y) // 2
    halves = [(x[:middle], y[:middle]), (x[middle:], y[middle:])]
    gradient = [torch.zeros_like(w) for w in weights.values()]
    for half in halves:
        gradients = _gradients(_loss(model, *half, temperature), weights)
        gradient = [g + f for g, f in zip(gradient, gradients, strict=True)]
    product = hessian_product(model, weights, halves, gradient, temperature=temperature)
    return {name: -weights[name].detach() * product[name] for name in weights}


def hessian_product(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    parts: Iterable[tuple[Tensor, Tensor]],
    direction: list[Tensor],
    *,
    temperature: float,
) -> dict[str, Tensor]:
    """Return the Hessian of the loss (a sum over parts of the data) times a direction, by weight name."""
    product = [torch.zeros_like(w) for w in weights.values()]
    for x, y in parts:
        loss = _loss(model, x, y, temperature)
        gradient = _gradients(loss, weights, create_graph=True)
        along = torch.stack([(g * d).sum() for g, d in zip(gradient, direction, strict=True)]).sum()
        gradients = _gradients(along, weights)
        product = [p + f for p, f in zip(product, gradients, strict=True)]
    return dict(zip(weights, product, strict=True))


def _gradients(
    loss: Tensor, weights: Mapping[str, Tensor], *, create_graph: bool = False
) -> tuple[Tensor, ...]:
    """Return the gradient of each weight, 0 where the loss does not depend on it."""
    return torch.autograd.grad(
        loss, list(weights.values()), create_graph=create_graph, materialize_grads=True
    )


def _loss(model: nn.Module, x: Tensor, y: Tensor, temperature: float) -> Tensor:
    return losses.cross_entropy(model(x) / temperature, y).mean()


def balanced_subset(targets: Tensor, among: Tensor, *, each: int, seed: int) -> Tensor:
    """Return `each` samples of every class (all of them in a smaller class), sorted by class."""
    keys = noise.uniform(seed, 0, noise.PERMUTE, (len(targets),))
    order = torch.sort(torch.where(among, keys, 2.0)).indices[: int(among.sum())]
    picks = [order[targets[order] == c][:each] for c in range(int(targets.max()) + 1)]
    return torch.cat(picks)


ENTRY = MethodEntry("grasp", "GraSP", "Wang et al., ICLR 2020", "1", stages=("prune", "finetune"))

"""Predict with a network, and select tensors by a prefix of their name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from ..parallel import shared_pass


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, by the rest of their name."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


@torch.no_grad()
def predict(model: Callable[[Tensor], Tensor], inputs: Iterator[Tensor]) -> Tensor:
    """Return the outputs for all inputs, in order, on the CPU; the caller puts the model in eval mode.

    Several processes divide the inputs, and each gets the outputs of all.
    """
    with shared_pass() as shared:
        outputs = [model(x).float() for x in inputs]
    return torch.cat(outputs).cpu() if shared is None else shared.gather(outputs)

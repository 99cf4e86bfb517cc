"""Check that results are finite before they are stored or returned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import TrainingError

if TYPE_CHECKING:
    from torch import Tensor


def check_finite(what: str, tensors: Mapping[str, Tensor], facts: Any = None) -> None:
    """Raise TrainingError if a tensor, or a number in the nested `facts`, is infinite or NaN."""
    import torch

    bad = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    bad += _bad_numbers(facts, "")
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise TrainingError(
            f"{what} contains values that are infinite or NaN: {', '.join(bad[:3])}{more}. It is not stored. "
            "Lower the learning rate or change other settings of this stage, and check the images."
        )


def _bad_numbers(facts: Any, where: str) -> Iterator[str]:
    """Yield the location of every number in nested facts that is not finite."""
    if isinstance(facts, float) and not math.isfinite(facts):
        yield where
    if isinstance(facts, Mapping):
        for name, value in facts.items():
            yield from _bad_numbers(value, f"{where}.{name}".lstrip("."))
    if isinstance(facts, list | tuple):
        for number, value in enumerate(facts):
            yield from _bad_numbers(value, f"{where}[{number}]")

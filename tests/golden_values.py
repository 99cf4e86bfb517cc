"""Load tests/golden/*.json: inputs and outputs of the reference implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

FOLDER = Path(__file__).parent / "golden"


def cases(name: str) -> list[Any]:
    """The cases of one golden file as pytest parameters (inputs, outputs), named by their notes."""
    found = json.loads((FOLDER / f"{name}.json").read_text())["cases"]
    return [
        pytest.param(case["inputs"], case["outputs"], id=f"{order}-{case.get('note', name)[:30]}")
        for order, case in enumerate(found)
    ]


def floats(values: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    """A floating-point tensor of nested lists; null becomes NaN."""
    return torch.tensor(_null_to_nan(values), dtype=dtype)


def close(
    actual: Tensor | float, expected: Any, *, rtol: float = 1e-9, atol: float = 1e-12
) -> None:
    """Assert equality within the tolerances of the golden README (those of float64 by default)."""
    actual = torch.as_tensor(actual, dtype=torch.float64)
    torch.testing.assert_close(actual.detach(), floats(expected), rtol=rtol, atol=atol)


def close_float32(actual: Tensor, expected: Any) -> None:
    """Assert equality within 1e-4 of the largest entry, the tolerance of a float32 run."""
    assert actual.dtype == torch.float32
    expected = floats(expected)
    close(actual, expected.tolist(), rtol=0, atol=1e-4 * float(expected.abs().max()))


def _null_to_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_null_to_nan(v) for v in values]
    return float("nan") if values is None else values

"""Read weights to start from: .safetensors files, and .pth and .pt files that hold plain tensors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import ModelError

INSIDE = (
    "state_dict",
    "model_state_dict",
    "model",
)  # keys under which checkpoints store the weights
COUNTERS = "num_batches_tracked"  # older files do not have these entries


def read(path: Path) -> dict[str, Tensor]:
    """Return the named tensors of a file. No code in it is ever run."""
    if not path.is_file():
        raise ModelError(f"there is no file {path} to take the weights from.")
    try:
        content: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except Exception as error:  # a file with other content can make the readers raise anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"{path} cannot be read as plain weights ({reason}). Save it again with "
            "safetensors.torch.save_file(model.state_dict(), ...) or torch.save(model.state_dict(), ...)."
        ) from None
    for key in INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(
        isinstance(k, str) and isinstance(t, Tensor) for k, t in content.items()
    ):
        raise ModelError(f"{path} holds no weights by name. Save a model's state_dict().")
    return {name.removeprefix("module."): tensor for name, tensor in content.items()}


def select_weights(
    weights: Mapping[str, Tensor], model: nn.Module, path: Path
) -> dict[str, Tensor]:
    """Return the weights that fit a network. A head for other classes is left out, with a warning.

    Raises ModelError if anything but the head differs.
    """
    expected = model.state_dict()
    wrong = [k for k in expected if k in weights and weights[k].shape != expected[k].shape]
    missing = [k for k in expected if k not in weights and not k.endswith(COUNTERS)]
    extra = [k for k in weights if k not in expected]
    heads = {name.rpartition(".")[0] for name in (*wrong, *missing)}
    head = heads.pop() if len(heads) == 1 else None
    if extra or ((wrong or missing) and (head is None or not _is_head(model, head))):
        raise ModelError(
            f"{path} does not fit the model: {describe_differences(expected, weights)}."
        )
    if head is not None:
        warnings.warn(
            f"{path}: its classifier head {head!r} does not fit; a new one is trained.",
            stacklevel=4,
        )
    prefix = f"{head}." if head is not None else None
    fitting_weights = {
        k: t for k, t in weights.items() if prefix is None or not k.startswith(prefix)
    }
    if not fitting_weights:
        raise ModelError(f"{path} has only the weights of a head. Give those of a whole model.")
    return fitting_weights


def _is_head(model: nn.Module, name: str) -> bool:
    """Return whether a module is the last nn.Linear."""
    linear = [n for n, module in model.named_modules() if isinstance(module, nn.Linear)]
    return bool(linear) and linear[-1] == name


def describe_differences(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> str:
    """Return the first few differences as text."""
    problems = [
        f"{k} is {tuple(weights[k].shape)}, not {tuple(expected[k].shape)}"
        for k in expected
        if k in weights and weights[k].shape != expected[k].shape
    ]
    problems += [
        f"{k} is missing" for k in expected if k not in weights and not k.endswith(COUNTERS)
    ]
    problems += [f"{k} is unknown" for k in weights if k not in expected]
    more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
    return ", ".join(problems[:3]) + more

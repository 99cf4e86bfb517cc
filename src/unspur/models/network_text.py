"""What a network computes, as text: the source of its classes, its layers and its settings.

Keys of stored results contain a hash of this text.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

NOT_READ = ("_name_or_path", "transformers_version")  # entries of a configuration without effect


def module_text(model: nn.Module) -> str:
    """Return all that decides what a module computes, apart from its weights."""
    plain = [_plain_attributes(module) for module in model.modules()]
    text = class_sources(model) + repr(model) + json.dumps(plain) + _configuration(model)
    return text + "".join(_unsaved_values(model))


def class_sources(model: nn.Module) -> str:
    """Return the source code of a network's classes and of their base classes."""
    kinds = {kind for module in model.modules() for kind in type(module).__mro__[:-1]}
    return "".join(sorted({_source(kind) for kind in kinds}))


def _plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes of a layer that are numbers or text, since its `forward` may read them."""
    attributes = {
        k: v for k, v in vars(module).items() if k != "training" and not k.startswith("_")
    }
    return {k: v for k, v in attributes.items() if _is_plain(v)}


def _unsaved_values(model: nn.Module) -> Iterator[str]:
    """Yield tensors, arrays and tables of plain values that are not in the state dict, with their places."""
    for path, module in model.named_modules():
        buffers = {
            name: module._buffers[name] for name in sorted(module._non_persistent_buffers_set)
        }
        own = {k: v for k, v in vars(module).items() if not k.startswith("_")}
        for name, value in (*buffers.items(), *own.items()):
            if (content := _content(value)) is not None:
                yield f"{path}.{name} {content}"


def _content(value: object) -> str | None:
    """Return the content of a tensor, an array or a table of plain values as text; None for other values."""
    if isinstance(value, dict) and value and _is_plain([*value, *value.values()]):
        text_keys = not any(isinstance(key, tuple) for key in value)
        return json.dumps(value if text_keys else list(value.items()))
    if isinstance(value, Tensor) and value.layout == torch.strided:
        content = _bytes_of(value)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = value.tobytes()
    else:
        return None
    return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"


def _bytes_of(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor, of types that numpy does not have, too."""
    values = tensor.detach().cpu().resolve_conj().resolve_neg()
    if values.is_complex():
        values = torch.view_as_real(values)
    return values.contiguous().reshape(-1, 1).view(torch.uint8).numpy().tobytes()


def _configuration(model: nn.Module) -> str:
    """Return the configuration of a network of transformers, which its `forward` may read."""
    to_dict = getattr(getattr(model, "config", None), "to_dict", dict)
    settings = {k: v for k, v in to_dict().items() if k not in NOT_READ}
    return json.dumps(settings, sort_keys=True, default=str) if settings else ""


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str | None)


def function_text(make: Callable[..., nn.Module]) -> str:
    """Return the source of a function or class, or its name if Python has no source for it."""
    try:
        return inspect.getsource(make)
    except (OSError, TypeError):
        return getattr(make, "__qualname__", type(make).__qualname__)


def _source(kind: type) -> str:
    """Return the source of a class: its name for a class of torch, its bytecode if there is no source."""
    if kind.__module__.startswith("torch."):
        return kind.__qualname__
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        codes = [f.__code__ for f in vars(kind).values() if inspect.isfunction(f)]
        return kind.__qualname__ + "".join(map(_bytecode, codes))


def _bytecode(code: CodeType) -> str:
    """Return a compiled function and its inner functions as text, without file names and line numbers."""
    constants = [_bytecode(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
    return f"{code.co_name}{code.co_code.hex()}{code.co_names}{constants}"


def _constant(value: object) -> str:
    """Return a constant as text; sets are sorted."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)

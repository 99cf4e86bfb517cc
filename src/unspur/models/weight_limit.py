"""Stop building a network with too many weights, before they use memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from ..errors import ModelError


@contextmanager
def limit_weights(most: int) -> Iterator[None]:
    """Raise ModelError as soon as the networks built within a block have more than `most` weights in total.

    A layer registers a weight before it fills it, and the system assigns memory only when it is filled.
    """
    count = 0

    def add(module: nn.Module, name: str, value: Any) -> None:
        nonlocal count
        if value is not None and not isinstance(value, nn.UninitializedParameter):
            count += max(1, value.numel())
        if count > most:
            raise ModelError(f"it has more than {most:,} weights, many more than are stored.")

    hooks = [
        register_module_parameter_registration_hook(add),
        register_module_buffer_registration_hook(add),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()

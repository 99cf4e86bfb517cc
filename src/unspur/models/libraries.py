"""Networks of timm and torchvision, which are only imported if one of their networks is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import nn

from ..errors import ModelError

TIMM, TORCHVISION = "timm:", "torchvision:"


def is_of_library(name: str) -> bool:
    """Return whether a network is one of timm or torchvision."""
    return name.startswith((TIMM, TORCHVISION))


def from_library(name: str) -> tuple[Callable[..., nn.Module], str]:
    """Return the function that builds a network of a library, and a text that identifies its code."""
    library, _, network = name.partition(":")
    module = load_library(name)
    creators: dict[str, Callable[..., nn.Module]] = {
        "timm": _create_with_timm,
        "torchvision": _create_with_torchvision,
    }

    def make(classes: int, **options: Any) -> nn.Module:
        return creators[library](module, network, classes, **options)

    version = f"{network} {module.__version__}"
    return make, version if library == "timm" else f"{library} {version}"


def load_library(name: str) -> ModuleType:
    """Import the library of a network, or raise an error that says what to do."""
    library = name.partition(":")[0]
    try:
        return importlib.import_module(library)
    except (
        ImportError,
        RuntimeError,
    ) as error:  # a torchvision that does not match the installed torch
        raise ModelError(
            f"{name} needs the package {library}, which cannot be imported ({error}). Install it with "
            f"`pip install {library}`; it needs the torchvision that was made for your torch."
        ) from None


def _create_with_timm(timm: ModuleType, name: str, classes: int, **options: Any) -> nn.Module:
    try:
        model: nn.Module = timm.create_model(name, num_classes=classes, **options)
    except RuntimeError as error:
        raise ModelError(f"timm has no model {name!r} ({error}). See timm.list_models().") from None
    return model


def _create_with_torchvision(
    torchvision: ModuleType, name: str, classes: int, **options: Any
) -> nn.Module:
    try:
        model: nn.Module = torchvision.models.get_model(
            name, weights=None, num_classes=classes, **options
        )
    except ValueError as error:
        raise ModelError(
            f"torchvision has no model {name!r} ({error}). See torchvision.models.list_models()."
        ) from None
    return model

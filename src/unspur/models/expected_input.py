"""The input that a network states for itself: timm's networks and those of transformers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from .libraries import TIMM, load_library


@dataclass(frozen=True)
class ExpectedInput:
    """The side of square images, and the mean and standard deviation of pixels; 0 or () if not known."""

    size: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


UNKNOWN = ExpectedInput()


def stated_input(model: nn.Module | str) -> ExpectedInput:
    """Return the input that a network states: a module in its attributes, a network of timm by its name.

    A network by name has random weights here. It takes images of any size, mean and standard deviation,
    unless timm says that its size is fixed.
    """
    if not isinstance(model, str):
        return _of_timm_module(model) or _of_transformers(model)
    return _fixed_by_timm(model) if model.startswith(TIMM) else UNKNOWN


def _of_timm_module(model: nn.Module) -> ExpectedInput | None:
    """Return what `timm.data.resolve_model_data_config` reads: the network's `pretrained_cfg`."""
    stated = getattr(model, "pretrained_cfg", None)
    if not isinstance(stated, Mapping) or "input_size" not in stated:
        return None
    size, mean, std = (stated.get(name) or () for name in ("input_size", "mean", "std"))
    return ExpectedInput(_side(size[-2:]), tuple(mean), tuple(std))


def _of_transformers(model: nn.Module) -> ExpectedInput:
    """Return the `image_size` of a configuration; mean and standard deviation are in no network."""
    return ExpectedInput(_side(getattr(getattr(model, "config", None), "image_size", 0)))


def _fixed_by_timm(name: str) -> ExpectedInput:
    try:
        found = load_library(name).models.get_pretrained_cfg(
            name.removeprefix(TIMM), allow_unregistered=False
        )
    except RuntimeError:  # not known to timm: building it says so
        return UNKNOWN
    return ExpectedInput(_side(found.input_size[-2:])) if found.fixed_input_size else UNKNOWN


def _side(size: object) -> int:
    """Return the side of square images; 0 where they are no squares, or no number is stated."""
    sides = size if isinstance(size, tuple | list) else [size]
    numbers = [side for side in sides if isinstance(side, int)]
    return numbers[0] if len(numbers) == len(sides) and len(set(numbers)) == 1 else 0

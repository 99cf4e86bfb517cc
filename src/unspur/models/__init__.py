"""Networks by name, from a user's file, or given; each can be built afresh for every stage."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from ..errors import ModelError
from .convnet import ConvNet
from .mlp import MLP
from .resnet import ResNet18

BUILTIN: dict[str, Callable[..., nn.Module]] = {
    "convnet": ConvNet,
    "mlp": MLP,
    "resnet18": ResNet18,
}


@dataclass(frozen=True)
class Builder:
    """Makes fresh copies of a network. `how` says it in JSON; `source` is a hash of the code behind it."""

    make: Callable[[], nn.Module]
    how: Mapping[str, Any]
    source: str

    def build(self, seed: int) -> nn.Module:
        """A fresh network; random initial weights are a function of the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make()


def builder(name: str, classes: int, options: Mapping[str, Any] | None = None) -> Builder:
    """A builder from a built-in name or from `file.py:function`, which is called with `classes`."""
    options = dict(options or {})
    if ":" in name:
        make, source = _from_file(name)
    elif name in BUILTIN:
        make, source = BUILTIN[name], inspect.getsource(BUILTIN[name])
    else:
        raise ModelError(
            f"there is no model {name!r}. Built in: {', '.join(BUILTIN)}; or give file.py:function."
        )

    def call() -> nn.Module:
        try:
            model = make(classes=classes, **options)
        except TypeError as error:
            raise ModelError(
                f"{name} cannot be called with classes={classes}, {options}: {error}."
            ) from error
        if not isinstance(model, nn.Module):
            raise ModelError(f"{name} returned {type(model).__name__}, not an nn.Module.")
        return model

    how = {"name": name, "options": options}
    return Builder(call, how, _hash(source))


def given(model: nn.Module) -> Builder:
    """A builder that copies a network, its weights included."""
    if any(parametrize.is_parametrized(module) for module in model.modules()):
        raise ModelError(
            "the model is parametrized already (masks, or weight normalisation); copies of it would share "
            "their classes. Call unspur.bake(model) or remove the parametrizations first."
        )
    try:
        source = inspect.getsource(type(model))
    except (OSError, TypeError):  # a class typed into a console has no source
        source = ""
    how = {"name": f"{type(model).__module__}.{type(model).__qualname__}", "given": True}
    return Builder(lambda: copy.deepcopy(model), how, _hash(source + repr(model)))


def _from_file(name: str) -> tuple[Callable[..., nn.Module], str]:
    file, _, function = name.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ModelError(f"there is no file {file} to take the model builder {function!r} from.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(make := getattr(module, function, None)):
        raise ModelError(f"{file} has no function {function!r}. Name one that takes `classes`.")
    return make, path.read_text()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]

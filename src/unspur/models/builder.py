"""Builders of networks: by name, from a user's file, from a library, or by copying a model."""

from __future__ import annotations

import copy
import difflib
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..boundary import explain_faults
from ..errors import ModelError
from ..extras import load_entry_points
from . import weight_files
from .blank_networks import count_weights, make_blank
from .libraries import from_library, is_of_library
from .network_text import class_sources, function_text, module_text
from .networks.bagnet import BagNet18
from .networks.convnet import ConvNet
from .networks.flatnet import FlatNet
from .networks.mlp import MLP
from .networks.mobilenet import MobileNetV2
from .networks.pair import Pair
from .networks.relu_first import ReluFirstNet
from .networks.resnet import ResNet18
from .published_weights import load_published

BUILTIN: dict[str, Callable[..., nn.Module]] = {
    "convnet": ConvNet,
    "relu_first": ReluFirstNet,
    "flatnet": FlatNet,
    "mlp": MLP,
    "resnet18": ResNet18,
    "bagnet18": BagNet18,
    "mobilenet_v2": MobileNetV2,
}


MOST_WEIGHTS = 2_000_000_000  # largest built-in network


@cache
def networks() -> dict[str, Callable[..., nn.Module]]:
    """Return every network by name; packages can add networks with the entry-point group `unspur.models`."""
    return BUILTIN | load_entry_points("unspur.models", _problem)


def _problem(name: str, make: object) -> str:
    """Return why an installed package cannot add this network, or "" if it can."""
    if name in BUILTIN:
        return f"there is a built-in network {name!r}"
    return "" if callable(make) else f"it is {type(make).__name__}, not a function of `classes`"


@dataclass(frozen=True)
class Builder:
    """A function that makes new networks, with a description of them.

    `how` is a description that can be written as JSON; `source` is a hash of the code. `make_blank` makes the
    same network without initial weights, if that is possible.
    """

    make: Callable[[], nn.Module]
    how: Mapping[str, Any]
    source: str
    make_blank: Callable[[], nn.Module] | None = None

    def build(self, seed: int) -> nn.Module:
        """Return a new network; random initial weights are a function of the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make()

    def build_loaded(self, weights: Mapping[str, Tensor], seed: int) -> nn.Module:
        """Return a new network with these weights. Initial weights are not drawn if they need not be."""
        model = self.make_blank() if self.make_blank else self.build(seed)
        model.load_state_dict(dict(weights))
        return model


def builder(
    name: str,
    classes: int,
    options: Mapping[str, Any] | None = None,
    *,
    init: str = "",
    checksum: str | None = None,
    pretrained: bool = False,
) -> Builder:
    """Return a builder for a network by name, `timm:NAME`, `torchvision:NAME` or `file.py:function`.

    The function is called with `classes` and `options`. `init` is a file of weights to start from. With
    `checksum`, a Python file is run only if that is its SHA-256. With `pretrained` the network starts from
    its published weights (from `init`, or from the folder of downloads) with a new head.
    """
    options = dict(options or {})
    code = _read_code(name, checksum) if in_file(name) else None
    name, make, source = _find(name, code)
    call = partial(_call, make, name, classes, options)
    if name not in BUILTIN and not is_of_library(
        name
    ):  # their classes may be defined in other files
        with torch.random.fork_rng(devices=[]):
            source += class_sources(call())
    source = _hash(source + json.dumps([name.rpartition(":")[2], options]))
    recorded = {} if code is None else {"sha256": hashlib.sha256(code).hexdigest()}
    how = {"name": name, "options": options, **recorded}
    # Other code may keep random numbers outside of the weights.
    blank = partial(make_blank, call) if name in BUILTIN else None
    if pretrained:
        weights = load_published(name, make, classes, options, init)
        return Builder(partial(_make_loaded, call, weights), how, source, blank)
    return Builder(_load_weights(call, Path(init)) if init else call, how, source, blank)


def in_file(name: str) -> bool:
    """Return whether a name is `file.py:function`: the code of that file is run to build the network."""
    return ":" in name and not is_of_library(name)


def _read_code(name: str, checksum: str | None) -> bytes:
    """Read the file of a name `file.py:function`; raise if its SHA-256 is not `checksum`."""
    file, _, function = name.rpartition(":")
    try:
        if not Path(file).is_file():
            raise ModelError(
                f"there is no file {file} to take the model builder {function!r} from."
            )
        code = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read ({error}).") from None
    if checksum is not None and hashlib.sha256(code).hexdigest() != checksum:
        raise ModelError(
            f"{file} is not the file that the model was trained with: its SHA-256 begins with "
            f"{hashlib.sha256(code).hexdigest()[:12]}, not with {checksum[:12]}. The file was not run. "
            "Restore the original, or build the network yourself and pass it: "
            "unspur.load(folder, model=...)."
        )
    return code


def _find(name: str, code: bytes | None) -> tuple[str, Callable[..., nn.Module], str]:
    """Return the name with an absolute path, the function that makes the network, and its source code."""
    if is_of_library(name):
        return name, *from_library(name)
    if code is not None:
        file, _, function = name.rpartition(":")
        return f"{Path(file).resolve()}:{function}", *_from_file(Path(file), function, code)
    if name not in networks():
        close = difflib.get_close_matches(name, networks(), n=1, cutoff=0.7)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ModelError(
            f"there is no model {name!r}.{hint} Choose one of {', '.join(networks())}; or give "
            "file.py:function, timm:NAME or torchvision:NAME."
        )
    make = networks()[name]
    return name, make, inspect.getsource(make) if name in BUILTIN else function_text(make)


def _arguments(classes: int, options: Mapping[str, Any]) -> str:
    """Return the arguments of a builder as they would be written in Python."""
    return ", ".join(f"{name}={value!r}" for name, value in {"classes": classes, **options}.items())


def _call(
    make: Callable[..., nn.Module], name: str, classes: int, options: Mapping[str, Any]
) -> nn.Module:
    """Make a network; raise ModelError with its name if that fails."""
    _check_size(make, name, classes, options)
    with explain_faults(f"{name} cannot be called with {_arguments(classes, options)}", ModelError):
        model = make(classes=classes, **options)
    if not isinstance(model, nn.Module):
        raise ModelError(f"{name} returned {type(model).__name__}, not an nn.Module.")
    return model


def _check_size(
    make: Callable[..., nn.Module], name: str, classes: int, options: Mapping[str, Any]
) -> None:
    """Raise if a built-in network is too large, before memory is allocated for its weights."""
    if name not in BUILTIN:
        return
    with explain_faults(f"{name} cannot be called with {_arguments(classes, options)}", ModelError):
        count = count_weights(make, classes, json.dumps(options))
        if count > MOST_WEIGHTS:
            raise ModelError(
                f"{name} with {classes} classes and {options} has {count:,} weights; at most "
                f"{MOST_WEIGHTS:,} are allowed. Make it narrower."
            )


def _load_weights(make: Callable[[], nn.Module], path: Path) -> Callable[[], nn.Module]:
    """Return a function that makes the same network with the weights of a file."""
    with torch.random.fork_rng(devices=[]):
        weights = weight_files.select_weights(weight_files.read(path), make(), path)
    return partial(_make_loaded, make, weights)


def _make_loaded(make: Callable[[], nn.Module], weights: Mapping[str, Tensor]) -> nn.Module:
    """Make a network and load the weights; missing weights were checked before."""
    model = make()
    model.load_state_dict(weights, strict=False)
    return model


def copy_builder(model: nn.Module) -> Builder:
    """Return a builder that copies a network with its weights."""
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"the model is {model!r}, not an nn.Module. Pass an instance of a network."
        )
    if any(isinstance(p, nn.UninitializedParameter) for p in model.parameters()):
        raise ModelError("the model has lazy layers without weights: call it on a batch first.")
    if any(parametrize.is_parametrized(module) for module in model.modules()):
        raise ModelError(
            "the model is parametrized already (masks, or weight normalisation); copies of it would share "
            "their classes. Call unspur.bake(model) or remove the parametrizations first."
        )
    how = {"name": f"{type(model).__module__}.{type(model).__qualname__}", "given": True}
    source = _hash(module_text(model))
    return Builder(partial(_copy, model), how, source)


def _copy(model: nn.Module) -> nn.Module:
    advice = "if it keeps tensors of its last call, call it in torch.no_grad() first"
    with explain_faults(f"the model cannot be copied ({advice})", ModelError):
        return copy.deepcopy(model).cpu()


def paired(base: Builder, head: str) -> Builder:
    """Return a builder of a `Pair` of two networks; `head` is the layer that is removed from both."""
    return Builder(
        lambda: Pair(base.make(), base.make(), head=head),
        {**base.how, "paired": head},
        _hash(base.source + inspect.getsource(Pair) + head),
    )


def _from_file(path: Path, function: str, code: bytes) -> tuple[Callable[..., nn.Module], str]:
    """Run the code of a file; return one of its functions, and the code as text.

    Only these bytes are compiled, not a file that has changed since, nor a cached .pyc file.
    """
    name = f"unspur_model_{hashlib.sha256(code).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{path} is not a Python file (.py).")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while it is executed
    try:
        exec(compile(code, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102  (the user asked for it)
    except Exception as error:
        del sys.modules[name]
        raise ModelError(f"{path} cannot be read: {type(error).__name__}: {error}.") from error
    if not callable(make := getattr(module, function, None)):
        raise ModelError(f"{path} has no function {function!r}. Name one that takes `classes`.")
    return make, code.decode(errors="replace")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]

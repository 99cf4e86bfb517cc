"""Change the layers of a network, in place, so that weights with fewer channels or heads fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import ModelError
from ..verbs import CONVS, CONVS_T
from .find_units import HEADS
from .slim_attention import SlimAttention


def resize(model: nn.Module, weights: Mapping[str, Tensor], heads: Mapping[str, int]) -> None:
    """Give a network the shapes of other weights, in place, and load them."""
    for name, count in heads.items():
        _set_heads(model, name, count)
    for name, tensor in weights.items():
        path, _, leaf = name.rpartition(".")
        try:
            owner = model.get_submodule(path)
        except AttributeError:
            raise ModelError(
                f"the model has no layer {path!r}, but the weights are of a model that has one."
            ) from None
        _set_shape(owner, leaf, tensor)
    for module in model.modules():
        _set_sizes(module)
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise ModelError(f"the slim weights do not fit the model: {error}") from None


def _set_shape(owner: nn.Module, leaf: str, tensor: Tensor) -> None:
    """Replace a parameter or buffer by an empty one of another shape, in place."""
    current = getattr(owner, leaf, None)
    if isinstance(current, Tensor) and current.shape == tensor.shape:
        return
    empty = torch.zeros_like(tensor)
    if leaf in owner._buffers:
        owner._buffers[leaf] = empty
    else:
        trained = current.requires_grad if isinstance(current, Tensor) else True
        owner.register_parameter(leaf, nn.Parameter(empty, requires_grad=trained))


def _set_sizes(module: Any) -> None:
    """Set the sizes that layers store beside their weights."""
    if isinstance(module, CONVS):
        shape = module.weight.shape
        if module.groups == module.in_channels == module.out_channels:  # depthwise
            module.groups = shape[0]
        module.out_channels, module.in_channels = shape[0], shape[1] * module.groups
    elif isinstance(module, CONVS_T):
        shape = module.weight.shape
        module.in_channels, module.out_channels = shape[0], shape[1] * module.groups
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, nn.modules.batchnorm._BatchNorm):
        known = next((t for t in (module.running_mean, module.weight) if t is not None), None)
        module.num_features = module.num_features if known is None else len(known)


def _set_heads(model: nn.Module, name: str, count: int) -> None:
    """Set the number of heads of an attention module, in place."""
    module = model.get_submodule(name)
    if isinstance(module, nn.MultiheadAttention):
        path, _, leaf = name.rpartition(".")
        slim = SlimAttention(module, count).to(module.in_proj_weight.device)
        slim.train(module.training).requires_grad_(module.in_proj_weight.requires_grad)
        setattr(model.get_submodule(path), leaf, slim)
        return
    known = [a for a in HEADS if isinstance(getattr(module, a, None), int)]
    if not known:
        raise ModelError(f"the layer {name!r} of the model has no number of heads to be changed.")
    setattr(module, known[0], count)

"""Give a network's layers the shapes of other weights, in place: fewer channels, fewer heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ModelError
from ..verbs import CONVS, CONVS_T
from .units import HEADS


class SlimAttention(nn.Module):
    """nn.MultiheadAttention with some of its heads; the same names, arguments and first output."""

    _qkv_same_embed_dim = False  # torch's fused encoder layer must not take it for the whole one

    def __init__(self, whole: nn.MultiheadAttention, heads: int):
        super().__init__()
        self.num_heads, self.head_dim = heads, whole.head_dim
        self.batch_first, self.dropout = whole.batch_first, whole.dropout
        self.embed_dim = whole.embed_dim
        width = heads * whole.head_dim
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, whole.embed_dim))
        self.in_proj_bias = (
            None if whole.in_proj_bias is None else nn.Parameter(torch.empty(3 * width))
        )
        self.out_proj = nn.Linear(width, whole.embed_dim, bias=whole.out_proj.bias is not None)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """The attended values; weights are not returned."""
        if key_padding_mask is not None:
            raise ModelError("attention that was made slim takes no key_padding_mask.")
        inputs = [t if self.batch_first else t.transpose(0, 1) for t in (query, key, value)]
        weights = self.in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(t, w, b).view(*t.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            for t, w, b in zip(inputs, weights, biases, strict=True)
        )
        drop = self.dropout if self.training else 0.0
        # A mask that is given already holds what `is_causal` only hints at.
        causal = is_causal and attn_mask is None
        out = F.scaled_dot_product_attention(q, k, v, attn_mask, drop, causal)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        return (out if self.batch_first else out.transpose(0, 1)), None


def resize(model: nn.Module, weights: Mapping[str, Tensor], heads: Mapping[str, int]) -> None:
    """Make a network fit weights of other shapes, in place, and load them."""
    for name, count in heads.items():
        _set_heads(model, name, count)
    for name, tensor in weights.items():
        path, _, leaf = name.rpartition(".")
        try:
            owner = model.get_submodule(path)
        except AttributeError:
            raise ModelError(
                f"the model has no layer {path!r}, but there are weights of one."
            ) from None
        _set_shape(owner, leaf, tensor)
    for module in model.modules():
        _set_sizes(module)
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise ModelError(f"the slim weights do not fit the model: {error}") from None


def _set_shape(owner: nn.Module, leaf: str, tensor: Tensor) -> None:
    found = getattr(owner, leaf, None)
    if isinstance(found, Tensor) and found.shape == tensor.shape:
        return
    empty = torch.zeros_like(tensor)
    if leaf in owner._buffers:
        owner._buffers[leaf] = empty
    else:
        trained = found.requires_grad if isinstance(found, Tensor) else True
        owner.register_parameter(leaf, nn.Parameter(empty, requires_grad=trained))


def _set_sizes(module: Any) -> None:
    """The numbers that layers keep beside their weights."""
    if isinstance(module, CONVS):
        shape = module.weight.shape
        if module.groups > 1 and shape[1] == 1:
            module.groups = shape[0]
        module.out_channels, module.in_channels = shape[0], shape[1] * module.groups
    elif isinstance(module, CONVS_T):
        module.in_channels, module.out_channels = module.weight.shape[:2]
    elif isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
    elif isinstance(module, nn.modules.batchnorm._BatchNorm):
        known = next((t for t in (module.running_mean, module.weight) if t is not None), None)
        module.num_features = module.num_features if known is None else len(known)


def _set_heads(model: nn.Module, name: str, count: int) -> None:
    module = model.get_submodule(name)
    if isinstance(module, nn.MultiheadAttention):
        path, _, leaf = name.rpartition(".")
        slim = SlimAttention(module, count).to(module.in_proj_weight.device)
        slim.train(module.training).requires_grad_(module.in_proj_weight.requires_grad)
        setattr(model.get_submodule(path), leaf, slim)
        return
    known = next(a for a in HEADS if isinstance(getattr(module, a, None), int))
    setattr(module, known, count)

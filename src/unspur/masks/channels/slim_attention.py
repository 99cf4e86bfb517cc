"""Multi-head attention with fewer heads than its width would give."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ModelError


class SlimAttention(nn.Module):
    """nn.MultiheadAttention without some of its heads; names, arguments and first output are the same."""

    _qkv_same_embed_dim = False  # keeps torch's fused encoder layer from using this layer

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
        """Return the attended values, and None instead of attention weights."""
        if key_padding_mask is not None:
            raise ModelError(
                "slim attention does not support key_padding_mask. Call the layer without it."
            )
        inputs = [t if self.batch_first else t.transpose(0, 1) for t in (query, key, value)]
        q, k, v = self._by_head(inputs)
        drop = self.dropout if self.training else 0.0
        # If there is an attention mask, it already includes the causal part.
        causal = is_causal and attn_mask is None
        out = F.scaled_dot_product_attention(q, k, v, attn_mask, drop, causal)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        return (out if self.batch_first else out.transpose(0, 1)), None

    def _by_head(self, inputs: list[Tensor]) -> list[Tensor]:
        """Project queries, keys and values: (batch, heads, length, head_dim) each."""
        weights = self.in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [
            F.linear(t, w, b).view(*t.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)
            for t, w, b in zip(inputs, weights, biases, strict=True)
        ]

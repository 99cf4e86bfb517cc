"""The operations of torch that have a rule, by their effect on channels, and the record of one call.

Operations that torch tags as pointwise have a rule too. Any other operation freezes the channels that enter
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

# fmt: off
MOVES = {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "unsqueeze", "squeeze",
    "expand", "slice", "select", "split", "split_with_sizes", "chunk", "unbind", "cat", "stack", "repeat",
    "flip", "roll", "index", "index_select", "alias", "detach", "unfold", "pixel_shuffle", "flatten",
    "unflatten", "narrow", "swapaxes", "movedim", "view_as", "reflection_pad1d", "reflection_pad2d",
    "replication_pad1d", "replication_pad2d",
}
COPIES = {"clone", "_to_copy", "contiguous", "lift_fresh", "lift_fresh_copy", "native_dropout"}
POOLS = {
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "mkldnn_max_pool2d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
}
REDUCTIONS = {"mean", "sum", "amax", "amin", "max", "min", "var", "std", "norm", "linalg_vector_norm"}
SOFTMAXES = {"_softmax", "_log_softmax", "softmax", "log_softmax", "_safe_softmax"}
BATCH_NORMS = {
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
    "cudnn_batch_norm", "batch_norm", "_batch_norm_no_update",
}
ATTENTION = {
    "bmm", "baddbmm", "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_attention_math",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math_for_mps",
}
PRODUCTS = {"mm", "addmm", "linear"}
NORMS = {"native_layer_norm", "native_group_norm", "_fused_rms_norm"}
# fmt: on

# Pointwise, though torch does not tag them so; names without the underscore of in-place forms.
UNTAGGED = {"hardswish", "mish", "gelu", "threshold", "_prelu_kernel", "log_sigmoid_forward"}


@dataclass(frozen=True)
class Call:
    """One call of an operation: its arguments, all tensors among them, and its result."""

    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Tensor]
    out: Any

    @property
    def outs(self) -> list[Any]:
        """Return the result as a list."""
        return list(self.out) if isinstance(self.out, (list, tuple)) else [self.out]

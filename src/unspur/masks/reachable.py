"""Find the weights that are ever multiplied by data.

On small images, some entries of a padded convolution kernel only ever meet padding.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from ..models.head import evaluating
from .verbs import CONVS


@torch.no_grad()
def reachable(model: nn.Module, x: Tensor, names: list[str]) -> dict[str, Tensor]:
    """Return which entries of the named weights meet data of `x`, as masks of their shape."""
    owners = {name: model.get_submodule(name.rpartition(".")[0]) for name in names}
    taps: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        met = _taps(cast(nn.Conv2d, module), args[0].shape[2:])
        taps[module] = taps[module] | met if module in taps else met

    convs = {module for module in owners.values() if isinstance(module, CONVS)}
    hooks = [module.register_forward_pre_hook(note) for module in convs]
    try:
        with evaluating(model):
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    masks = {}
    for name, module in owners.items():
        weight = getattr(module, name.rpartition(".")[2])
        met = taps.get(module, torch.tensor(module not in convs))
        met = met if weight.dim() >= met.dim() else torch.tensor(True)  # a bias
        masks[name] = met.cpu().expand(weight.shape)
    return masks


def _taps(conv: nn.Conv2d, size: torch.Size) -> Tensor:
    """Return which kernel entries of a convolution (1d to 3d) meet data in an input of this size."""
    taps = torch.ones((1, 1, *conv.kernel_size), dtype=torch.bool)
    if conv.padding_mode != "zeros" or not _plain(conv):
        return taps
    for axis, length in enumerate(size):
        kernel, stride, dilation = (
            conv.kernel_size[axis],
            conv.stride[axis],
            conv.dilation[axis],
        )
        before, total = _padding(conv, axis)
        outputs = (length + total - dilation * (kernel - 1) - 1) // stride + 1
        place = torch.arange(outputs)[:, None] * stride - before + torch.arange(kernel) * dilation
        meets = ((place >= 0) & (place < length)).any(0)
        taps = taps & meets.reshape([1, 1, *(kernel if a == axis else 1 for a in range(len(size)))])
    return taps


def _plain(conv: nn.Module) -> bool:
    """Return whether a convolution uses torch's forward; a subclass may have its own padding."""
    return type(conv).forward in [kind.forward for kind in CONVS]


def _padding(conv: nn.Conv2d, axis: int) -> tuple[int, int]:
    """Return the padding before an axis, and the total padding."""
    if conv.padding == "valid":
        return 0, 0
    if conv.padding == "same":
        spare = conv.dilation[axis] * (conv.kernel_size[axis] - 1)
        return spare // 2, spare
    padding = int(conv.padding[axis])
    return padding, 2 * padding

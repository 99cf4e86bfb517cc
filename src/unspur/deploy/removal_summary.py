"""Say what `slim` removed from a network. If it removed nothing, say why and what to do."""

from __future__ import annotations

from pathlib import Path

from .. import recipes
from ..errors import UnspurError
from ..masks.channels import Slimmed

NONE_EMPTIED = (
    "no channel is dead. Masks on single weights rarely remove a whole channel. Train with "
    "--set prune.unit=channel and export that run."
)
NONE_CLOSED = (
    "no channel is dead: the masks on channels removed none. Keep a smaller share, for example with "
    "--set prune.cut=share --set prune.keep=0.3, and export that run."
)


def masks_channels(folder: Path) -> bool:
    """Return whether the recipe of a run puts its masks on whole channels."""
    try:
        return recipes.load(str(folder / "recipe.toml")).prune.unit == "channel"
    except UnspurError:  # no recipe, or one of another version: the run can be exported anyway
        return False


def removal_summary(slimmed: Slimmed, *, on_channels: bool = False) -> list[str]:
    """Return sentences about what was removed, what was kept and why.

    `on_channels` is whether the run had masks on whole channels.
    """
    removed = sum(gone for gone, _ in slimmed.removed.values())
    units = sum(count for _, count in slimmed.removed.values())
    lines = [f"Removed {removed} of {units} channels and heads."]
    if not removed:
        lines.append(f"Nothing was removed: {_why_nothing(slimmed, units, on_channels)}")
    if slimmed.filled:
        lines.append(
            f"{slimmed.filled} more are dead and were kept, so that layers have a multiple of channels "
            "(--multiple 1 removes them)."
        )
    if slimmed.carried:
        lines.append(
            f"{slimmed.carried} dead channels were kept: each carries the constant outputs of its layer into "
            "a layer with zero padding, whose bias cannot replace them."
        )
    return [*lines, *_unremovable(slimmed)]


def _why_nothing(slimmed: Slimmed, units: int, on_channels: bool) -> str:
    if not units:
        return (
            "this network has no channels that can be removed without changing its other outputs."
        )
    if slimmed.filled or slimmed.carried:
        return "all dead channels have to be kept."
    return NONE_CLOSED if on_channels else NONE_EMPTIED


def _unremovable(slimmed: Slimmed) -> list[str]:
    """Name one layer for each reason, except the output layer, whose classes are always kept."""
    layers = {
        why: name.rpartition(".")[0] or name
        for name, why in slimmed.unremovable.items()
        if "output of the model" not in why
    }
    return [f"The channels of {layer} were kept: {why}." for why, layer in layers.items()]

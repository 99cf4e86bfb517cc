"""Say what `slim` removed from a network, and if it was nothing, why and what to do."""

from __future__ import annotations

from pathlib import Path

from .. import recipes
from ..errors import UnspurError
from ..masks.channels import Slimmed

NONE_EMPTIED = (
    "no channel is dead. Masks on single weights rarely empty a whole channel. Train with "
    "--set prune.unit=channel and export that run."
)
NONE_CLOSED = (
    "no channel is dead: the masks on channels closed none. Train with a smaller share, for example "
    "--set prune.cut=share --set prune.keep=0.3, and export that run."
)


def masks_channels(folder: Path) -> bool:
    """Return whether the recipe of a run puts its masks on whole channels."""
    try:
        return recipes.load(str(folder / "recipe.toml")).prune.unit == "channel"
    except (
        UnspurError
    ):  # without its recipe, or with one of another version, a run is still exported
        return False


def removal_summary(slimmed: Slimmed, *, on_channels: bool = False) -> list[str]:
    """Return sentences about what was removed, what stayed and why.

    `on_channels` says that the run had masks on whole channels.
    """
    removed = sum(gone for gone, _ in slimmed.removed.values())
    units = sum(count for _, count in slimmed.removed.values())
    lines = [f"Removed {removed} of {units} channels and heads."]
    if not removed:
        lines.append(f"Nothing was removed: {_why_nothing(slimmed, units, on_channels)}")
    if slimmed.filled:
        lines.append(
            f"{slimmed.filled} more are dead and stay, to leave channels in multiples (--multiple 1 "
            "removes them)."
        )
    if slimmed.carried:
        lines.append(
            f"{slimmed.carried} dead channels stay: each carries the constants of its layer through "
            "zero padding."
        )
    return [*lines, *_unremovable(slimmed)]


def _why_nothing(slimmed: Slimmed, units: int, on_channels: bool) -> str:
    if not units:
        return "this network has no channels that can go without changing what the rest computes."
    if slimmed.filled or slimmed.carried:
        return "what is dead has to stay."
    return NONE_CLOSED if on_channels else NONE_EMPTIED


def _unremovable(slimmed: Slimmed) -> list[str]:
    """Name one layer for each reason; that classes stay goes without saying."""
    layers = {
        why: name.rpartition(".")[0] or name
        for name, why in slimmed.unremovable.items()
        if "output of the model" not in why
    }
    return [f"The channels of {layer} stay: {why}." for why, layer in layers.items()]

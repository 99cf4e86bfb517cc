"""Say what `slim` removed from a network. If it removed nothing, say why and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .. import recipes
from ..errors import UnspurError
from ..masks.channels import Slimmed
from ..runs.named_models import returns_ordinary
from ..store import read_json

Masked = Literal["nothing", "weights", "channels"]  # what the masks of a run were on

NONE_EMPTIED = (
    "no channel is dead. Masks on single weights rarely remove a whole channel. Train with "
    "--set prune.unit=channel and export that run."
)
NONE_CLOSED = (
    "no channel is dead: the masks on channels removed none. Keep a smaller share, for example with "
    "--set prune.cut=share --set prune.keep=0.3, and export that run."
)
NEVER_PRUNED = (
    "this model was not pruned: it is the ordinary model, or its method does not prune. A debiased model "
    "is smaller. `unspur debias --anyway` with the default method gives one in any case, which may cost "
    "accuracy."
)


def what_was_masked(folder: Path) -> Masked:
    """Return what the masks of a run, or of its ordinary model, were on."""
    try:
        recipe = recipes.load(str(folder / "recipe.toml"))
        if "prune" not in recipe.stages or returns_ordinary(read_json(folder / "scores.json")):
            return "nothing"
    except UnspurError:  # a file is missing or of another version: the run can be exported anyway
        return "weights"
    return "channels" if recipe.prune.unit == "channel" else "weights"


def removal_summary(slimmed: Slimmed, masked: Masked = "weights") -> list[str]:
    """Return sentences about what was removed, what was kept and why.

    `masked` is what the masks of the run were on.
    """
    removed = sum(gone for gone, _ in slimmed.removed.values())
    units = sum(count for _, count in slimmed.removed.values())
    lines = [f"Removed {removed} of {units} channels and heads."]
    if not removed:
        lines.append(f"Nothing was removed: {_why_nothing(slimmed, units, masked)}")
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


def _why_nothing(slimmed: Slimmed, units: int, masked: Masked) -> str:
    if not units:
        return (
            "this network has no channels that can be removed without changing its other outputs."
        )
    if slimmed.filled or slimmed.carried:
        return "all dead channels have to be kept."
    advice = {"nothing": NEVER_PRUNED, "weights": NONE_EMPTIED, "channels": NONE_CLOSED}
    return advice[masked]


def _unremovable(slimmed: Slimmed) -> list[str]:
    """Name one layer for each reason, except the output layer, whose classes are always kept."""
    layers = {
        why: name.rpartition(".")[0] or name
        for name, why in slimmed.unremovable.items()
        if "output of the model" not in why
    }
    return [f"The channels of {layer} were kept: {why}." for why, layer in layers.items()]

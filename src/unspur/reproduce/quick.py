"""Scale recipes down to seconds on a CPU, only to show that everything works."""

from __future__ import annotations

from typing import Any

from ..recipes import Recipe, change
from ..training.sections import TrainingSettings
from .item import Cells, ItemCell

SHORTER, LONGEST = 50, 60  # steps are divided by the first number, and are at most the second
WORDS = (
    "Quick version: embedded digits, a small network and few training steps. "
    "The numbers only show that the command works."
)

SMALL: dict[str, Any] = {
    "judge": False,  # an audit cannot be shortened in this way
    "precision": "tf32",
    "data": {"name": "demo", "ratio": "5pct"},
    "model": {"name": "convnet", "options": {"width": 12}},
    "start": {"pretrained": False, "warmup": 0, "head_first": 0},
    "rebias.network": {"name": "flatnet", "options": {"width": 4, "kernel": 1}},
    # With so few steps, each step must change the masks a lot.
    "prune.rate": 0.2,
    "prune.batch_norm_batches": 4,
    "refit.strengths": [0.1],
    "refit.subsets": 2,
    "select.every": 10,
}


def quick(settings: Recipe) -> Recipe:
    """Return the recipe scaled down: same plan, other data, a smaller network, fewer steps, small batches."""
    changes = {"name": f"quick {settings.name}", **SMALL}
    for stage in settings.stages:
        if isinstance(section := settings.table(stage), TrainingSettings):
            changes |= {f"{stage}.{key}": value for key, value in _shorter(section).items()}
    return change(settings, changes)


def quick_cells(cells: Cells) -> Cells:
    """Return every cell scaled down, with one seed."""
    return {key: ItemCell(quick(each.recipe), each.seeds[:1]) for key, each in cells.items()}


def _shorter(section: TrainingSettings) -> dict[str, Any]:
    changes: dict[str, Any] = {"batch": 64}
    for key in ("steps", "swap_start"):
        if steps := getattr(section, key, 0):
            changes[key] = _short(steps)
    if iterates := getattr(section, "iterates", ()):
        changes["iterates"] = sorted({_short(step) for step in iterates})
    if sparsity := getattr(section, "sparsity", 0.0):
        changes["sparsity"] = 100 * sparsity
    return changes


def _short(steps: int) -> int:
    return min(max(steps // SHORTER, 1), LONGEST)

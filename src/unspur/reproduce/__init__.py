"""Every table and figure of the paper, by name: the runs each needs, and its page from their results.

item      what is wanted of an item, what is known of it
ledger    results below a folder, found again by what they depend on
running   run what is missing, group by group
pages     Markdown; figures, SVG
main, ablation, mining, sweeps, pruning, faces, harmless, slim, pictures    the items

May import: data, errors, extras, methods, recipes, report, runs, stages, store, training.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..errors import RecipeError
from .ablation_item import ABLATION, READINGS
from .faces_item import CELEBA, FACES
from .harmless_item import HARMLESS
from .item import Desk, Item, Sheet
from .main_item import MAIN_CIFAR10C, MAIN_CMNIST
from .mining_item import MINING
from .picture_items import EXAMPLES, THEORY, TSNE
from .pruning_item import PRUNING, RESET
from .runner import Outcome, reproduce
from .slim_item import SLIM
from .sweep_items import ITERATIONS, SPARSITY

__all__ = ["ITEMS", "Desk", "Outcome", "chosen", "reproduce"]

# In order of importance.
ITEMS: dict[str, Item | Sheet] = {
    "main-cmnist": MAIN_CMNIST,
    "ablation": ABLATION,
    "readings": READINGS,
    "main-cifar10c": MAIN_CIFAR10C,
    "mining": MINING,
    "sparsity": SPARSITY,
    "pruning": PRUNING,
    "reset": RESET,
    "iterations": ITERATIONS,
    "tsne": TSNE,
    "faces": FACES,
    "celeba": CELEBA,
    "harmless": HARMLESS,
    "slim": SLIM,
    "examples": EXAMPLES,
    "theory": THEORY,
}
SEVERAL = {"main": ("main-cmnist", "main-cifar10c"), "all": tuple(ITEMS)}


def chosen(names: Iterable[str]) -> list[str]:
    """The items that names stand for, each once."""
    found: dict[str, None] = {}
    for name in names:
        if name not in ITEMS and name not in SEVERAL:
            known = [*SEVERAL, *ITEMS]
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]}?" if close else f"Choose: {', '.join(known)}."
            raise RecipeError(f"there is nothing called {name!r} to reproduce. {hint}")
        found |= dict.fromkeys(SEVERAL.get(name, (name,)))
    return list(found)

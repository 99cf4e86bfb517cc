"""Reproduce the tables and figures of the paper: run what each one needs, and write its page.

item, quick                               the parts of an item; recipes scaled down for a CPU
records, record_lines, run_identity       the recorded runs, found by the settings they depend on
runner, pool_runs, run_extras             run missing runs in groups, in this process or on a cluster
pages, figures                            write Markdown and SVG
main, preset, ablation, mining, sweep, pruning, faces, imagenet, harmless, slim, picture, miners    the items
gaps_item, gaps_cells, gaps_answers       questions about published numbers, their runs, their answers
answer_numbers                            numbers in these answers
prose, prose_numbers, prose_documents     render pages of prose from templates, with recorded numbers
audit_table, speed_table, code_tables     tables for these pages: audits, speed, methods and folders
own_data_tables, loop_tables, search_table    more tables: own images, probes and checks, development runs
audit_ranges, recorded_values             single numbers for these pages
add                                       add results of `unspur bench` and `unspur export` to the records

May import: audit, cluster, data, errors, extras, methods, recipes, report, runs, stages, store, training.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..errors import RecipeError
from .ablation_item import ABLATION, READINGS
from .faces_item import CELEBA, FACES
from .gaps_item import GAPS
from .harmless_item import HARMLESS
from .imagenet_item import IMAGENET
from .item import FigureItem, Item, ReproduceOptions
from .main_item import MAIN_CIFAR10C, MAIN_CMNIST
from .miners_item import MINERS_ITEM
from .mining_item import MINING
from .picture_items import EXAMPLES, THEORY, TSNE
from .preset_item import AUGMENTATION, PRESET
from .pruning_item import PRUNING, RESET
from .runner import ItemOutcome, reproduce
from .slim_item import SLIM
from .sweep_items import ITERATIONS, SPARSITY

__all__ = ["GROUPS", "ITEMS", "ItemOutcome", "ReproduceOptions", "reproduce", "select_items"]

# In order of importance.
ITEMS: dict[str, Item | FigureItem] = {
    "preset": PRESET,
    "main-cmnist": MAIN_CMNIST,
    "ablation": ABLATION,
    "readings": READINGS,
    "main-cifar10c": MAIN_CIFAR10C,
    "augmentation": AUGMENTATION,
    "mining": MINING,
    "sparsity": SPARSITY,
    "pruning": PRUNING,
    "reset": RESET,
    "iterations": ITERATIONS,
    "tsne": TSNE,
    "faces": FACES,
    "celeba": CELEBA,
    "imagenet": IMAGENET,
    "harmless": HARMLESS,
    "slim": SLIM,
    "gaps": GAPS,
    "miners": MINERS_ITEM,
    "examples": EXAMPLES,
    "theory": THEORY,
}
GROUPS = {"main": ("main-cmnist", "main-cifar10c"), "all": tuple(ITEMS)}


def select_items(names: Iterable[str]) -> list[str]:
    """Return the items for names of items and of groups, each once."""
    found: dict[str, None] = {}
    for name in names:
        if name not in ITEMS and name not in GROUPS:
            known = [*GROUPS, *ITEMS]
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {close[0]}?" if close else f"Choose: {', '.join(known)}."
            raise RecipeError(f"there is nothing called {name!r} to reproduce. {hint}")
        found |= dict.fromkeys(GROUPS.get(name, (name,)))
    return list(found)

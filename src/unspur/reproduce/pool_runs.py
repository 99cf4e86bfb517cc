"""Run groups of runs of an item in this process or on a pool of workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from .. import stages
from ..cluster import Pool, TaskFailure
from ..errors import DataError, Interrupted, ModelError, UnspurError
from ..recipes import Recipe
from ..runs import bench
from ..stages.context import Context
from .item import ReproduceOptions, Run
from .run_extras import EXTRAS

Open = Callable[[Recipe], Context]


class GroupOutcome(NamedTuple):
    """The finished runs of a group, and the errors of the others."""

    runs: list[tuple[Recipe, Run]]
    problems: list[str]


def run_contexts(
    contexts: Sequence[Context], extras: Collection[str]
) -> Iterator[tuple[Recipe, Run]]:
    """Run a group side by side; yield each recipe with the numbers of its run."""
    opened = [stages.Run(context) for context in contexts]
    finished = stages.run_together(opened)
    for each, (results, scores) in zip(opened, finished, strict=True):
        run = bench.run_of(each, scores)
        if extras:
            run["extras"] = {name: EXTRAS[name](each.context, results, scores) for name in extras}
        yield each.context.recipe, run


def run_on_pool(
    pool: Pool,
    groups: Sequence[Sequence[Recipe]],
    extras: Collection[str],
    options: ReproduceOptions,
) -> Iterator[GroupOutcome]:
    """Run groups on a pool; yield their outcomes as they finish."""
    # By time.time(), the clock that workers on other machines share.
    deadline = time.time() + options.until - time.monotonic()
    tasks = [(options.context_of, tuple(each), tuple(extras), deadline) for each in groups]
    for number, result in pool.run(run_for_item, tasks):
        if isinstance(result, TaskFailure):
            names = ", ".join(f"{each.name} seed {each.seed}" for each in groups[number])
            result = GroupOutcome([], [f"{names}: {result.reason}"])
        yield result


def run_for_item(
    open_context: Open, group: Sequence[Recipe], extras: Collection[str], deadline: float
) -> GroupOutcome:
    """Run a group in a worker, unless the deadline has passed; after an error, run one at a time."""
    if time.time() >= deadline:
        return GroupOutcome([], [])
    contexts, problems = _open_all(open_context, group)
    try:
        return GroupOutcome([*run_contexts(contexts, extras)] if contexts else [], problems)
    except Interrupted:
        raise
    except UnspurError as error:
        if len(contexts) == 1:
            recipe = contexts[0].recipe
            return GroupOutcome([], [*problems, f"{recipe.name} seed {recipe.seed}: {error}"])
    alone = [run_for_item(open_context, [each.recipe], extras, deadline) for each in contexts]
    return GroupOutcome(
        [run for each in alone for run in each.runs],
        [*problems, *(problem for each in alone for problem in each.problems)],
    )


def _open_all(open_context: Open, group: Sequence[Recipe]) -> tuple[list[Context], list[str]]:
    """Return the contexts of recipes whose data and network exist, and the errors of the others."""
    contexts, problems = [], []
    for each in group:
        try:
            contexts.append(open_context(each))
        except (DataError, ModelError) as error:
            problems.append(str(error))
    return contexts, problems

"""Runs of an item on a pool: they are recorded, equal serial runs, and fail independently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from toy_item import TOY, changed, recorded_runs, toy_options

from bench_desk import without_times
from toys import Counting
from unspur.cluster import SerialPool, TaskFailure
from unspur.errors import DataError, TrainingError
from unspur.recipes import Recipe
from unspur.reproduce import ReproduceOptions, reproduce
from unspur.reproduce.pool_runs import run_for_item
from unspur.reproduce.records import Records


class LossyPool:
    """A pool that runs tasks in reverse order; the workers of the tasks in `lost` die."""

    def __init__(self, lost: set[int]):
        self.lost = lost

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        for number in reversed(range(len(tasks))):
            dies = number in self.lost
            yield number, TaskFailure("its worker died") if dies else function(*tasks[number])


@pytest.fixture
def options(tmp_path: Path) -> ReproduceOptions:
    return toy_options(tmp_path, Counting(tmp_path / "store"))


def lines(options: ReproduceOptions) -> list[Any]:
    """Return the records without times."""
    found = [without_times(line) for line in Records(options.results).lines]
    return sorted(found, key=lambda line: (line["recipe"], line["seed"]))


def test_a_pool_records_what_a_serial_run_records(tmp_path: Path) -> None:
    there = toy_options(tmp_path / "serial", Counting(tmp_path / "serial" / "store"))
    reproduce("toy", TOY, there)
    for together in (1, 2):
        folder = tmp_path / f"pool-{together}"
        here = toy_options(folder, Counting(folder / "store"))
        outcome = reproduce("toy", TOY, changed(here, pool=SerialPool(), together=together))
        assert outcome.problems == ()
        assert (outcome.found, outcome.wanted) == (5, 5)
        assert lines(here) == lines(there)


def test_lost_runs_are_run_by_a_second_command(options: ReproduceOptions) -> None:
    outcome = reproduce("toy", TOY, changed(options, pool=LossyPool({0, 4})))
    assert outcome.found == 3
    assert len(outcome.problems) == 2
    assert all("its worker died" in problem for problem in outcome.problems)
    before = recorded_runs(options)
    outcome = reproduce("toy", TOY, changed(options, pool=LossyPool(set())))
    assert (outcome.found, outcome.problems) == (5, ())
    assert set(before) < set(recorded_runs(options))


def test_no_run_of_a_pool_starts_after_the_deadline(options: ReproduceOptions) -> None:
    outcome = reproduce("toy", TOY, changed(options, pool=SerialPool(), until=0.0))
    assert (outcome.found, outcome.problems) == (0, ())


def test_a_failing_run_does_not_stop_its_group(
    options: ReproduceOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unspur import stages

    real = stages.run_together

    def fail(runs: Any) -> Any:
        if any(run.context.recipe.seed == 6 for run in runs):
            raise TrainingError("the loss is not a number.")
        return real(runs)

    monkeypatch.setattr(stages, "run_together", fail)
    recipe = TOY.cells()[("ERM",)].recipe
    group = [recipe.seeded(seed) for seed in (5, 6, 7)]
    found = run_for_item(options.context_of, group, (), float("inf"))
    assert [each.seed for each, _ in found.runs] == [5, 7]
    assert found.problems == ["erm seed 6: the loss is not a number."]


def test_missing_data_is_reported_and_the_other_runs_are_run(options: ReproduceOptions) -> None:
    def open_context(recipe: Recipe) -> Any:
        if recipe.seed == 5:
            raise DataError("there is no such set.")
        return options.context_of(recipe)

    recipe = TOY.cells()[("ERM",)].recipe
    group = [recipe.seeded(seed) for seed in (5, 6)]
    found = run_for_item(open_context, group, (), float("inf"))
    assert [each.seed for each, _ in found.runs] == [6]
    assert found.problems == ["there is no such set."]

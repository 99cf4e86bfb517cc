"""scripts/announced_time.py: the announced time of a run beside the time it takes."""

import sys
from pathlib import Path

import pytest

from unspur.audit.audit_cost import AuditCost
from unspur.stages.estimate import Estimate
from unspur.workflow import Announcement

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
announced = pytest.importorskip("announced_time", reason="not run from a source tree")


def test_the_ten_runs_differ_and_some_have_an_audit_or_a_busy_machine():
    assert len(set(announced.CASES)) == 10
    assert {case.audit for case in announced.CASES} == {True, False}
    assert sum(case.busy > 0 for case in announced.CASES) == 2
    assert {case.pixels for case in announced.CASES} >= {16, 28, 64}


def test_images_have_the_number_and_the_size_of_the_case():
    train = announced.images(50, 12).train
    assert (len(train), train.shape) == (50, (3, 12, 12))


def test_a_run_is_announced_and_timed():
    row = announced.measure(announced.Case(120, 12, 8, 4))
    assert (row["images"], row["result"], row["busy"]) == (120, "debiased", 0)
    assert row["times"] == row["announced_s"] / row["taken_s"] > 0


def test_ratios_within_the_bounds_are_counted():
    assert announced.within([{"times": ratio} for ratio in (0.69, 0.7, 1.0, 1.5, 1.6)]) == 3


def test_the_announced_times_with_a_shortcut_without_one_and_if_that_is_soon_clear():
    stages = [Estimate(name, 9, False, cost, 0) for name, cost in (("pretrain", 10), ("prune", 5))]
    usual = {"miner 1/2": 2.0, "miner 2/2": 2.0, "deprived 1/2": 3.0}
    found = Announcement(stages, AuditCost(9, 22, usual, {"coarse 1/2": 50.0}), closing=1.0)
    assert (found.seconds, found.ordinary_seconds, found.least_seconds) == (23, 18, 15)

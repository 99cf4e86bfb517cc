"""The estimated time: measured steps times the number of remaining steps."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import toys
from unspur import stages
from unspur.stages import estimate as estimating
from unspur.stages import step_timing, threads
from unspur.stages.estimate import closing_seconds, estimate, relative_costs
from unspur.store import steps_done


@pytest.fixture
def context(tmp_path):
    return toys.context(tmp_path)


def test_the_time_of_a_step_is_measured(context, monkeypatch):
    batch = context.recipe.pretrain.batch
    assert step_timing.step_seconds(context, batch) > 0
    forward, clock = torch.nn.Module.__call__, SimpleNamespace(now=0.0)

    def slow(self, *args, **kwargs):
        if isinstance(self, step_timing.ERM):
            clock.now += 0.25
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(torch.nn.Module, "__call__", slow)
    monkeypatch.setattr(step_timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    assert step_timing.step_seconds(context, batch) == 0.25


def test_the_mean_excludes_the_warm_up_steps():
    timer = step_timing.StepTimer()
    timer.ends = [9.0, 10.0, 11.0, 14.0]  # the first two are warm-up steps
    assert timer.seconds == 2.0


def test_a_resumed_stage_costs_its_remaining_steps(context, monkeypatch):
    monkeypatch.setattr(estimating, "step_seconds", lambda *_, **__: 1.0)
    run = stages.Run(context)
    whole = {row.stage: row for row in estimate(run)}
    partial = run.keys["pretrain"].path.with_suffix(".partial")
    workspace = stages.driver.Workspace(partial)
    done = whole["pretrain"].steps // 2
    workspace.checkpoint({"weight": torch.zeros(1)}, {"step": done})
    assert steps_done(run.keys["pretrain"].path) == done
    again = {row.stage: row for row in estimate(run)}
    assert again["pretrain"].steps_left == whole["pretrain"].steps - done
    assert again["pretrain"].is_resumed
    assert not whole["pretrain"].is_resumed
    assert again["pretrain"].seconds == pytest.approx(whole["pretrain"].seconds / 2)
    assert again["finetune"] == whole["finetune"]


def test_a_miner_outside_of_the_plan_costs_all_its_steps(context, monkeypatch):
    monkeypatch.setattr(estimating, "step_seconds", lambda *_, **__: 1.0)
    steps = 7 * context.recipe.mine.steps
    miner = SimpleNamespace(keys={"half": "1"}, cost=lambda: (steps, 3.0))
    mine = next(iter(estimate(stages.Run(replace(context, miner=miner)))))
    assert (mine.stage, mine.steps, mine.steps_left, mine.seconds) == ("mine", steps, steps, 3.0)
    assert not mine.is_resumed


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_without_a_readable_checkpoint_no_step_counts_as_done(tmp_path, content):
    target = tmp_path / "mine-1"
    if content:
        target.with_suffix(".partial").mkdir()
        (target.with_suffix(".partial") / "checkpoint.safetensors").write_bytes(content)
    assert steps_done(target) == 0


def test_relative_costs_measure_nothing_and_exclude_stored_stages(context, monkeypatch):
    monkeypatch.setattr(estimating, "step_seconds", None)
    run = stages.Run(context)
    costs = relative_costs(run)
    assert list(costs) == list(run.keys)
    assert all(cost > 0 for cost in costs.values())
    stages.run(context)
    assert relative_costs(stages.Run(context)) == {}


def test_the_estimate_includes_scores_and_page(context, monkeypatch):
    monkeypatch.setattr(estimating, "step_seconds", lambda *_, **__: 1.0)
    assert closing_seconds(stages.Run(context)) > estimating.PAGE_SECONDS


# Threads


@pytest.fixture
def usual(monkeypatch):
    """Pretend that torch has four threads."""
    count = [4]
    monkeypatch.setattr(torch, "get_num_threads", lambda: count[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda n: count.__setitem__(0, n))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return count


def test_the_requested_number_of_threads_is_set(usual):
    assert threads.choose_threads(3) == 3


@pytest.mark.parametrize(("load", "chosen"), [(0.0, 4), (100.0, 1)])
def test_a_busy_machine_uses_one_thread_if_that_is_faster(usual, monkeypatch, load, chosen):
    monkeypatch.setattr(threads.os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(threads, "_trial_seconds", lambda: float(usual[0]))
    assert threads.choose_threads() == chosen


def test_a_busy_machine_keeps_its_threads_if_they_are_faster(usual, monkeypatch):
    monkeypatch.setattr(threads.os, "getloadavg", lambda: (100.0, 0.0, 0.0))
    monkeypatch.setattr(threads, "_trial_seconds", lambda: 1.0 / usual[0])
    assert threads.choose_threads() == 4


def test_the_environment_variable_takes_precedence(usual, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(threads, "is_busy", lambda: True)
    monkeypatch.setattr(threads, "_trial_seconds", lambda: float(usual[0]))
    assert threads.choose_threads() == 4


def test_a_trial_uses_no_random_numbers_of_the_global_stream():
    before = torch.get_rng_state()
    assert threads._trial_seconds() > 0
    assert torch.equal(before, torch.get_rng_state())

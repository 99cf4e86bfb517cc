"""The remaining time of a run: expected costs, corrected by the measured speed."""

import pytest

from unspur.report.run_clock import RunClock, duration


class Time:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return RunClock(now=Time())


def pass_steps(clock, stage, steps, seconds, *, first=1):
    """Run a stage with this many seconds per step; return the remaining times after each step."""
    timer, left = clock.begin(stage), []
    for step in range(first, steps + 1):
        left.append(timer.step(step, steps))
        clock.now.now += seconds
    return left


def test_no_time_is_known_after_one_step(clock):
    clock.expect({"mine": 10.0, "pretrain": 20.0}, in_seconds=False)
    assert pass_steps(clock, "mine", 10, 1.0)[0] == (None, None)


def test_expected_costs_are_corrected_by_the_measured_speed(clock):
    clock.expect({"mine": 9.0, "pretrain": 20.0, "finetune": 40.0}, in_seconds=True)
    left = pass_steps(clock, "mine", 10, 3.0)  # three times as slow as expected
    assert left[5] == pytest.approx((4 * 3.0, 4 * 3.0 + 3 * 60.0))
    left = pass_steps(clock, "pretrain", 21, 3.0)
    assert left[10][1] == pytest.approx(10 * 3.0 + 3 * 40.0)


def test_costs_in_other_units_are_converted_to_seconds(clock):
    clock.expect({"mine": 900.0, "pretrain": 2000.0}, in_seconds=False)
    assert pass_steps(clock, "mine", 10, 0.01)[5] == pytest.approx((0.04, 0.04 + 0.2))


def test_a_skipped_stage_does_not_count(clock):
    clock.expect({"deprived 1/2": 500.0, "pretrain": 9.0, "finetune": 9.0}, in_seconds=True)
    assert pass_steps(clock, "pretrain", 10, 1.0)[8] == pytest.approx((1.0, 1.0 + 9.0))


def test_a_resumed_stage_is_timed_from_its_first_step(clock):
    clock.expect({"pretrain": 10.0, "finetune": 20.0}, in_seconds=True)
    left = pass_steps(clock, "pretrain", 100, 1.0, first=90)
    assert left[5] == pytest.approx((5.0, 5.0 + 20.0))


def test_the_expected_stages_follow_one_that_was_not_expected(clock):
    clock.expect({"mine": 9.0, "pretrain": 10.0}, in_seconds=True)
    pass_steps(clock, "mine", 10, 2.0)  # twice as slow as expected
    assert pass_steps(clock, "border: miner 1/2", 10, 7.0)[5] == (28.0, 28.0 + 20.0)


def test_without_expectations_the_time_of_the_run_is_not_known(clock):
    assert pass_steps(clock, "other", 10, 1.0)[5] == (4.0, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (119, "119 s"), (130, "2 minutes"), (3600, "60 minutes"), (9000, "2.5 hours")],
)
def test_durations_are_in_words(seconds, words):
    assert duration(seconds) == words

"""The head of a comparison's page names a winner only where it is more than chance."""

from __future__ import annotations

import pytest

from pages import plain
from unspur.report import comparison_page
from unspur.runs.comparison_record import ComparedMethod, MethodComparison
from unspur.runs.evaluation import AccuracyShare
from unspur.runs.intervals import Interval


def share(value: float) -> AccuracyShare:
    return AccuracyShare(value, (max(0.0, value - 0.1), min(1.0, value + 0.1)))


def method(name: str, suspects: float, interval: Interval | None = None) -> ComparedMethod:
    gain = {} if interval is None else {"suspects": (suspects - 0.5, interval)}
    parts = {"suspects": share(suspects), "others": share(0.9)}
    average = {"average": share(0.9)}
    return ComparedMethod(
        name, name.upper(), "nothing", "1", "a paper", average, parts, {}, gain, 1.0, 2.0
    )


def comparison(best: float, interval: Interval, count: int = 40) -> MethodComparison:
    methods = (method("erm", 0.5), method("jtt", best, interval))
    counts = {"suspects": count, "others": 100}
    return MethodComparison("photos", "test", 140, "erm", methods, counts)


def test_a_clear_winner_is_named_with_its_gain() -> None:
    found = comparison(0.8, (0.1, 0.4))
    assert comparison_page.headline(found) == "JTT: +30.0 points on suspects outside training"
    assert plain(comparison_page.lead(found)).startswith(
        "Of 40 suspects outside training, JTT gets 80.0 % right and ERM 50.0 %: +30.0 points, 95 % interval "
        "+10.0 to +40.0. Intervals"
    )


@pytest.mark.parametrize(("count", "few"), [(2, True), (40, False)])
def test_a_gain_that_may_be_chance_is_no_headline(count: int, few: bool) -> None:
    found = comparison(1.0, (0.0, 1.0), count)
    assert comparison_page.headline(found) == "No method is clearly better than ERM"
    assert "That is no clear gain." in comparison_page.lead(found)
    assert ("So few images say little." in comparison_page.lead(found)) == few


def test_a_baseline_that_is_best_is_said_to_be() -> None:
    found = comparison(0.4, (-0.3, 0.1))
    assert comparison_page.headline(found) == "No method does better than ERM"
    assert "no other method gets more" in comparison_page.lead(found)

"""The headline of a comparison names a method only if its gain is significant."""

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
    assert comparison_page.headline(found).startswith("JTT: +30.0 points")
    lead = plain(comparison_page.lead(found))
    for part in ("40 held-out suspects", "80.0 %", "50.0 %", "+30.0 points", "+10.0 to +40.0"):
        assert part in lead


@pytest.mark.parametrize(("count", "few"), [(2, True), (40, False)])
def test_a_gain_that_is_not_significant_is_not_in_the_headline(count: int, few: bool) -> None:
    found = comparison(1.0, (0.0, 1.0), count)
    assert comparison_page.headline(found) == "No method is clearly better than ERM"
    assert "not significant" in comparison_page.lead(found)
    assert ("too few images" in comparison_page.lead(found)) == few


def test_the_headline_says_if_the_baseline_is_best() -> None:
    found = comparison(0.4, (-0.3, 0.1))
    assert comparison_page.headline(found) == "No method is better than ERM"
    assert "no other method" in comparison_page.lead(found)

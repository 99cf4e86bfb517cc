"""The top of a run's page: the gain where the shortcut fails, its interval, and the cost elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from test_gain_words import part, scores

from pages import plain
from unspur.report import headline, words
from unspur.runs.intervals import Intervals

FOUND = words.PageVerdict("found", "A shortcut is likely", "Some images contradict it.")
COST = {
    "before": {"bytes": 44_800_000, "milliseconds": 8.14},
    "after": {"bytes": 450_000, "milliseconds": 0.35},
    "removed": 1234,
}


def known(conflicting: float, aligned: float) -> dict[str, Any]:
    shares = dict.fromkeys(("unbiased", "worst_group", "average"), 0.5)
    return {**shares, "conflicting": conflicting, "aligned": aligned}


def test_the_gain_is_the_headline_and_the_cost_is_beside_it() -> None:
    changes = headline.changes(scores(), None)
    head = headline.lead_with_gain(FOUND, changes)
    assert (head.kind, head.headline) == ("clear", "+60.0 points where the shortcut fails")
    fails, holds = headline.tiles(scores(), changes, None, None)
    assert (fails.before, plain(fails.value)) == ("10.0", "70.0 %")
    assert fails.detail.startswith("+60.0 points, 95 % interval +")
    assert (holds.before, plain(holds.value)) == ("99.0", "95.0 %")
    assert holds.detail.startswith("−4.0 points, 95 % interval −")
    assert "other images" in holds.what


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (10, 11, "No significant gain where the shortcut fails"),
        (30, 4, "Worse where the shortcut fails: −65.0 points"),
    ],
)
def test_the_headline_says_if_there_is_no_gain(before: int, after: int, said: str) -> None:
    gain = {"split": "test", "suspects": part(40, before, after)}
    head = headline.lead_with_gain(FOUND, headline.changes(scores(gain=gain), None))
    assert head.headline == said
    assert head.kind != "clear"


def test_with_bias_labels_the_headline_is_the_same() -> None:
    measured = scores(ordinary=known(0.4, 1.0), debiased=known(0.8, 0.9))
    intervals = Intervals({}, {"conflicting": (0.3, 0.5), "aligned": (-0.2, 0.0)})
    changes = headline.changes(measured, intervals)
    assert headline.lead_with_gain(FOUND, changes).headline.startswith("+40.0 points where")
    assert [tile.detail for tile in headline.tiles(measured, changes, intervals, None)] == [
        "+40.0 points, 95 % interval +30.0 to +50.0",
        "−10.0 points, 95 % interval −20.0 to +0.0",
    ]


def test_without_a_measured_gain_the_verdict_is_the_headline() -> None:
    alone = scores(gain=None, ordinary=None)
    assert headline.changes(alone, None) == {}
    assert headline.lead_with_gain(FOUND, {}) is FOUND
    (tile,) = headline.tiles(alone, {}, Intervals({"debiased": {"average": (0.9, 0.97)}}, {}), None)
    assert plain(tile.value) == "94.7 %"
    assert tile.what == "accuracy on the test split"
    assert tile.detail == "95 % interval 90.0 to 97.0"


def test_size_and_speed_are_tiles() -> None:
    *_, size, speed = headline.tiles(scores(), headline.changes(scores(), None), None, COST)
    assert (size.before, plain(size.value)) == ("44.8", "0.45 MB")
    assert size.detail == "without 1,234 dead channels"
    assert (speed.before, plain(speed.value)) == ("8.1", "0.35 ms")


def test_the_page_says_how_to_get_a_smaller_model() -> None:
    (smaller,) = headline.cost_sentences(COST)
    assert "0.45 MB instead of 44.8 MB" in smaller
    assert "0.35 ms instead of 8.1 ms" in smaller
    assert "--slim" in smaller
    (same,) = headline.cost_sentences({**COST, "removed": 0})
    assert "prune.unit=channel" in same


def test_a_network_of_unchanged_size_has_no_times() -> None:
    (tile,) = headline._costs({**COST, "after": COST["before"], "removed": 0})
    assert plain(tile.value) == "44.8 MB"
    assert "unchanged" in tile.what


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(12.34, "12.3"), (1.0, "1.0"), (0.3, "0.30"), (0.381, "0.38")]
)
def test_times_below_a_millisecond_have_two_digits(milliseconds: float, text: str) -> None:
    assert headline._time({"milliseconds": milliseconds}) == text

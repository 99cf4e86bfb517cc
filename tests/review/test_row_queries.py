"""Selection and order of the rows that a page shows."""

from __future__ import annotations

import pytest

from reviews import write_table
from unspur.errors import UsageError
from unspur.review.decision_log import Decision
from unspur.review.review_folder import Review
from unspur.review.row_queries import ForgottenSelection, RowQuery, Selections, select, typical_rows


@pytest.fixture
def replay(tmp_path):
    write_table(tmp_path / "run")
    review = Review(tmp_path / "run")
    for kind, name in (("clear", "cat/00000.png"), ("skip", "dog/00001.png")):
        review.decide(Decision(0, kind, [name]))
    review.decide(Decision(0, "note", ["dog/00011.png"], note="a Rare one"))
    return review.replay


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ({}, [2, 3, 4, 5]),
        ({"shown": "suspects"}, [0, 1, 2, 3, 4, 5]),
        ({"shown": "decided"}, [0]),
        ({"shown": "skipped"}, [1]),
        ({"shown": "all", "label": "dog"}, [1, 3, 5, 7, 9, 11]),
        ({"shown": "all", "predicted": "cat", "label": "dog"}, [1, 3, 5]),
        ({"shown": "all", "low": "0.2", "high": "0.4"}, [8, 9]),
        ({"shown": "all", "text": "rare"}, [11]),
        ({"shown": "all", "text": "00007"}, [7]),
        ({"sort": "weakest"}, [5, 4, 3, 2]),
        ({"shown": "all", "sort": "doubt"}, [6, 5, 7, 4, 8, 3, 9, 2, 10, 1, 11, 0]),
        ({"sort": "name"}, [2, 4, 3, 5]),
    ],
)
def test_rows_are_filtered_and_sorted(replay, query, rows):
    assert select(replay, RowQuery.of(query)) == rows


@pytest.mark.parametrize("query", [{"low": "x"}, {"shown": "x"}, {"sort": "x"}])
def test_a_wrong_query_is_refused(query):
    with pytest.raises(UsageError):
        RowQuery.of(query)


def test_old_selections_are_removed():
    kept = Selections()
    first = kept.add([1])
    others = [kept.add([2]) for _ in range(32)]
    with pytest.raises(ForgottenSelection):
        kept.rows(first)
    assert kept.rows(others[0]) == [2]


def test_typical_rows_are_no_suspects_and_have_the_lowest_scores(replay):
    assert typical_rows(replay, "cat", 2) == [10, 8]

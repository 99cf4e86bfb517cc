"""How the review reads and writes suspects.csv."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspur.errors import DataError
from unspur.review.suspect_table import RowState, TableWriter, parse_table

HERE = Path("suspects.csv")
NAMES = ["=cmd()", 'a,"b".png', "line\nbreak\r.png", "ordinary.png"]


def table(text: str):
    return parse_table(text.encode(), HERE)


def test_a_table_is_the_same_after_writing_and_reading():
    states = [RowState("suspect", "", "=1+1"), RowState("exclude"), RowState("", "dög"), RowState()]
    found = table("path,label,score,predicted,flag,note\n" + "x,a,0.5,b,,\n")
    many = type(found)("path", NAMES, ["a"] * 4, [0.9, 0.5, 0.25, 0.0], ["b"] * 4, states)
    back = parse_table(TableWriter(many).render(states), HERE)
    assert back.names == NAMES
    assert back.state == states
    assert back.identity == many.identity


def test_the_column_of_new_labels_is_written_only_if_needed():
    found = table("path,label,score,predicted,flag,note\nx,a,0.5,b,suspect,\n")
    plain = TableWriter(found).render([RowState("suspect")])
    assert plain == b"path,label,score,predicted,flag,note\nx,a,0.5000,b,suspect,\n"
    assert b"note,new_label\n" in TableWriter(found).render([RowState("", "b")])


def test_other_separators_flags_and_columns_of_the_user_are_read():
    found = table("path;mine;label;score;predicted;flag\nx;7;a;0,5;b;YES\ny;8;a;;b;no\n")
    assert [state.flag for state in found.state] == ["suspect", ""]
    assert list(found.scores) == [0.5, 0.0]
    assert TableWriter(found).render(found.state).decode().splitlines() == [
        "path,label,score,predicted,flag,note,mine",
        "x,a,0.5000,b,suspect,,7",
        "y,a,0.0000,b,,,8",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,flag\nx,\n", "must name the columns"),
        ("path,flag\nx,\nx,\n", "two rows"),
    ],
)
def test_an_invalid_table_is_an_error(text, message):
    with pytest.raises(DataError, match=message):
        table(text)


def test_the_identity_does_not_depend_on_decisions():
    one = table("path,label,score,predicted,flag\nx,a,0.5,b,suspect\n")
    two = table("path,label,score,predicted,flag,new_label\nx,a,0.5,b,,c\n")
    other = table("path,label,score,predicted,flag\nx,a,0.6,b,suspect\n")
    assert one.identity == two.identity != other.identity

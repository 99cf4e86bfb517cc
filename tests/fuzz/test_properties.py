"""Hypothesis searches for counterexamples: what is written must be what is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspur import recipes
from unspur.data.csv_text import escape_cell, unescape_cell
from unspur.data.splits import Split
from unspur.runs.suspects_csv import read_suspects, write_suspects
from unspur.stages.suspects import Suspects
from unspur.store import parse_json

from .oracle import Case, judge

few = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | NUMBERS | TEXT
TREES = st.recursive(PLAIN, lambda each: st.lists(each) | st.dictionaries(TEXT, each), max_leaves=9)


@few
@given(TREES)
def test_all_json_that_we_write_can_be_read(tree: Any) -> None:
    assert parse_json(json.dumps(tree), "x") == tree
    assert parse_json(json.dumps(tree, ensure_ascii=False), "x") == tree


def _is_as_python_reads(data: str | bytes) -> Callable[[Any, list[str]], bool]:
    return lambda found, warned: bool(found == json.loads(data))


@few
@given(st.text(max_size=40) | st.binary(max_size=40))
def test_any_other_text_is_refused(data: str | bytes) -> None:
    case = Case("text", lambda: parse_json(data, "x.json"), _is_as_python_reads(data), ("x.json",))
    assert judge(case)[0] in ("right", "refused")


@few
@given(TEXT)
def test_cells_are_read_back(text: str) -> None:
    assert unescape_cell(escape_cell(text)) == text


@few
@given(st.lists(TEXT.filter(bool), min_size=1, max_size=6, unique=True), st.randoms())
def test_flags_are_read_back_for_any_names(tmp_path: Path, names, random) -> None:  # type: ignore[no-untyped-def]
    count, path = len(names), tmp_path / "suspects.csv"
    part = Split(
        torch.zeros(count, 3, 1, 1, dtype=torch.uint8), torch.zeros(count).long(), tuple(names)
    )
    flags = torch.tensor([random.random() < 0.5 for _ in names])
    path.unlink(missing_ok=True)
    write_suspects(
        path, part, ("a", "b"), Suspects(torch.zeros(count), flags, torch.zeros(count).long())
    )
    assert torch.equal(read_suspects(path, names).conflict, flags)


@few
@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_set_gives_a_recipe_or_an_error(texts: list[str]) -> None:
    case = Case(
        "set",
        lambda: recipes.load("demo", recipes.parse_changes(texts)),
        lambda found, warned: True,
    )
    assert judge(case)[0] in ("right", "refused")

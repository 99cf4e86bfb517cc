"""Alarms: raised for real changes, not for chance; text from the data is escaped; the baseline file."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from unspur.check.alarms import ERROR_RATES, LEVEL, compare_with_baseline, fisher
from unspur.check.baseline import (
    Baseline,
    CheckedData,
    CheckedModel,
    CheckSettings,
    CountedGroup,
    read_baseline,
    write_baseline,
)
from unspur.check.checking import _first_notes
from unspur.check.ci_output import annotation, junit_xml, markdown_summary
from unspur.errors import StoreError
from unspur.reproduce.audit_table import summary
from unspur.store import read_document

NASTY = "cat\n::error::injected | <img src=x onerror=alert(1)> `@someone` \x1b[31m]]>"
RECORD = Path(__file__).parents[2] / "results" / "audit.json.gz"


def group(name: str, counted: int, images: int) -> CountedGroup:
    return CountedGroup(name=name, images=images, counted=counted)


def baseline(
    *classes: CountedGroup, verdict: str = "nothing", model: list[CountedGroup] | None = None
) -> Baseline:
    data = CheckedData(
        digest="0" * 64,
        images=sum(each.images for each in classes),
        verdict=verdict,  # type: ignore[arg-type]
        text="A shortcut is likely: because",
        classes=list(classes),
    )
    scored = CheckedModel(digest="1" * 64, groups=model) if model is not None else None
    return Baseline(settings=CheckSettings(), data=data, model=scored)


def kinds(before: Baseline, now: Baseline) -> list[str]:
    return [alarm.kind for alarm in compare_with_baseline(before, now).alarms]


def test_a_new_shortcut_is_an_alarm_and_an_old_one_is_not() -> None:
    clean, bad = baseline(), baseline(verdict="shortcut")
    assert kinds(clean, bad) == ["shortcut"]
    assert kinds(bad, bad) == kinds(bad, clean) == kinds(clean, clean) == []
    assert "already" in compare_with_baseline(bad, bad).notes[0]
    assert ERROR_RATES in compare_with_baseline(clean, bad).alarms[0].reason


def test_the_first_note_ends_with_a_full_stop() -> None:
    assert _first_notes(baseline()) == []
    (note,) = _first_notes(baseline(verdict="shortcut"))
    assert note.endswith("may have a shortcut. A shortcut is likely: because.")


def test_suspects_of_a_class_must_grow_by_more_than_chance() -> None:
    before = baseline(group("cat", 20, 500), group("dog", 20, 500))
    assert kinds(before, baseline(group("cat", 60, 500), group("dog", 20, 500))) == ["suspects"]
    assert kinds(before, baseline(group("cat", 25, 500), group("dog", 22, 500))) == []
    assert kinds(before, baseline(group("cat", 40, 1000), group("dog", 20, 500))) == []
    assert kinds(before, baseline(group("bird", 90, 100))) == []  # a new class has no baseline


def test_accuracy_of_a_group_must_fall_by_more_than_chance() -> None:
    before = baseline(model=[group("cat, snow", 90, 100), group("dog, grass", 950, 1000)])
    worse = baseline(model=[group("cat, snow", 60, 100), group("dog, grass", 950, 1000)])
    little = baseline(model=[group("cat, snow", 87, 100), group("dog, grass", 945, 1000)])
    found = compare_with_baseline(before, worse)
    assert [alarm.kind for alarm in found.alarms] == ["accuracy"]
    for words in ("60 of 100", "cat, snow", "90 of 100"):
        assert words in found.alarms[0].reason
    assert kinds(before, little) == kinds(worse, before) == []
    assert "accuracy" not in compare_with_baseline(baseline(), worse).checked


def test_fishers_test_is_exact() -> None:
    # The lady tasting tea, and a table computed by hand.
    assert fisher(group("", 0, 4), group("", 4, 4)) == pytest.approx(1 / 70)
    assert fisher(group("", 1, 3), group("", 2, 3)) == pytest.approx(1 / 2)
    assert fisher(group("", 3, 3), group("", 0, 3)) == pytest.approx(1)
    assert math.isfinite(fisher(group("", 1000, 10**6), group("", 1200, 10**6)))


def test_chance_alone_rarely_raises_an_alarm() -> None:
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(300):
        first, second = (
            baseline(
                *(group(str(k), int(rng.binomial(200, 0.1)), 200) for k in range(10)),
                model=[group(str(k), int(rng.binomial(60, 0.9)), 60) for k in range(10)],
            )
            for _ in range(2)
        )
        alarms += bool(kinds(first, second))
    assert alarms <= 2 * 2 * LEVEL * 300


@pytest.mark.skipif(not RECORD.is_file(), reason="not run from a source tree")
def test_the_error_rates_are_those_of_the_records() -> None:
    counts = summary(read_document(RECORD)["cases"])["unseen"]
    right, total = counts["null"].split(" of ")[0], counts["null"].split(" of ")[1].split()[0]
    false_alarms = int(total) - int(right)
    found, planted = (
        counts["shortcut"].split(" of ")[0],
        counts["shortcut"].split(" of ")[1].split()[0],
    )
    assert f"{false_alarms or 'none'} of {total} sets" in ERROR_RATES
    assert f"{found} of {planted} shortcuts" in ERROR_RATES


# Hostile names


def nasty_outcome():  # type: ignore[no-untyped-def]
    before = baseline(group(NASTY, 5, 500))
    now = baseline(group(NASTY, 200, 500), verdict="shortcut")
    return compare_with_baseline(before, now)


def test_annotations_are_one_line_each() -> None:
    for alarm in nasty_outcome().alarms:
        line = annotation(alarm)
        assert "\n" not in line
        assert "\x1b" not in line
        assert line.startswith("::error title=unspur check%3A ")
        assert line.count("::error") <= 2  # the second is text within the line


def test_junit_is_well_formed_and_names_are_escaped() -> None:
    suite = ET.fromstring(junit_xml(nasty_outcome(), 1.5))
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "3", "2")
    failures = suite.findall("testcase/failure")
    assert "<img src=x" in (failures[1].text or "")
    assert suite.find("testcase/skipped") is not None
    assert suite.findall(".//img") == []


def test_markdown_escapes_names() -> None:
    text = markdown_summary(nasty_outcome())
    assert "<img" not in text
    assert "@someone" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert all(row.replace("\\|", "").count("|") == 3 for row in rows)
    assert "failed" in text.splitlines()[0]


# The file


def test_reading_a_baseline_gives_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    assert read_baseline(path) is None
    written = baseline(group(NASTY, 5, 500), model=[group("cat", 1, 2)])
    write_baseline(path, written)
    assert read_baseline(path) == written


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"extra": 1},
        {"data": None},
        {"settings": {"seed": "0"}},
        {"settings": {"seed": 0, "steps": -1}},
        {"model": {"digest": "x", "groups": []}},
    ],
)
def test_a_damaged_baseline_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "check.json"
    content = baseline(group("cat", 5, 500)).model_dump(mode="json")
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(StoreError, match="not a baseline"):
        read_baseline(path)


@pytest.mark.parametrize(
    "text", ["", "[", '{"format": 1, "format": 1}', "[" * 100_000, '{"format": 1e999}', "\xff"]
)
def test_invalid_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "check.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match="damaged"):
        read_baseline(path)


def test_more_suspects_than_images_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    content = baseline(group("cat", 5, 500)).model_dump(mode="json")
    content["data"]["classes"][0]["counted"] = 501
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="501 of 500"):
        read_baseline(path)

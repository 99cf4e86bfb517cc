"""The report of a run in a real browser."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pages import named, page_of, shown
from promises import (  # noqa: F401
    test_a_page_prints_with_its_settings,
    test_a_picture_is_enlarged_by_mouse_and_keyboard,
    test_no_label_is_cut,
    test_without_scripts_a_page_is_complete_and_has_no_dead_controls,
)
from toys import shapes_set

pytest.importorskip("jinja2", reason="the report is made with the extra 'report'")

WIDTHS = {"desktop": 1200, "tablet": 800, "phone": 360}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    splits = replace(named(shapes_set(seed=1)), bias_classes=("red", "blue"))
    command = "unspur debias " + "a-folder-with-a-long-name/" * 12
    return page_of(tmp_path_factory.mktemp("run"), splits=splits, command=command)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_nothing_overflows(open_page, width, scheme):
    page = open_page(width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.eval_on_selector_all(
        "h1, h2, p, figure, .tiles li, .card, .looks li, .controls",
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className)",
    )
    assert wide == []
    page.evaluate("document.querySelector('details').open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_picture_is_drawn(open_page):
    page = open_page()
    broken = page.eval_on_selector_all("img", "all => all.filter(i => !i.naturalWidth).length")
    assert broken == 0
    flat = page.eval_on_selector_all(
        "svg", "all => all.filter(s => s.getBoundingClientRect().height < 5).length"
    )
    assert flat == 0


def test_dark_is_dark(open_page):
    grounds = [
        open_page(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds[0] != grounds[1]


def test_filtering_by_class(open_page):
    page = open_page()
    everything = shown(page)
    assert {label for label, _, _ in everything} == {"stands", "lies"}
    page.select_option("[name=label]", "lies")
    assert shown(page) == [row for row in everything if row[0] == "lies"]
    assert page.text_content("[name=count]") == f"{len(shown(page))} of {len(everything)} pictures"


def test_filtering_by_name_takes_text_as_text(open_page):
    page = open_page()
    everything = shown(page)
    page.fill("[name=search]", "<SCRIPT>")
    assert shown(page) == [row for row in everything if "<script>" in row[1]]
    page.fill("[name=search]", "no such name")
    assert shown(page) == []
    page.fill("[name=search]", "")
    assert shown(page) == everything


def test_filtering_by_what_is_known(open_page):
    page = open_page()
    everything = shown(page)
    parts = []
    for choice in ("contradicts", "follows"):
        page.select_option("[name=show]", choice)
        parts.append(shown(page))
    assert sorted(parts[0] + parts[1]) == sorted(everything)
    page.select_option("[name=show]", "wrong")
    assert len(shown(page)) <= len(everything)


@pytest.mark.parametrize(
    ("choice", "key"),
    [
        ("strongest", lambda row: -row[2]),
        ("weakest", lambda row: row[2]),
        ("name", lambda row: row[1]),
    ],
)
def test_sorting(open_page, choice, key):
    page = open_page()
    page.select_option("[name=sort]", choice)
    for label in ("stands", "lies"):
        own = [row for row in shown(page) if row[0] == label]
        assert len(own) > 3
        assert [key(row) for row in own] == sorted(key(row) for row in own)


def test_controls_by_keyboard(open_page):
    page = open_page()
    page.focus("[name=label]")
    page.keyboard.press("ArrowDown")
    assert {label for label, _, _ in shown(page)} == {"stands"}

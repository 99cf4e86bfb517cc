"""The report of an audit in a real browser."""

from __future__ import annotations

import pytest

from audits import named, page_of, tinted
from pages import NASTY, shown
from promises import (  # noqa: F401
    test_a_page_prints_with_its_settings,
    test_a_picture_is_enlarged_by_mouse_and_keyboard,
    test_no_label_is_cut,
    test_without_scripts_a_page_is_complete_and_has_no_dead_controls,
)

pytest.importorskip("jinja2", reason="the report is made with the extra 'report'")

WIDTHS = {"desktop": 1200, "tablet": 800, "phone": 360}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    source = "a-folder-with-a-long-name/" * 12
    command = f"unspur audit {source}"
    folder = tmp_path_factory.mktemp("audit")
    return page_of(folder, named(tinted("shortcut")), command=command, source=source)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_nothing_overflows(open_page, width, scheme):
    page = open_page(width, color_scheme=scheme)
    page.evaluate("document.querySelector('details').open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.eval_on_selector_all(
        "h1, h2, p, figure, svg, pre, .tiles li, .steps li, .who div, .card, .looks li, .controls",
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className)",
    )
    assert wide == []


def test_every_picture_is_drawn(open_page):
    page = open_page()
    broken = page.eval_on_selector_all("img", "all => all.filter(i => !i.naturalWidth).length")
    assert broken == 0
    heights = page.eval_on_selector_all(
        "svg", "all => all.map(s => s.getBoundingClientRect().height)"
    )
    assert len(heights) == 5
    assert min(heights) > 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dots_and_zones_are_seen(open_page, scheme):
    """A mark that counts is filled with the accent, and what speaks for a shortcut is shaded."""
    page = open_page(color_scheme=scheme)
    look = "e => getComputedStyle(e).fill"
    full, empty = (
        page.eval_on_selector(f"#numbers .mark{kind}", look) for kind in (":not(.open)", ".open")
    )
    assert full != empty
    assert page.eval_on_selector("#numbers .zone.found", look) != "none"


def test_the_gallery_is_filtered_by_class(open_page):
    page = open_page()
    everything = shown(page)
    assert {label for label, _, _ in everything} == {NASTY, "lies"}
    page.select_option("[name=label]", NASTY)
    assert shown(page) == [row for row in everything if row[0] == NASTY]
    assert page.text_content("[name=count]") == f"{len(shown(page))} of {len(everything)} pictures"


def test_the_gallery_is_filtered_by_what_networks_say(open_page):
    page = open_page()
    everything = shown(page)
    choices = page.eval_on_selector_all("[name=show] option", "all => all.map(o => o.value)")
    assert choices[:2] == ["all", "flagged"]
    assert "insisted" in choices
    for choice in choices:
        page.select_option("[name=show]", choice)
        marks = page.eval_on_selector_all(
            ".shelf:not([hidden]) .suspects .card:not([hidden])",
            "all => all.map(c => c.dataset.marks)",
        )
        assert marks or choice in ("contradicts", "follows")  # others would not be offered
        assert choice == "all" or all(choice in each.split() for each in marks)
    page.select_option("[name=show]", "all")
    assert shown(page) == everything


def test_names_are_searched_as_text(open_page):
    page = open_page()
    everything = shown(page)
    page.fill("[name=search]", "<SCRIPT>")
    assert shown(page) == [row for row in everything if "<script>" in row[1]]
    assert 0 < len(shown(page)) < len(everything)


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
    for label in (NASTY, "lies"):
        own = [row for row in shown(page) if row[0] == label]
        assert len(own) > 3
        assert [key(row) for row in own] == sorted(key(row) for row in own)

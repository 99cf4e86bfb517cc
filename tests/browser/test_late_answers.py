"""The review with a slow server: no key is lost, and no late answer replaces what is newer."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from reviews import make_desk, serving, write_table
from waiting_pages import Held, title, wait_for_text, wait_for_title


@pytest.fixture
def long_url(tmp_path):
    """Return the URL of a list whose rows are loaded in two parts."""
    write_table(tmp_path / "long", 250, suspects=250)
    with serving(make_desk(tmp_path / "long")) as url:
        yield url


def decide_two_and_undo_late(page):
    page.keyboard.press("x")
    page.keyboard.press("x")
    wait_for_title(page, "cat/00002.png")
    wait_for_text(page, "#progress-text", "^2 of 6")
    undo = Held(page, "**/api/undo")
    page.keyboard.press("u")
    undo.wait()
    return undo


def test_a_late_undo_leaves_the_user_where_they_went(visit, url):
    page = visit(url)
    undo = decide_two_and_undo_late(page)
    page.keyboard.press("ArrowRight")
    wait_for_title(page, "dog/00003.png")
    undo.let_go()
    wait_for_text(page, "#progress-text", "^1 of 6")
    assert title(page) == "dog/00003.png"
    page.keyboard.press("u")
    wait_for_title(page, "cat/00000.png")


def test_a_late_undo_leaves_the_marked_cell(visit, url):
    page = visit(url)
    page.keyboard.press("g")
    page.wait_for_selector("#cell-5[aria-label]")
    page.keyboard.press("x")
    wait_for_text(page, "#progress-text", "^1 of 6")
    undo = Held(page, "**/api/undo")
    page.keyboard.press("u")
    undo.wait()
    page.keyboard.press("End")
    undo.let_go()
    wait_for_text(page, "#progress-text", "^0 of 6")
    assert page.get_attribute("#viewport", "aria-activedescendant") == "cell-5"


def test_the_last_image_wanted_is_shown(visit, long_url):
    page = visit(long_url)
    rows = Held(page, "**/api/rows?*from=200*")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.keyboard.press("End")
    rows.wait()
    page.keyboard.press("Enter")
    page.keyboard.press("g")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wait_for_title(page, "dog/00001.png")
    rows.let_go()
    assert title(page) == "dog/00001.png"


def test_the_last_filter_counts(visit, url):
    page = visit(url)
    late = Held(page, "**/api/select?*shown=all*")
    page.select_option("[name=shown]", "all")
    late.wait()
    page.select_option("[name=shown]", "decided")
    page.wait_for_selector("#empty:not([hidden])")
    late.let_go()
    assert page.text_content("#found") == "0 images found"
    assert page.is_visible("#empty")

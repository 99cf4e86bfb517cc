"""The review with a slow server: no key is lost, and no late answer replaces what is newer."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from reviews import make_desk, read_rows, serving, write_table
from waiting_pages import (
    Held,
    settle,
    title,
    wait_for_row,
    wait_for_text,
    wait_for_title,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("requests_can_be_held")

# Requests for other decisions come by a timer; a test of them asks at once.
ASK_CHANGES = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture
def long_url(tmp_path):
    """Return the URL of a list whose rows are loaded in two parts."""
    write_table(tmp_path / "long", 250, suspects=250)
    with serving(make_desk(tmp_path / "long")) as url:
        yield url


def focus(page):
    return page.evaluate("document.activeElement.id || document.activeElement.name")


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


def test_a_class_is_for_the_image_of_its_question(visit, url, folder):
    page = visit(url)
    undo = decide_two_and_undo_late(page)
    page.keyboard.press("w")
    undo.let_go()
    wait_for_text(page, "#progress-text", "^1 of 6")
    page.keyboard.type("owl")
    page.keyboard.press("Enter")
    wait_for_row(folder, "cat/00002.png", new_label="<i>owl</i>")
    assert read_rows(folder / "suspects.csv")["dog/00001.png"]["new_label"] == ""


def test_a_note_is_for_the_image_of_its_first_letter(visit, url, folder):
    page = visit(url)
    rows = Held(page, "**/api/rows?*")
    page.select_option("[name=sort]", "weakest")
    rows.wait()
    page.focus("#note")
    page.keyboard.type("blurred")
    rows.let_go()
    wait_for_title(page, "dog/00005.png")
    page.keyboard.press("Enter")
    wait_for_row(folder, "cat/00000.png", note="blurred")
    assert read_rows(folder / "suspects.csv")["dog/00005.png"]["note"] == ""
    assert page.input_value("#note") == ""


def test_a_note_is_shown_before_the_server_has_it(visit, url, folder):
    page = visit(url)
    decide = Held(page, "**/api/decide", answers=False)
    page.keyboard.press("m")
    page.keyboard.type("blurred")
    page.keyboard.press("Enter")
    page.keyboard.press("x")
    wait_for_title(page, "dog/00001.png")
    page.keyboard.press("ArrowLeft")
    wait_for_title(page, "cat/00000.png")
    assert page.input_value("#note") == "blurred"
    decide.let_go()
    wait_for_text(page, "#progress-text", "^1 of 6")
    wait_for_row(folder, "cat/00000.png", note="blurred", flag="exclude")


def test_a_decision_is_not_about_the_image_before(visit, long_url, tmp_path):
    page = visit(long_url)
    rows = Held(page, "**/api/rows?*from=200*")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.keyboard.press("End")
    for _ in range(50):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    wait_for_title(page, "dog/00199.png")
    page.keyboard.press("c")
    rows.wait()
    page.keyboard.press("x")
    assert page.text_content("#live") == "The image is being loaded."
    rows.let_go()
    wait_for_title(page, "cat/00200.png")
    wait_for_text(page, "#progress-text", "^1 of 250")
    found = read_rows(tmp_path / "long" / "suspects.csv")
    assert [found[name]["flag"] for name in ("dog/00199.png", "cat/00200.png")] == ["suspect"] * 2
    page.keyboard.press("x")
    wait_for_row(tmp_path / "long", "cat/00200.png", flag="exclude")


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


def test_late_rows_do_not_take_the_focus(visit, long_url):
    page = visit(long_url)
    rows = Held(page, "**/api/rows?*from=200*")
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    page.keyboard.press("End")
    rows.wait()
    page.keyboard.press("Enter")
    assert focus(page) == "image-title"
    page.keyboard.press("/")
    rows.let_go()
    wait_for_title(page, "dog/00249.png")
    assert focus(page) == "text"


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


def test_late_changes_do_not_hide_a_decision(visit, url):
    page = visit(url)
    changes = Held(page, "**/api/changes*")
    page.evaluate(ASK_CHANGES)
    changes.wait()
    page.keyboard.press("x")
    wait_for_text(page, "#progress-text", "^1 of 6")
    changes.let_go()
    assert page.text_content("#progress-text") == "1 of 6 suspects decided"


def test_the_answer_to_a_decision_does_not_hide_the_next(visit, url):
    page = visit(url)
    decide = Held(page, "**/api/decide", answers=False)
    page.keyboard.press("c")
    wait_for_title(page, "dog/00001.png")
    page.keyboard.press("ArrowLeft")
    wait_for_title(page, "cat/00000.png")
    page.keyboard.press("x")
    page.keyboard.press("ArrowLeft")
    wait_for_title(page, "cat/00000.png")
    decide.wait()
    decide.held.pop()[0].continue_()
    decide.wait()  # for the second decision, which is sent after the answer to the first
    assert page.text_content("#status") == "excluded"
    decide.let_go()
    wait_for_text(page, "#progress-text", "^1 of 6")
    assert page.text_content("#status") == "excluded"


def test_a_decision_that_is_not_saved_stays_reported(visit, url):
    page = visit(url)
    changes = Held(page, "**/api/changes*", answers=False)
    page.evaluate(ASK_CHANGES)
    changes.wait()
    page.evaluate("window.setTimeout = () => 0")  # nothing is sent again
    page.route("**/api/decide", lambda route: route.abort())
    page.keyboard.press("x")
    wait_for_text(page, "#banner", "1 decision is kept")
    changes.held[0][0].abort()
    settle(page)
    assert "1 decision is kept" in page.text_content("#banner")


def test_a_closed_chooser_keeps_no_focus(visit, url):
    page = visit(url)
    page.keyboard.press("w")
    # At once: some browsers move the focus only when they redraw, and a key before would be lost.
    closed = "(document.querySelector('#chooser-close').click(), document.activeElement.id)"
    assert page.evaluate(closed) != "chooser-text"


def test_no_picture_of_another_image_is_shown(visit, url):
    page = visit(url)
    opacity = "getComputedStyle(document.querySelector('#image')).opacity"
    wait_until(page, f"{opacity} === '1' && document.querySelector('#image').naturalWidth > 0")
    pictures = Held(page, "**/image/2?*", answers=False)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    wait_for_title(page, "cat/00002.png")
    wait_until(page, f"{opacity} === '0'")
    pictures.let_go()
    wait_until(page, f"{opacity} === '1'")


def test_no_cell_shows_the_picture_of_another_image(visit, long_url):
    page = visit(long_url)
    page.keyboard.press("g")
    page.keyboard.press("End")
    page.wait_for_selector("#cell-249[aria-label]")  # all rows are known now
    page.keyboard.press("Home")
    page.wait_for_selector("#cell-0 img[src]")
    page.evaluate("window.setTimeout = () => 0")  # no other picture is loaded
    page.keyboard.press("End")
    page.wait_for_selector("#cell-249[aria-label]")
    shown = page.eval_on_selector_all(
        ".cell img[src]", "all => all.map(i => [i.dataset.row, i.getAttribute('src')])"
    )
    assert [src for row, src in shown if not src.startswith(f"thumbnail/{row}?")] == []


def test_an_answer_that_was_cut_off_counts_as_none(visit, url, folder):
    page = visit(url)
    page.route("**/api/detail/*", lambda route: route.fulfill(status=200, body='{"typical": ['))
    page.keyboard.press("ArrowRight")
    wait_for_title(page, "dog/00001.png")
    settle(page)
    assert visit.trouble == []
    page.route("**/api/decide", lambda route: route.fulfill(status=200, body='{"rows": ['))
    page.keyboard.press("x")
    wait_for_text(page, "#banner", "1 decision is kept")
    page.unroute("**/api/decide")
    wait_for_row(folder, "dog/00001.png", flag="exclude")

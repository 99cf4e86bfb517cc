"""Hiding a region with a slow server: no late answer is shown for that to another test."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from reviews import make_region_desk, serving
from waiting_pages import Held, settle, wait_for_networks, wait_for_state, wait_until

pytestmark = pytest.mark.usefixtures("requests_can_be_held")


def start_region(visit, url):
    page = visit(url)
    wait_for_networks(page)
    page.wait_for_selector("#draw:visible")
    wait_until(page, "document.querySelector('#image').naturalWidth === 16")
    return page


def test_a_late_state_is_not_that_of_the_next_test(visit, folder):
    desk, gate = make_region_desk(folder)
    with serving(desk) as url:
        page = start_region(visit, url)
        gate.clear()
        page.keyboard.press("r")
        state = Held(page, "**/api/region", answers=False)
        page.keyboard.press("Enter")
        state.wait()
        page.keyboard.press("Escape")
        wait_for_state(desk, "stopped")
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        state.let_go()
        assert page.text_content("#region-state") == "Working… 0 %"
        gate.set()
        page.wait_for_selector("#region-answer li")


def test_a_stop_does_not_overtake_its_start(visit, folder):
    desk, gate = make_region_desk(folder)
    with serving(desk) as url:
        page = start_region(visit, url)
        gate.clear()
        start = Held(page, "**/api/region/start", answers=False)
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        start.wait()
        page.keyboard.press("Escape")
        settle(page)
        start.let_go()
        wait_for_state(desk, "stopped")
        gate.set()
        assert not page.is_visible("#region")


def test_pictures_of_the_test_before_are_not_loaded(visit, folder):
    """The server would answer that it has forgotten them, which the browser notes as an error."""
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        page = start_region(visit, url)
        flips = Held(page, "**/flip/**", answers=False)
        page.keyboard.press("r")
        for key in ["ArrowLeft"] * 7 + ["ArrowUp"] * 7 + ["Enter"]:
            page.keyboard.press(key)
        flips.wait(12)
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        wait_until(page, "document.querySelector('.flips img')?.src.includes('/flip/2/')")
        flips.let_go()
        wait_until(page, "[...document.querySelectorAll('.flips img')].every(i => i.naturalWidth)")

"""Wait in a test until a page or a file says what is expected; no test waits a fixed time."""

from __future__ import annotations

import json
import time

from reviews import PATIENCE, read_rows


def title(page):
    return page.text_content("#image-title")


def wait_until(page, question):
    """Evaluate an expression until it is true; the page's policy forbids the waiting of playwright."""
    until = time.monotonic() + PATIENCE
    while not page.evaluate(question):
        assert time.monotonic() < until, question
        page.wait_for_timeout(30)


def wait_for_title(page, text):
    wait_until(page, f"document.querySelector('#image-title').textContent === {json.dumps(text)}")


def wait_for_text(page, selector, pattern):
    found = f"document.querySelector({json.dumps(selector)}).textContent"
    wait_until(page, f"new RegExp({json.dumps(pattern)}).test({found})")


def wait_for_networks(page):
    """Wait until the networks have answered all that the page asks them about an image."""
    page.wait_for_selector("#near li")
    seen = "[...document.querySelectorAll('#looks img')]"
    wait_until(page, f"{seen}.length > 0 && {seen}.every(i => i.naturalWidth)")


def wait_for_row(folder, name, **values):
    until = time.monotonic() + PATIENCE
    while not values.items() <= read_rows(folder / "suspects.csv")[name].items():
        assert time.monotonic() < until, read_rows(folder / "suspects.csv")[name]
        time.sleep(0.05)


def wait_for_state(desk, state):
    until = time.monotonic() + PATIENCE
    while desk.regions.state()["state"] != state:
        assert time.monotonic() < until, desk.regions.state()
        time.sleep(0.02)


class Held:
    """Holds requests of a page to some addresses, or the answers to them, until a test lets them go.

    The test needs the fixture `requests_can_be_held`, or the first requests may not be held.
    """

    def __init__(self, page, pattern, *, answers=True):
        self.page, self.pattern, self.answers = page, pattern, answers
        self.held, self.holds = [], True
        page.route(pattern, self._take)

    def _take(self, route):
        answer = route.fetch() if self.holds and self.answers else None
        if self.holds:
            self.held.append((route, answer))
        else:  # since the start, or since the answer was asked for
            _pass_on(route, answer)

    def wait(self, count=1):
        until = time.monotonic() + PATIENCE
        while len(self.held) < count:
            assert time.monotonic() < until, f"no request for {self.pattern}"
            self.page.wait_for_timeout(20)

    def let_go(self):
        """Let go what is held, and hold nothing from now on; return after the page has got it."""
        self.holds = False
        for route, answer in self.held:
            _pass_on(route, answer)
        settle(self.page)


def _pass_on(route, answer):
    if answer is None:
        route.continue_()
    else:
        route.fulfill(response=answer)


def settle(page):
    """Wait until the page has handled all that it was sent before."""
    page.evaluate("fetch('api/start').then((answer) => answer.json()).then(() => 1)")

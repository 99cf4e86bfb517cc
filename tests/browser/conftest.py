"""Debian's chromium, driven by playwright; tests are skipped where either is missing."""

from __future__ import annotations

import shutil

import pytest

from reviews import PATIENCE, make_desk, serving, write_table
from waiting_pages import wait_until


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        how = {"executable_path": chromium, "args": ["--no-sandbox"]}
        opened = driver.chromium.launch(**how, timeout=1000 * PATIENCE)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, report):
    """Opens a module's `report`; at the end nothing may have been complained of, nor asked of the network."""
    pages, trouble = [], []

    def open_(width=1200, **how):
        page = browser.new_page(viewport={"width": width, "height": 800}, **how)
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda r: trouble.append(r.url) if r.url[:4] == "http" else None)
        page.goto(report.as_uri())
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert trouble == []


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def url(folder):
    with serving(make_desk(folder)) as address:
        yield address


@pytest.fixture
def visit(browser):
    """Open pages of one browser; fail at the end if a page had an error."""
    trouble = []
    contexts = []

    def add_context(**how):
        contexts.append(browser.new_context(**how))
        contexts[-1].set_default_timeout(1000 * PATIENCE)

    def open_(url, **how):
        if how:
            add_context(**how)
        page = contexts[-1 if how else 0].new_page()
        page.on("console", lambda message: _note(trouble, message))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.goto(url)
        wait_until(page, "document.querySelector('#image-title').textContent !== '…'")
        return page

    add_context(viewport={"width": 1200, "height": 850})
    open_.trouble, open_.contexts = trouble, contexts
    yield open_
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture
def requests_can_be_held(visit):
    """Let all requests of the pages pass through playwright from the start.

    When a page is told to do so later, its next requests can still go to the server directly.
    """
    visit.contexts[0].route("**/no-such-address", lambda route: route.abort())


def _note(trouble, message):
    """Collect errors of the browser, unless a server has ended before its page was closed."""
    if "net::ERR" not in message.text:
        trouble.append(f"{message.text} ({message.location['url']})")

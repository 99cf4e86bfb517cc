"""Debian's chromium, driven by playwright; tests are skipped where either is missing."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, report):
    """Opens a module's `report`; at the end nothing may have been complained of, nor asked of the network."""
    pages, trouble = [], []

    def open_(width=1200, **how):
        page = browser.new_page(viewport={"width": width, "height": 800}, **how)
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

"""The review in a real browser: by keyboard, with many rows, two tabs, a killed server, on a phone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from ports import free_port
from reviews import make_desk, make_region_desk, make_run, read_rows, serving, write_table
from unspur.review import debias_job, decision_log, page_orders
from unspur.review.debias_job import DebiasCommand
from unspur.review.region_sample import RowSample
from waiting_pages import (
    title,
    wait_for_networks,
    wait_for_row,
    wait_for_state,
    wait_for_text,
    wait_for_title,
    wait_until,
)

NASTY = "<img src=x onerror=alert(1)>"


def test_the_whole_flow_by_keyboard(visit, url, folder):
    page = visit(url)
    assert title(page) == "cat/00000.png"
    page.keyboard.press("c")
    wait_for_title(page, "dog/00001.png")
    page.keyboard.press("n")
    wait_for_title(page, "cat/00002.png")
    page.keyboard.press("w")
    assert page.evaluate("document.activeElement.id") == "chooser-text"
    page.keyboard.type("owl")
    page.keyboard.press("Enter")
    wait_for_title(page, "dog/00003.png")
    page.keyboard.press("x")
    wait_for_title(page, "cat/00004.png")
    page.keyboard.press("s")
    wait_for_title(page, "dog/00005.png")
    page.keyboard.press("m")
    page.keyboard.type("blurred")
    page.keyboard.press("Enter")
    page.keyboard.press("x")
    wait_for_text(page, "#progress-text", "5 of 6 suspects decided, 1 skipped")
    rows = read_rows(folder / "suspects.csv")
    assert [row["flag"] for row in rows.values()][:6] == [
        *("suspect", "", "", "exclude", "suspect", "exclude")
    ]
    assert rows["cat/00002.png"]["new_label"] == "<i>owl</i>"
    assert rows["dog/00005.png"]["note"] == "blurred"
    page.keyboard.press("u")
    wait_for_row(folder, "dog/00005.png", flag="suspect", note="blurred")
    page.keyboard.press("Control+z")
    wait_for_row(folder, "dog/00005.png", note="")
    page.keyboard.press("ArrowLeft")
    wait_for_title(page, "cat/00004.png")
    page.keyboard.press("ArrowRight")
    wait_for_title(page, "dog/00005.png")


def test_escape_closes_the_class_chooser(visit, url, folder):
    page = visit(url)
    page.keyboard.press("w")
    names = page.eval_on_selector_all("#chooser-list li", "all => all.map(e => e.textContent)")
    assert names == ["dog", "<i>owl</i>"]  # the likely one first, its own label not at all
    page.keyboard.press("Escape")
    page.wait_for_selector("#chooser", state="hidden")
    assert not (folder / "review.jsonl").exists()


def test_filters_and_sorting(visit, url):
    page = visit(url)
    page.select_option("[name=shown]", "all")
    wait_for_text(page, "#found", "^12 ")
    page.select_option("[name=sort]", "doubt")
    wait_for_title(page, "cat/00006.png")
    page.select_option("[name=label]", "dog")
    wait_for_text(page, "#found", "^6 ")
    page.keyboard.press("Escape")
    page.focus("#image-title")
    page.keyboard.press("/")
    page.keyboard.type("00011")
    page.keyboard.press("Enter")
    wait_for_title(page, "dog/00011.png")
    page.fill("[name=text]", "nothing like this")
    page.keyboard.press("Enter")
    page.wait_for_selector("#empty:not([hidden])")


def test_a_grid_of_many_with_shift_select(visit, url, folder):
    page = visit(url)
    page.keyboard.press("g")
    page.wait_for_selector(".cell")
    for key in ("Space", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    assert page.text_content("#chosen") == "3 selected"
    page.keyboard.press("x")
    wait_for_text(page, "#progress-text", "^3 of 6")
    page.click("#cell-3")
    page.click("#cell-5", modifiers=["Shift"])
    assert page.text_content("#chosen") == "3 selected"
    page.click("#grid-actions [data-kind=clear]")
    wait_for_text(page, "#progress-text", "^6 of 6")
    rows = read_rows(folder / "suspects.csv")
    assert [row["flag"] for row in rows.values()][:6] == ["exclude"] * 3 + [""] * 3
    assert page.get_attribute("#cell-0", "data-status") == "excluded"
    page.focus("#viewport")
    page.keyboard.press("u")
    wait_for_text(page, "#progress-text", "^3 of 6")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wait_for_title(page, "dog/00001.png")


def timed(decide, took):
    """Return a function that also notes how long a processor works on a decision."""

    def decide_and_note(decision):
        began = time.thread_time()
        seq = decide(decision)
        took.append(time.thread_time() - began)
        return seq

    return decide_and_note


def test_fifty_thousand_rows(visit, tmp_path):
    folder, took = tmp_path / "run", []
    write_table(folder, 50_000, suspects=50_000)
    desk = make_desk(folder)
    desk.review.decide = timed(desk.review.decide, took)
    with serving(desk) as url:
        page = visit(url)
        wait_for_text(page, "#found", "^50,000 ")
        page.keyboard.press("g")
        page.wait_for_selector(".cell img[src]")
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.keyboard.press("End")
        page.wait_for_selector("#cell-49999[aria-label^='dog/49999.png']")
        assert 1 <= sum("api/rows" in url for url in asked) <= 3  # of 250 parts of the list
        wait_until(page, "document.querySelector('#cell-49999 img').naturalWidth > 0")
        assert page.locator(".cell").count() < 200
        assert page.get_attribute("#cell-49999", "aria-setsize") == "50000"
        page.evaluate("document.querySelector('#viewport').scrollTop = 1e6")
        wait_until(
            page,
            "[...document.querySelectorAll('.cell .words')].every(e => e.textContent.includes('→'))",
        )
        page.focus("#viewport")
        page.keyboard.press("a")
        assert page.text_content("#chosen") == "50,000 selected"
        page.keyboard.press("n")
        wait_for_text(page, "#progress-text", "^50,000 of 50,000")
        assert {row["flag"] for row in read_rows(folder / "suspects.csv").values()} == {""}
        page.keyboard.press("Home")
        page.keyboard.press("x")
        wait_for_row(folder, "cat/00000.png", flag="exclude")
        page.wait_for_selector("#cell-0[data-status=excluded]")  # the answer
        assert took[-1] < 5


def start_server(folder, port):
    command = [sys.executable, "-m", "unspur", "review", str(folder), "--no-browser"]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise AssertionError(f"the server ended with {process.wait()}")


def end(process):
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_kill_and_reopen(visit, tmp_path):
    folder, port = make_run(tmp_path), free_port()
    process, url = start_server(folder, port)
    page = visit(url)
    first = title(page)
    page.keyboard.press("x")
    wait_for_row(folder, first, flag="exclude")
    wait_until(page, f"document.querySelector('#image-title').textContent !== {json.dumps(first)}")
    second = title(page)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    page.keyboard.press("n")
    wait_for_text(page, "#banner", "1 decision is kept in this browser")
    assert read_rows(folder / "suspects.csv")[second]["flag"] == "suspect"
    process, url = start_server(folder, port)
    try:
        wait_for_text(page, "#banner", "restarted")
        visit.trouble.clear()  # errors about the server that has ended
        again = visit(url)
        wait_for_row(folder, second, flag="")
        wait_for_text(again, "#progress-text", "^2 of")
        page.close()
        visit.trouble.clear()
        assert title(again) not in (first,)
        logged = [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]
        assert [line["kind"] for line in logged[1:]] == ["exclude", "clear"]
    finally:
        end(process)


def test_two_tabs(visit, url, folder):
    one, two = visit(url), visit(url)
    one.keyboard.press("x")
    two.keyboard.press("ArrowRight")
    wait_for_title(two, "dog/00001.png")
    two.keyboard.press("n")
    wait_for_text(one, "#progress-text", "^2 of 6")
    wait_for_text(two, "#progress-text", "^2 of 6")
    two.keyboard.press("g")
    two.wait_for_selector("#cell-0[data-status=excluded]")
    two.keyboard.press("u")
    wait_for_row(folder, "dog/00001.png", flag="suspect")
    assert read_rows(folder / "suspects.csv")["cat/00000.png"]["flag"] == "exclude"
    two.keyboard.press("u")
    wait_for_text(two, "#banner", "nothing to undo")
    visit.trouble.clear()


def test_a_full_disk_is_reported_and_the_decision_kept(visit, url, folder, monkeypatch):
    page = visit(url)

    def full(handle, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(decision_log, "write_synced", full)
        page.keyboard.press("x")
        wait_for_text(page, "#banner", "The disk is full.*1 decision is kept")
    wait_for_row(folder, "cat/00000.png", flag="exclude")
    page.wait_for_selector("#banner", state="hidden")
    visit.trouble.clear()  # the answers 507


WIDTHS = {"desktop": 1200, "tablet": 800, "phone": 360}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_nothing_overflows(visit, url, width, scheme):
    page = visit(url, viewport={"width": width, "height": 740}, color_scheme=scheme)
    page.wait_for_selector("#typical img")
    for key in ("", "g"):
        if key:
            page.keyboard.press(key)
            page.wait_for_selector(".cell img[src]")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, h1, h2, p, .frame, .cell, dd')]
            .filter(e => e.offsetParent && !e.closest('.unseen'))
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML)"""
        )
        assert wide == []
        cut = page.evaluate(
            """() => [...document.querySelectorAll('button')].filter(e => e.offsetParent)
            .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"""
        )
        assert cut == []


def overlaps(page):
    return page.evaluate(
        """() => {
        const boxes = [...document.querySelectorAll('#filters input, #filters select, #filters button')]
          .map(e => e.getBoundingClientRect());
        return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right - 1
          && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)); }"""
    )


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_fields_of_the_filter_do_not_overlap(visit, url, width):
    page = visit(url, viewport={"width": width, "height": 740})
    page.evaluate("document.querySelector('#filter-box').open = true")
    assert not overlaps(page)


def test_it_works_by_touch_on_a_phone(visit, url, folder):
    page = visit(url, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page.tap("#actions [data-kind=confirm]")
    wait_for_title(page, "dog/00001.png")
    box = page.locator("#actions [data-kind=exclude]").bounding_box()
    assert box["height"] >= 36
    page.tap("#actions [data-kind=exclude]")
    wait_for_row(folder, "dog/00001.png", flag="exclude")


CONTRAST = """([text, ground]) => {
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const style = (s) => getComputedStyle(document.querySelector(s));
  const one = light(style(text).color), two = light(style(ground).backgroundColor);
  return (Math.max(one, two) + .05) / (Math.min(one, two) + .05); }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_modes(visit, url, scheme):
    page = visit(url, color_scheme=scheme)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(18, 22, 27)") == (scheme == "dark")
    pairs = [("h1", "header"), ("#progress-text", "header"), ("#label", "body"), (".place", "body")]
    pairs += [("#open-debias", "#open-debias"), ("#found", "#filter-box"), ("#status", "body")]
    for pair in pairs:
        assert page.evaluate(CONTRAST, list(pair)) >= 4.5, pair


def test_everything_has_a_label_for_screen_readers(visit, url):
    page = visit(url)
    page.wait_for_selector("#typical img")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, a, input, select, dialog, [role=listbox], progress')]
        .filter(e => !(e.textContent.trim() && e.matches('button, a')) && !e.getAttribute('aria-label')
          && !e.labels?.length && !document.getElementById(e.getAttribute('aria-labelledby')))
        .map(e => e.outerHTML)"""
    )
    assert nameless == []
    assert page.get_attribute("#image", "alt") == "cat/00000.png, labelled cat"
    assert page.eval_on_selector_all("#typical img", "all => all.every(i => i.alt)")
    assert page.get_attribute("#actions [data-kind=confirm]", "aria-keyshortcuts") == "C"
    page.keyboard.press("c")
    wait_for_text(page, "#live", "^dog/00001.png: dog, predicted cat, score 0.92, not decided$")
    assert page.get_attribute("#live", "aria-live") == "polite"
    page.keyboard.press("g")
    page.wait_for_selector("#cell-1[aria-label]")
    assert page.get_attribute("#viewport", "aria-activedescendant") == "cell-1"
    assert page.get_attribute("#cell-0", "role") == "option"
    assert page.get_attribute("#cell-0", "aria-selected") == "false"
    label = page.get_attribute("#cell-0", "aria-label")
    assert label == "cat/00000.png: cat, predicted dog, score 1.00, conflicting"


def test_hostile_names_are_escaped(visit, tmp_path):
    folder = tmp_path / "run"
    path = write_table(folder, 4)
    path.write_text(path.read_text().replace("cat/00000.png,cat", f"{NASTY},{NASTY}"))
    desk = make_desk(folder)
    desk.title = NASTY
    desk.classes.append(NASTY)
    with serving(desk) as url:
        page = visit(url)
        assert title(page) == NASTY
        assert page.text_content("#label") == NASTY
        page.keyboard.press("ArrowRight")
        wait_for_title(page, "dog/00001.png")
        page.keyboard.press("w")
        page.wait_for_selector("dialog[open]")
        page.keyboard.type("img")
        page.keyboard.press("Enter")
        wait_for_row(folder, "dog/00001.png", new_label=NASTY)
        page.keyboard.press("g")
        page.wait_for_selector("#cell-1 img[src]")  # that of cell 0 has a name of no file
        assert page.locator("img[src=x]").count() == 0


@pytest.mark.slow
def test_the_debias_dialog_runs_the_command_and_links_the_report(visit, tmp_path, monkeypatch):
    folder, out = tmp_path / "run", tmp_path / "new"
    write_table(folder)
    out.mkdir()
    (out / "report.html").write_text(
        "<title>done</title><p id=p></p><script>p.textContent = 'by script';"
        "fetch('api/start').then(() => p.textContent = 'asked', () => p.textContent += ', not asked')"
        "</script>"
    )
    command = DebiasCommand(["recipes"], out)
    monkeypatch.setattr(debias_job, "debias_command", lambda *_: command)
    with serving(make_desk(folder)) as url:
        page = visit(url)
        page.keyboard.press("x")
        wait_for_text(page, "#progress-text", "^1 of")
        page.click("#open-debias")
        assert page.text_content("#debias-summary").startswith(
            "1 excluded. 5 suspects are not decided"
        )
        wait_for_text(page, "#debias-command", "^unspur recipes$")
        page.click("#debias-run")
        page.wait_for_selector("#debias-report:not([hidden])")
        assert "demo" in page.text_content("#debias-lines")
        with page.context.expect_page() as opened:
            page.click("#debias-report")
        report = opened.value
        report.wait_for_selector("#p", state="attached")  # the new tab can still be empty
        wait_until(report, "document.querySelector('#p').textContent.includes('asked')")
        assert report.text_content("#p") == "by script, not asked"
        report.close()


def test_read_only_shows_and_changes_nothing(visit, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with serving(make_desk(folder, read_only=True)) as url:
        page = visit(url)
        assert "Read-only" in page.text_content("#banner")
        for key in "cnxsu":
            page.keyboard.press(key)
        assert page.is_disabled("#actions [data-kind=confirm]")
        assert title(page) == "cat/00000.png"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# -- hide a region


def point(page, across, down):
    """Return a point of the window over the image, whose pixels are a square in the middle of the frame."""
    box = page.locator("#frame").bounding_box()
    side = min(box["width"], box["height"]) - 2
    left, top = box["x"] + (box["width"] - side) / 2, box["y"] + (box["height"] - side) / 2
    return left + side * across / 16, top + side * down / 16


def open_region_page(visit, url, **how):
    page = visit(url, **how)
    page.wait_for_selector("#draw:visible")
    wait_until(page, "document.querySelector('#image').naturalWidth === 16")
    wait_for_networks(page)  # nothing on the page moves from now on
    return page


HEIGHT = "name => document.querySelector(name).getBoundingClientRect().height"


def wait_for_answer(page):
    page.wait_for_selector("#region-answer li")
    return page.text_content("#region-answer")


FLIPPED = "20 of 20 correctly classified images of cat become dog"


def test_a_rectangle_by_mouse(visit, folder):
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        page = open_region_page(visit, url)
        page.mouse.move(*point(page, 3.5, 3.5))
        page.mouse.down()
        page.mouse.move(*point(page, 1.5, 1.5))
        page.mouse.move(*point(page, -2, -1))  # outside of the image
        page.mouse.up()
        answer = wait_for_answer(page)
        assert "Without this region, 20 of 40 predictions change." in answer
        assert FLIPPED in answer
        assert "Without this region, 0 of 40 predictions change." in answer
        assert page.text_content("#region-state") == "The ordinary model relies on this region."
        assert desk.regions.state()["region"] == [0, 0, 4, 4]
        wait_until(page, "[...document.querySelectorAll('.flips img')].every(i => i.naturalWidth)")
        assert page.locator(".flips li").count() == 6
        assert title(page) == "cat/00000.png"
        page.keyboard.press("ArrowRight")  # the next image, as the rectangle is no longer drawn
        wait_for_title(page, "dog/00001.png")
        assert page.is_visible("#rectangle")
        page.keyboard.press("Escape")
        assert not page.is_visible("#rectangle")
        assert not page.is_visible("#region")
        page.click("#frame")  # a click draws nothing
        assert not page.is_visible("#rectangle")


def test_a_rectangle_by_keyboard(visit, folder):
    desk, _ = make_region_desk(folder, read_only=True)
    with serving(desk) as url:
        page = open_region_page(visit, url)
        page.keyboard.press("r")
        page.wait_for_selector("#region-ask:visible")
        for key in ["ArrowLeft"] * 7 + ["ArrowUp"] * 7 + ["Shift+ArrowRight", "Shift+ArrowDown"]:
            page.keyboard.press(key)
        assert page.text_content("#live") == (
            "Rectangle: left 0, top 0, width 5, height 5, of 16 × 16 pixels."
        )
        assert title(page) == "cat/00000.png"
        page.keyboard.press("Enter")
        assert FLIPPED in wait_for_answer(page)
        assert desk.regions.state()["region"] == [0, 0, 5, 5]
        page.keyboard.press("r")
        page.keyboard.press("Escape")
        assert not page.is_visible("#rectangle")


def test_a_rectangle_by_touch(visit, folder):
    desk, _ = make_region_desk(folder)
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    with serving(desk) as url:
        page = open_region_page(visit, url, **phone)
        page.tap("#draw")
        page.wait_for_selector(".frame.drawing")
        page.locator("#frame").scroll_into_view_if_needed()
        touch = page.context.new_cdp_session(page)

        def send(kind, *places):
            points = [dict(zip("xy", point(page, *place), strict=True)) for place in places]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        send("touchStart", (0.5, 0.5))
        send("touchMove", (2.5, 2.5))
        send("touchMove", (3.5, 3.5))
        send("touchEnd")
        assert FLIPPED in wait_for_answer(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_test_of_a_region_shows_progress_and_stops(visit, folder):
    desk, gate = make_region_desk(folder)
    with serving(desk) as url:
        page = open_region_page(visit, url)
        gate.clear()
        page.click("#draw")
        page.click("#region-ask")
        wait_for_text(page, "#region-state", "^Working… ")
        wait_until(page, "document.querySelector('#region-progress').value > 0")
        page.click("#region-cancel")
        page.wait_for_selector("#region", state="hidden")
        wait_for_state(desk, "stopped")
        gate.set()
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        wait_for_answer(page)


def test_only_what_the_network_sees_can_be_hidden(visit, folder):
    desk, _ = make_region_desk(folder, crop="inner")
    with serving(desk) as url:
        page = open_region_page(visit, url)
        page.mouse.move(*point(page, 0, 0))  # outside of the central 14 x 14 pixels
        page.mouse.down()
        page.mouse.move(*point(page, 16, 16))
        page.mouse.up()
        wait_for_answer(page)
        assert desk.regions.state()["region"] == [0, 0, 16, 16]
        mark, frame = page.evaluate(f"['#rectangle', '#frame'].map({HEIGHT})")
        assert mark / (frame - 2) == pytest.approx(14 / 16, abs=0.01)


def test_a_failed_test_says_why_and_names_stay_text(visit, folder, monkeypatch):
    desk, _ = make_region_desk(folder, dog=NASTY)
    with serving(desk) as url:
        page = open_region_page(visit, url)
        page.keyboard.press("r")
        for _ in range(7):
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        assert f"become {NASTY}" in wait_for_answer(page)
        assert page.locator("img[src=x]").count() == 0
        monkeypatch.setattr(page_orders, "sample_rows", lambda *_: RowSample([], 0))
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        wait_for_text(page, "#region-state", "No image can be read. suspects.csv has no image")


def test_without_networks_no_region_is_offered(visit, url):
    page = visit(url)
    page.wait_for_selector("#typical img")
    assert not page.is_visible("#draw")
    page.keyboard.press("r")
    wait_for_text(page, "#region-state", "There is no network here|being loaded")
    assert not page.is_visible("#region-ask")

"""Tests that every page must pass in a browser; the tests of each page import them."""

from waiting_pages import wait_until


def test_a_page_prints_with_its_settings(open_page, tmp_path):
    page = open_page()
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 without margins
    assert not page.is_visible(".controls")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718


def test_without_scripts_a_page_is_complete_and_has_no_dead_controls(open_page):
    page = open_page(java_script_enabled=False)
    assert not page.is_visible(".controls")
    assert page.locator(".suspects .card").first.is_visible()


def test_a_picture_is_enlarged_by_mouse_and_keyboard(open_page):
    page = open_page(700)
    first = page.locator(".suspects .card img").first
    small = first.bounding_box()["width"]
    first.click()
    large = "document.querySelector('.zoom img').getBoundingClientRect().width"
    wait_until(page, f"{large} > {3 * small}")  # once the picture is decoded
    assert page.locator(".zoom img").get_attribute("src") == first.get_attribute("src")
    name = page.locator(".suspects .card").first.get_attribute("data-name")
    assert name in page.locator(".zoom p").text_content()
    page.keyboard.press("ArrowRight")
    second = page.locator(".suspects .card img").nth(1)
    assert page.locator(".zoom img").get_attribute("src") == second.get_attribute("src")
    page.keyboard.press("Escape")
    page.wait_for_selector(".zoom", state="hidden")
    assert second.evaluate("e => e === document.activeElement")
    first.focus()
    page.keyboard.press("Enter")
    assert page.is_visible(".zoom")
    page.keyboard.press("ArrowRight")
    # At once: a focus that is set later would be taken from what has it by then.
    closed = "e => { document.querySelector('.zoom button').click(); return e === document.activeElement; }"
    assert second.evaluate(closed)
    assert not page.is_visible(".zoom")


def test_no_label_is_cut(open_page):
    for width in (1200, 360):
        cut = open_page(width).eval_on_selector_all(
            ".card p, .looks p, .looks figcaption, .tiles li *",
            "all => all.filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)"
            ".map(e => e.textContent)",
        )
        assert cut == []

"""What every page must do in a browser; the tests of each page import these."""


def test_it_prints_with_its_settings(open_page, tmp_path):
    page = open_page()
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # what A4 leaves between its margins
    assert not page.is_visible(".controls")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718


def test_without_scripts_it_is_whole_and_has_no_dead_controls(open_page):
    page = open_page(java_script_enabled=False)
    assert not page.is_visible(".controls")
    assert page.locator(".suspects .card").first.is_visible()

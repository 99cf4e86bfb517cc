"""The theory report: a self-contained page, deterministic figures, and all numbers."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pages import refuse
from unspur.errors import StoreError, UnspurError
from unspur.report import theory_figures, theory_page, theory_words
from unspur.theory.studies import QUICK, Settings

for package in ("matplotlib", "scipy", "jinja2"):
    pytest.importorskip(package, reason="the report is drawn with the extra 'report'")

TINY = replace(
    QUICK,
    points=6,
    draws=300,
    widths=(1, 3),
    flow_ps=(0.9, 1.0),
    horizon=100.0,
    seeds=(0, 1),
    ps=(0.6, 0.9),
    samples=300,
    epochs=3,
    mixtures=3,
    mask_steps=5,
    pairs=50,
)
PARTS = ("bounds", "mixtures", "corners", "flows", "simulation", "pruning", "cosines")


class Page(HTMLParser):
    """The elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.cells, self.labels, self.svgs = [], [], [], [], 0
        self.open = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag == "svg":
            self.svgs += 1
            self.labels.append(self.open[-1][1] if self.open else {})
        if tag in ("div", "p", "td", "th", "h2", "caption"):
            self.open.append((tag, attrs))

    def handle_endtag(self, tag):
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] in ("td", "th"):
            self.cells.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("theory") / "new" / "folder"
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory_page, "QUICK", TINY)
        numbers = theory_page.write(out, quick=True, progress=said.append)
    return out, numbers, said


@pytest.fixture(scope="module")
def html(folder):
    return (folder[0] / "theory.html").read_text()


def test_the_files_of_the_folder(folder):
    out, numbers, said = folder
    names = {path.name for path in out.iterdir()}
    assert names == {"theory.html", "theory.json", *(f"{part}.svg" for part in PARTS)}
    stored = json.loads((out / "theory.json").read_text())
    assert stored == json.loads(json.dumps(numbers))
    assert set(stored) == {"about", "settings", *PARTS}
    assert set(stored["about"]["seconds"]) == set(PARTS)
    assert set(stored["about"]["versions"]) >= {"unspur", "python", "torch", "numpy", "scipy"}
    assert stored["settings"]["epochs"] == 3
    assert said[0] == "bounds"
    assert "figures" in said[-1]


def test_the_numbers_have_the_expected_shapes_and_results(folder):
    numbers = folder[1]
    runs = numbers["simulation"]["runs"]
    assert [run["rule"] for run in runs] == ["SGD 0.1", "Adam 0.001"]
    assert len(runs[0]["weights"]) == 2
    assert len(runs[0]["weights"][0][1]) == 16
    assert [run["objective"] for run in numbers["pruning"]["runs"]] == [
        *("bound", "exponential", "logistic", "error")
    ]
    grid = numbers["corners"]["grid"]
    assert all(len(column) == grid["cases"] for column in grid["columns"].values())
    assert grid["fails"] > 0
    assert grid["fails_where_mean_is_not_negative"] == 0
    assert grid["fails_with_ties_where_mean_is_not_negative"] == 0
    assert grid["one_sided_fails"] == 0
    assert numbers["mixtures"]["apart_at_the_limit"] < 1e-12
    assert all(min(run["slack"].values()) > 0 for run in numbers["flows"]["runs"])
    assert numbers["corners"]["fails_up_to"] < numbers["corners"]["mean_is_negative_below"] < 0
    holds = {example["name"]: example["holds"] for example in numbers["corners"]["examples"]}
    assert [name for name, fine in holds.items() if not fine] == ["negative mean", "negative w_inv"]


def test_the_page_is_self_contained(html):
    tags = Page(html).tags
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "iframe", "object"}
    for _, attrs in tags:
        for name in ("src", "href", "xlink:href", "style", "onload"):
            assert "http" not in (attrs.get(name) or "")
            assert name not in ("src", "onload") or name not in attrs
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_the_page_has_a_dark_and_a_print_style(html):
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert '<html lang="en">' in html
    assert theory_figures.INK not in html.split("</style>")[1]  # figures take the page's colour
    assert html.count("currentColor") > 100


def test_every_figure_has_a_description(html):
    page = Page(html)
    assert page.svgs == len(PARTS) + 3
    assert all(label.get("role") == "img" for label in page.labels)
    assert all(len(label["aria-label"]) > 60 for label in page.labels)


def test_links_within_the_page_have_targets(html):
    ids = Page(html).ids
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html))
    assert {a or b for a, b in used} <= set(ids)
    assert len(used) > 20


def test_tables_show_the_numbers(folder, html):
    cells = Page(html).cells
    for run in folder[1]["simulation"]["runs"]:
        for mean, sd in zip(run["ratio"]["mean"], run["ratio"]["sd"], strict=True):
            assert f"{mean:.3f} ± {sd:.3f}" in cells
    for curve in folder[1]["mixtures"]["curves"]:
        assert theory_words.number(curve["bound"][0]) in cells


def test_a_quick_page_says_that_it_is_quick(folder, html):
    _, numbers, _ = folder
    figures = dict.fromkeys(PARTS, "<svg></svg>")
    assert "This is the quick version" in html
    assert "This is the quick version" not in theory_page.page(numbers, figures, quick=False)


def test_text_is_escaped(folder):
    numbers = json.loads(json.dumps(folder[1]))
    numbers["simulation"]["runs"][0]["rule"] = '<b title="x">&'
    text = theory_page.page(numbers, dict.fromkeys(PARTS, "<svg></svg>"), quick=False)
    assert "<b title" not in text
    assert "&lt;b title=" in text


# Figures


def test_figures_are_valid_and_self_contained(folder):
    for part in PARTS:
        text = (folder[0] / f"{part}.svg").read_text()
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg")
        assert root[0].attrib["fill"] == "#fff"  # the background comes first
        assert theory_figures.INK in text
        assert "<dc:date>" not in text
        assert not re.search(r'(href|src)="(?!#)', text)


@pytest.mark.parametrize("part", ["simulation", "corners"])
def test_the_same_numbers_give_the_same_bytes(folder, part):
    """Figures depend only on the numbers, also if these are read from theory.json."""
    stored = json.loads((folder[0] / "theory.json").read_text())
    assert theory_figures.draw(part, stored[part]) == theory_figures.draw(part, folder[1][part])
    assert (
        theory_figures.on_white(theory_figures.draw(part, stored[part]))
        == (folder[0] / f"{part}.svg").read_text()
    )


def test_two_figures_in_one_page_share_no_ids(folder):
    svg = theory_figures.draw("corners", folder[1]["corners"])
    ids = [set(re.findall(r'\bid="([^"]+)"', theory_figures.inline(svg, name))) for name in "ab"]
    assert not ids[0] & ids[1]
    assert all(each.startswith("a-") for each in ids[0])


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("ground", ["#ffffff", "#181d24"])
@pytest.mark.parametrize("colour", theory_figures.SERIES)
def test_lines_are_visible_on_light_and_dark(colour, ground, html):
    assert ground in html
    low, high = sorted((luminance(colour), luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 3


def test_numbers_are_formatted_with_three_digits():
    shown = [theory_words.number(x) for x in (0, 0.12345, 1234.5, -0.5, 3.21e-7, None)]
    assert shown == ["0", "0.123", "1.23e+03", "−0.5", "3.2e−7", "–"]


# Without the extras


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib", "scipy"])
def test_a_missing_extra_is_named_before_any_work(missing, monkeypatch, tmp_path):
    refuse(monkeypatch, missing)
    monkeypatch.setattr(theory_page, "compute", lambda *_: pytest.fail("work was done"))
    with pytest.raises(UnspurError, match=rf"needs {missing}.*pip install 'unspur\[report\]'"):
        theory_page.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_created_is_an_error_before_any_work(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(theory_page, "compute", lambda *_: pytest.fail("work was done"))
    with pytest.raises(StoreError, match=r"file/out cannot be .*: Not a directory"):
        theory_page.write(tmp_path / "file" / "out")


def test_the_full_settings_are_those_of_the_paper():
    full = Settings()
    assert (full.d, full.epochs, full.batch, len(full.seeds)) == (15, 500, 1024, 15)
    assert (full.ps[0], full.ps[-1]) == (0.6, 0.99)
    assert {str(rule) for rule in full.rules} == {"SGD 0.1", "Adam 0.001"}
    assert full.p in full.ps
    assert QUICK.p in QUICK.ps

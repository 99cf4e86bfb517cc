"""The site: links that leave docs/, the navigation, the references that come from the program."""

from __future__ import annotations

import re
from pathlib import Path

import api_reference
import command_reference
import pytest
import source_pages
from navigation import expand
from site_links import links, place_of, rewrite

import unspur
from unspur.cli.lazy_group import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "docs/audit.md#cost", "audit.md#cost"),
        ("README.md", "docs/results/README.md", "results/README.md"),
        ("README.md", "src/unspur/api.py", "source/src/unspur/api.py.md"),
        ("docs/audit.md", "../src/unspur/masks", "source/src/unspur/masks/index.md"),
        ("docs/audit.md", "../README.md", "index.md"),
        ("docs/audit.md", "notebooks/1-audit-a-folder.py", "notebooks/1-audit-a-folder.md"),
        ("docs/results/README.md", "../../CHANGELOG.md", "../changelog.md"),
        ("docs/results/slim.md", "../../results/speed.json.gz", "../source/results/speed.json.gz"),
        ("docs/audit.md", "https://pytorch.org", "https://pytorch.org"),
        ("docs/audit.md", "#cost", "#cost"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, link: str, expected: str) -> None:
    found = rewrite(f"See [it]({link}).", page, lambda path: place_of(ROOT, path))
    assert found == f"See [it]({expected})."


def test_code_is_left_as_it_is() -> None:
    text = "`x[0](docs/a.md)`\n\n```python\ny = f[1](docs/b.md)\n```\n[c](docs/c.md)\n"
    assert list(links(text, "README.md")) == ["docs/c.md"]
    changed = rewrite(text, "README.md", lambda path: place_of(ROOT, path))
    assert changed == text.replace("(docs/c.md)", "(c.md)")


def test_a_picture_in_html_is_found_too() -> None:
    found = rewrite('<img src="docs/images/report.png">', "README.md", lambda p: place_of(ROOT, p))
    assert found == '<img src="images/report.png">'


def test_every_page_has_a_place_in_the_navigation() -> None:
    nav = [{"Home": "index.md"}, {"Guides": ["a.md", "*"]}, {"More": ["x/"]}]
    pages = ["index.md", "a.md", "b.md", "x/1.md", "source/f.py.md"]
    expected = [{"Home": "index.md"}, {"Guides": ["a.md", "b.md"]}, {"More": ["x/1.md"]}]
    assert expand(nav, pages) == expected


def test_every_command_and_option_is_in_the_reference() -> None:
    text = command_reference.reference()
    assert set(re.findall(r"^## unspur (\S+)$", text, re.MULTILINE)) == set(COMMANDS)
    assert "### unspur data make" in text
    assert "| `--power-rates <str>` | Shares of conflicting images" in text
    for row in re.findall(r"^\| `.*$", text, re.MULTILINE):
        assert len(re.split(r"(?<!\\)\|", re.sub("`.*?`", "", row))) == 5, row


def test_every_public_name_is_in_the_reference() -> None:
    text = api_reference.reference()
    shown = set(re.findall(r"heading: unspur\.(\w+)", text))
    assert {name for name in unspur.__all__ if not name.startswith("_")} - shown <= {"UnspurError"}


def test_a_file_with_fences_stays_in_one_block() -> None:
    page = source_pages.file_page(ROOT, "tests/docsite/test_site.py")
    assert page.count("`" * 6) == 2

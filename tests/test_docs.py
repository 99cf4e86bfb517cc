"""The documentation: links are valid, commands exist, and pages match the records."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unspur.cli import app
from unspur.cli.lazy_group import COMMANDS, load_command
from unspur.reproduce import ITEMS, prose
from unspur.reproduce.item import Item

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = [page for page in PAGES if page.parent.name == "decisions" and page.stem != "README"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_one_style_of_percentages(page: Path) -> None:
    assert not re.findall(r".{20}\d%", page.read_text()), "write 5 %, not 5%"


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_the_four_parts_and_is_listed(page: Path) -> None:
    """What the paper does, what we do, why, how to get the paper's behaviour."""
    headings = re.findall(
        r"^## (?:What the paper|What (we)|(Why)|How to get the paper)", page.read_text(), re.M
    )
    assert headings == [("", ""), ("we", ""), ("", "Why"), ("", "")]
    assert f"({page.name})" in (page.parent / "README.md").read_text()


def test_commands_of_the_readme_exist() -> None:
    known = set(COMMANDS)
    used = set(re.findall(r"(?:^|`)unspur (\w+)", (ROOT / "README.md").read_text(), re.M))
    assert used >= {"demo", "debias"}
    assert used <= known


def commands_of(page: Path) -> list[list[str]]:
    """Return the arguments of every `unspur` line in the code blocks of a page."""
    found_blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.S | re.M)
    blocks = [text for language, text in found_blocks if language in ("", "sh", "bash")]
    lines = "\n".join(blocks).replace("\\\n", " ").replace(" && ", "\n").splitlines()
    found = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [words[1:] for words in found if words[:1] == ["unspur"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_code_blocks_are_accepted(page: Path) -> None:
    """The command line takes their options and arguments; nothing is run."""
    for name, *words in commands_of(page):
        command, left = load_command(name), words
        if hasattr(command, "commands") and words:
            command, left = command.commands[words[0]], words[1:]
        assert not command.make_context("unspur", left).args


def test_commands_are_found_in_code_blocks() -> None:
    assert ["demo"] in commands_of(ROOT / "README.md")
    assert len(commands_of(ROOT / "docs" / "probe.md")) == 6


@pytest.mark.parametrize("page", ["report", "audit"])
def test_the_page_about_reports_has_every_section(page: str) -> None:
    template = (ROOT / "src" / "unspur" / "report" / "assets" / f"{page}.html.j2").read_text()
    titles = re.findall(r"<h2>([\w ]+)", template)
    assert len(titles) > 5
    rows = re.findall(r"^\| ([\w ]+) \|", (ROOT / "docs" / "report.md").read_text(), re.M)
    assert {title.lower() for title in titles} <= set(rows)


def test_the_page_of_commands_has_every_command() -> None:
    used = set(re.findall(r"`unspur ([a-z]+)", (ROOT / "docs" / "commands.md").read_text()))
    assert used == set(COMMANDS)


def test_the_page_of_commands_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs" / "commands.md").read_text().partition("| extra |")[2]
    rows = re.findall(r"^\| ([^|]+) \|", text, re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(project["optional-dependencies"]) - {"dev"}


def test_pages_state_one_oldest_torch() -> None:
    pages = [page for page in PAGES if page.name not in ("CHANGELOG.md", "UPGRADING.md")]
    texts = {page: re.findall(r"(2\.\d+)\)? or newer", page.read_text()) for page in pages}
    assert texts[ROOT / "README.md"]
    assert {version for versions in texts.values() for version in versions} == {"2.6"}


def test_the_glossary_defines_a_word_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    words = [word for row in rows for word in row.split(", ") if word not in ("word", "---")]
    assert len(words) == len(set(words))
    assert all(" (" in word for word in words if word.startswith(("gain", "score")))


def test_the_page_of_the_reproduction_has_every_item_and_its_cells() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+|–) \| [^|]+ \|$", text, re.M)
    sizes = {
        name: str(len(item.cells())) if isinstance(item, Item) else "–"
        for name, item in ITEMS.items()
    }
    assert dict(rows) == sizes
    assert [name for name, _ in rows] == list(ITEMS)


def test_the_readme_can_be_scanned() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    wide = [line for line in lines if len(line) > 104 and not line.startswith(("|", "!["))]
    assert not wide


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_imports_in_examples_exist(page: Path) -> None:
    for module, names in re.findall(r"^from (unspur[\w.]*) import (.+)$", page.read_text(), re.M):
        found = importlib.import_module(module)
        assert [name for name in names.split(", ") if not hasattr(found, name)] == []


def test_every_page_is_up_to_date(tmp_path: Path) -> None:
    """Check that `make pages` would change nothing."""
    results, pages = ROOT / "results", tmp_path / "docs" / "results"
    (tmp_path / "results").symlink_to(results)
    args = ["reproduce", "all", "--no-run", "--quiet", "--pages", str(pages)]
    done = CliRunner().invoke(app, [*args, "--results", str(tmp_path / "results")])
    assert done.exit_code == 0, done.output
    prose.write(ROOT / "docs" / "templates", results, tmp_path)
    written = [path for path in tmp_path.rglob("*.md") if not path.is_symlink()]
    stale = {
        path.relative_to(tmp_path).as_posix()
        for path in written
        if path.read_text() != (ROOT / path.relative_to(tmp_path)).read_text()
    }
    assert len(written) > 30
    assert not stale, f"not what the records give; run `make pages`: {sorted(stale)}"

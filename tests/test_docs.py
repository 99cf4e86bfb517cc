"""The documentation: links are valid, commands exist, and pages match the records."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unspur.cli import app
from unspur.cli.lazy_group import COMMANDS
from unspur.reproduce import prose

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_commands_of_the_readme_exist() -> None:
    known = set(COMMANDS)
    used = set(re.findall(r"`unspur (\w+)", (ROOT / "README.md").read_text()))
    assert used
    assert used <= known


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

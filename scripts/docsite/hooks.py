"""What `mkdocs build` adds to docs/: pages of the program, of the notebooks and of linked files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import api_reference
import command_reference
import navigation
import site_links
import source_pages
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "build" / "notebooks"


def on_files(files: Files, config: Any) -> Files:
    """Add every page that is not in docs/, then put all pages into the navigation."""
    for name, text in _generated().items():
        files.append(File.generated(config, name, content=text))
    for path in [*NOTEBOOKS.glob("*.png"), *NOTEBOOKS.glob("*.ipynb")]:
        name = path.relative_to(NOTEBOOKS.parent).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted(_linked(files)):
        files.append(_source_file(path, config))
    config.nav = navigation.expand(
        config.nav, [page.src_uri for page in files.documentation_pages()]
    )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links that leave docs/ at the pages of the site."""
    path = _repository_path(page.file.src_uri)
    if path is None:
        return markdown

    def place(target: str) -> str | None:
        found = site_links.place_of(ROOT, target)
        return found if files.get_file_from_path(found) else None

    return site_links.rewrite(markdown, path, place)


def _generated() -> dict[str, str]:
    """Return the text of pages by their place in the site."""
    root_pages = {site_links.site_page(path.name): path for path in ROOT.glob("*.md")}
    notebooks = {f"notebooks/{path.name}": path for path in NOTEBOOKS.glob("*.md")}
    texts = {name: path.read_text("utf-8") for name, path in {**root_pages, **notebooks}.items()}
    return {
        **texts,
        "reference/commands.md": command_reference.reference(),
        "reference/api.md": api_reference.reference(),
    }


def _repository_path(place: str) -> str | None:
    """Return the file of the repository that a page is, or None for one that is generated."""
    if (ROOT / "docs" / place).is_file():
        return f"docs/{place}"
    pages = {site_links.site_page(path.name): path.name for path in ROOT.glob("*.md")}
    return f"docs/{place}" if place.startswith("notebooks/") else pages.get(place)


def _linked(files: Files) -> set[str]:
    """Return the files and folders that are no pages and that a page links to."""
    found = {
        target
        for page in files.documentation_pages()
        if (path := _repository_path(page.src_uri)) is not None
        for target in site_links.links(page.content_string, path)
    }
    return {
        path
        for path in found
        if (ROOT / path).exists() and site_links.place_of(ROOT, path).startswith("source/")
    }


def _source_file(path: str, config: Any) -> File:
    place = site_links.source_place(ROOT, path)
    if not place.endswith(".md"):
        return File.generated(config, place, abs_src_path=str(ROOT / path))
    page = source_pages.folder_page if (ROOT / path).is_dir() else source_pages.file_page
    level = InclusionLevel.NOT_IN_NAV
    return File.generated(config, place, content=page(ROOT, path), inclusion=level)

"""Links of the pages: those that leave docs/ lead to pages that the site makes of the repository's files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

HIDDEN = "docs/templates"
LINK = re.compile(r'(\]\(|\b(?:src|srcset|href)=")([^)"\s]+)')
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(rf"{FENCE.pattern}|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", re.DOTALL | re.MULTILINE)
SHOWN_AS_TEXT = {".py", ".toml", ".sh", ".md", ".cff", ".yml", ".yaml", ".txt", ""}


def site_page(path: str) -> str:
    """Return the place in the site of a page of the repository: the README is its front page."""
    if "/" not in path:
        return "index.md" if path == "README.md" else path.lower()
    return path.removeprefix("docs/")


def is_page(path: str) -> bool:
    """Return whether a file of the repository is a page of the site as it is."""
    inside = path.startswith("docs/") or "/" not in path
    return inside and path.endswith(".md") and not path.startswith(HIDDEN)


def source_place(root: Path, path: str) -> str:
    """Return the place in the site for a file or a folder that is no page."""
    if (root / path).is_dir():
        return f"source/{path}/index.md"
    return f"source/{path}.md" if Path(path).suffix in SHOWN_AS_TEXT else f"source/{path}"


def place_of(root: Path, path: str) -> str:
    """Return the place in the site of anything in the repository."""
    if (root / path / "README.md").is_file() and path.startswith("docs/"):
        return site_page(f"{path}/README.md")
    if path.startswith("docs/notebooks/") and path.endswith(".py"):
        return site_page(path.removesuffix(".py") + ".md")
    if is_page(path) or (path.startswith("docs/") and (root / path).is_file()):
        return site_page(path)
    return source_place(root, path)


def links(text: str, page: str) -> Iterator[str]:
    """Yield the paths in the repository to which the text of a page links."""
    for match in LINK.finditer(CODE.sub("", text)):
        if (path := _target(match[2], page)) is not None:
            yield path


def rewrite(text: str, page: str, place: Callable[[str], str | None]) -> str:
    """Return the text of a page with links for the site; a link without a place stays as it is."""
    here = posixpath.dirname(site_page(page))

    def changed(match: re.Match[str]) -> str:
        path = _target(match[2], page)
        found = place(path) if path is not None else None
        if found is None:
            return match[0]
        _, mark, anchor = match[2].partition("#")
        target = found if match[1] == "](" else re.sub(r"\.md$", ".html", found)
        return f"{match[1]}{posixpath.relpath(target, here or '.')}{mark}{anchor}"

    parts, last = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(changed, text[last : code.start()]), code[0]]
        last = code.end()
    return "".join([*parts, LINK.sub(changed, text[last:])])


def _target(link: str, page: str) -> str | None:
    """Return the path in the repository that a link of a page means; None for addresses and anchors."""
    path = link.partition("#")[0]
    if not path or ":" in path or path.startswith("/"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))

"""Render the pages of prose from their templates, with recorded numbers.

    python -m unspur.reproduce.prose [--templates docs/templates] [--results results] [--out .]

The template of a page has the same path below the folder of templates as the page in the repository, plus
.j2. A placeholder calls a function of `prose_numbers`, such as {{ score("main-cmnist", ["ERM", "1pct"]) }}.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ..errors import UnspurError
from ..extras import need
from ..store import make_folder, write_bytes
from .prose_numbers import ProseNumbers


def render(templates: Path, results: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page; errors name the page and the placeholder."""
    jinja2 = need("jinja2")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.globals.update(ProseNumbers(results).functions())
    for path in sorted(templates.rglob("*.j2")):
        page = path.relative_to(templates).with_suffix("").as_posix()
        try:
            yield page, environment.from_string(path.read_text("utf-8")).render()
        except (jinja2.TemplateError, UnspurError) as error:
            raise UnspurError(f"{page} cannot be rendered: {error}") from error


def write(templates: Path, results: Path, out: Path) -> list[str]:
    """Render every page into a folder; return the names of those that changed."""
    changed = []
    for page, text in [*render(templates, results)]:
        path = out / page
        if not path.exists() or path.read_text("utf-8") != text:
            make_folder(path.parent)
            write_bytes(path, text.encode())
            changed.append(page)
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description="Render the pages of prose from their templates.")
    parser.add_argument("--templates", type=Path, default=Path("docs/templates"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    for page in write(options.templates, options.results, options.out):
        print(page)


if __name__ == "__main__":
    main()

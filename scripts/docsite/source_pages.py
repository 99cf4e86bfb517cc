"""Pages that show a file or a folder of the repository, so that links to the code work without a network."""

from __future__ import annotations

import ast
from pathlib import Path

HEAD = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n"
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh", ".yml": "yaml", ".md": "markdown"}


def file_page(root: Path, path: str) -> str:
    """Return a page with the text of a file."""
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"{HEAD}# {path}\n\n``````{language}\n{(root / path).read_text('utf-8')}``````\n"


def folder_page(root: Path, path: str) -> str:
    """Return a page with the files of a folder and the first line of what they say about themselves."""
    folder = root / path
    init = folder / "__init__.py"
    about = _docstring(init) if init.is_file() else ""
    rows = [
        f"| `{each.name}{'/' if each.is_dir() else ''}` | {_first_line(each)} |"
        for each in sorted(folder.iterdir())
        if not each.name.startswith(("__pycache__", "."))
    ]
    table = "\n".join(["| file | |", "| --- | --- |", *rows])
    return f"{HEAD}# {path}\n\n{about}\n\n{table}\n"


def _first_line(path: Path) -> str:
    file = path / "__init__.py" if path.is_dir() else path
    known = file.suffix == ".py" and file.is_file()
    return _docstring(file).partition("\n")[0].replace("|", "\\|") if known else ""


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""

"""Add results of `unspur bench` or measurements of `unspur export` to the records.

    python -m unspur.reproduce.add NAME FILE.json [--results results]

NAME is the item of the runs, such as methods/lff, or the name of the export.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import UnspurError
from ..store import locked, make_folder, read_document, read_lines, write_lines
from .records import Records
from .slim_item import EXPORTS


def add(name: str, file: Path, results: Path) -> str:
    """Add the runs or the export in a file; return a text that says what was added."""
    found = read_document(file)
    if isinstance(found, dict) and "results" in found:
        return f"{Records(results).add_bench(name, found)} runs"
    if isinstance(found, dict) and "onnx_milliseconds" in found:
        return _add_export({"name": name, **found}, results)
    raise UnspurError(
        f"{file} holds neither results of `unspur bench` nor measurements of `unspur export`."
    )


def _add_export(line: dict[str, object], results: Path) -> str:
    make_folder(results)
    with locked(path := results / EXPORTS):
        lines = {each["name"]: each for each in read_lines(path)[0]}
        write_lines(path, (lines | {line["name"]: line}).values())
    return "1 export"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="item of the runs, or name of the export")
    parser.add_argument("file", type=Path, help="JSON of `unspur bench` or `unspur export`")
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    print(f"{add(options.name, options.file, options.results)} added to {options.results}")


if __name__ == "__main__":
    main()

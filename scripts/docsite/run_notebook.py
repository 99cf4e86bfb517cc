"""Execute a notebook in a folder of its own and write it as .ipynb and as a page of the site.

    python scripts/docsite/run_notebook.py docs/notebooks/NAME.py build/notebooks

Notebooks are kept as Python files, in which cells start with `# %%`; Jupyter opens them with jupytext.
"""

from __future__ import annotations

import importlib
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

LIMIT = 180  # seconds of one core that a notebook may take
PATIENCE = 900  # seconds by the clock that a cell may take on a busy machine
NOTE = (
    "\nThis page is [a notebook]({name}.ipynb), executed when the site was built; "
    "it took {seconds:.0f} s of one CPU core.\n"
)


def execute(source: Path) -> tuple[Any, float]:
    """Return a notebook with the outputs of all cells, and the seconds of one core that they took."""
    notebook = jupytext.read(source)
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    # Builds the list of fonts, if it is missing, before a cell would: a cell that waits for it warns of it.
    importlib.import_module("matplotlib.font_manager")
    before = _child_seconds()
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(
            notebook, timeout=PATIENCE, startup_timeout=PATIENCE, resources=place
        )
        client.execute()
    return notebook, _child_seconds() - before


def _child_seconds() -> float:
    """Return the CPU time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check(notebook: Any, seconds: float) -> None:
    """Raise unless a notebook was quick, said nothing on stderr and ends with a picture."""
    if seconds > LIMIT:
        raise ValueError(
            f"it took {seconds:.0f} s of one core, and may take {LIMIT} s. Use fewer images or steps."
        )
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for output in (output for cell in cells for output in cell.outputs):
        if output.output_type == "stream" and output.name == "stderr":
            raise ValueError(f"it wrote to stderr, which readers would see: {output.text[:500]}")
    if not any("image/png" in output.get("data", {}) for output in cells[-1].outputs):
        raise ValueError("its last cell has no picture. End with a figure.")


def write(notebook: Any, name: str, seconds: float, out: Path) -> None:
    """Write a notebook, and as a page with its pictures beside it."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"{name}-*.png"):
        old.unlink()
    text, extra = MarkdownExporter().from_notebook_node(notebook)
    for file, content in extra["outputs"].items():
        (out / f"{name}-{file}").write_bytes(content)
        text = text.replace(f"({file})", f"({name}-{file})")
    text = text.replace("![png]", "![The figure of the cell above]")
    (out / f"{name}.md").write_text(text + NOTE.format(name=name, seconds=seconds), "utf-8")
    nbformat.write(notebook, out / f"{name}.ipynb")  # last: make goes by it


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    notebook, seconds = execute(source)
    try:
        check(notebook, seconds)
    except ValueError as error:
        raise SystemExit(f"{source}: {error}") from None
    write(notebook, source.stem, seconds, out)
    print(f"{source}: {seconds:.0f} s of one core")


if __name__ == "__main__":
    main()

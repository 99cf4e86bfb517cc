"""Run the commands of a page and compare what they print with what the page shows.

    python scripts/docsite/console_blocks.py docs/quickstart.md      # corrects the outputs

In a `console` block a line that begins with `$ ` is a command, and the lines below it are its output, of
which `...` stands for any lines. A block after `<!-- file: NAME -->` is the content of a file. Numbers are
not compared: their last digits differ between processors, and times depend on what else runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

FILE = re.compile(r"<!-- file: (\S+) -->\n+```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
WIDTH = 84  # of a line in a page
STEP = re.compile(r"^\$ ((?:.*\\\n)*.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def run_page(text: str, folder: Path) -> tuple[str, list[str]]:
    """Run every command of a page in a folder; return the differences, and the page without them."""
    for name, content in FILE.findall(text):
        (folder / name).write_text(content, "utf-8")
    wrong: list[str] = []

    def step(match: re.Match[str]) -> str:
        actual = run(match[1], folder)
        if is_alike(match[2], actual):
            return match[0]
        wrong.append(f"$ {match[1]}\n--- the page\n{match[2]}--- the program\n{actual}")
        return f"$ {match[1]}\n{actual}"

    return BLOCK.sub(lambda block: STEP.sub(step, block[0]), text), wrong


def run(command: str, folder: Path) -> str:
    """Return what a command prints; raise if it fails."""
    here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": str(WIDTH)}
    environment = {**os.environ, **here, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )  # the page is ours
    if done.returncode:
        raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return "".join(f"{line}\n" for text in done.stdout.splitlines() for line in _folded(text))


def _folded(text: str) -> list[str]:
    """Return a line as one or several that fit a page; a table stays as it is."""
    is_table = text.lstrip()[:1] in set("┏┃┡│└")
    return [text.rstrip()] if is_table else textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def is_alike(shown: str, actual: str) -> bool:
    """Return whether an output is the one shown, apart from numbers and the width of columns."""
    pieces = [
        re.escape(_settled(piece)) for piece in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)
    ]
    return re.fullmatch(".*".join(pieces), _settled(actual), re.DOTALL) is not None


def _settled(text: str) -> str:
    """Return text with one sign for each number and each stretch of blanks and lines."""
    text = re.sub(r"[-+]?\d[\d.,]*(?:e[-‑]?\d+)?", "#", text)  # the exponent's hyphen may not break
    text = re.sub(r"# (?:minutes|hours)\b", "# s", text)  # a busy machine takes longer
    return re.sub(r"[\s─━-]+", " ", text).strip()


def main() -> None:
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        text, wrong = run_page(page.read_text("utf-8"), Path(folder))
    print(*wrong, f"{len(wrong)} outputs of {page} were corrected.", sep="\n\n")
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

"""Measure the clock time of one `unspur` command in a new process, part by part.

python -m benchmarks wait -- demo                                         print the table
python -m benchmarks wait --out wait.json -- run cmnist/1pct-dcwp --out runs/x --store runs/new-store

The parts are the start of Python, the import of torch and of unspur, data, the estimate, the audit, every
stage, scores, folder, pictures and page. `rest` is everything between them, so the parts add up to the
time from the keystroke to the end. `steps` is the time within a part in which networks were trained. The
last line says whether Python had to compile modules, because it has no bytecode of them (`.pyc`). The
command writes it (PYTHONDONTWRITEBYTECODE is ignored), so the next one has it, as after `pip install`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ROOT = Path(__file__).parent.parent
# Timed: a module (and class), its function, and the name of the part ("" for the names of the stages).
PARTS = (
    ("unspur.workflow", "open_recipe", "data"),
    ("unspur.workflow", "open_debias", "data"),
    ("unspur.workflow", "open_audit", "data"),
    ("unspur.workflow", "announce", "estimate"),
    ("unspur.cli.audit_command", "audit_cost", "estimate"),
    ("unspur.stages.driver:Run", "check", "keys and checks"),
    ("unspur.stages.driver:Run", "ask_judge", "audit"),
    ("unspur.audit.auditor", "audit", "audit"),
    ("unspur.stages.driver", "add_stages", ""),
    ("unspur.stages.driver", "evaluate", "scores"),
    ("unspur.workflow.debiasing", "_size_and_speed", "size and speed"),
    ("unspur.runs", "save", "folder"),
    ("unspur.runs.audit_folder", "save", "folder"),
    ("unspur.workflow.debiasing", "_inspected", "pictures"),
    ("unspur.report.page", "write_if_possible", "page"),
)
STEPS = ("unspur.stages.driver", "unspur.audit.half_training")  # where `fit_together` is called


class Parts:
    """Seconds by part. The time of a part within another one counts only for the inner part."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.open: list[str] = []
        self.at = (time.perf_counter(), time.process_time())

    def add(self, name: str, seconds: float, cpu: float) -> None:
        row = self.rows.setdefault(name, {"part": name, "seconds": 0.0, "cpu": 0.0, "steps": 0.0})
        row["seconds"] += seconds
        row["cpu"] += cpu

    def _turn(self) -> None:
        """Add the time since the last turn to the part that is open now."""
        now = (time.perf_counter(), time.process_time())
        name = self.open[-1] if self.open else "rest"
        self.add(name, now[0] - self.at[0], now[1] - self.at[1])
        self.at = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._turn()
        self.open.append(name)
        try:
            yield
        finally:
            self._turn()
            self.open.pop()

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Add the time of this block to the training steps of the open part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            name = self.open[-1] if self.open else "rest"
            self.add(name, 0.0, 0.0)
            self.rows[name]["steps"] += time.perf_counter() - began


class Compiled:
    """The number of Python modules that were compiled from source, and the seconds that it took."""

    def __init__(self) -> None:
        self.modules, self.seconds = 0, 0.0

    def count(self) -> None:
        """Count from now on."""
        compile_source = SourceFileLoader.source_to_code

        @wraps(compile_source)
        def counted(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return compile_source(*args, **kwargs)
            finally:
                self.modules += 1
                self.seconds += time.perf_counter() - began

        SourceFileLoader.source_to_code = counted  # type: ignore[method-assign]


def _timed(function: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with around(*args):
            return function(*args, **kwargs)

    return timed


def _patch(parts: Parts) -> None:
    """Wrap the functions of PARTS and STEPS so that they are timed."""
    for where, function, name in PARTS:
        module, _, kind = where.partition(":")
        owner = importlib.import_module(module)
        owner = getattr(owner, kind) if kind else owner
        around = (
            (lambda *a, n=name: parts.part(n))
            if name
            else (lambda group, *_: parts.part(", ".join(group)))
        )
        setattr(owner, function, _timed(getattr(owner, function), around))
    for where in STEPS:
        module = importlib.import_module(where)
        setattr(module, "fit_together", _timed(module.fit_together, lambda *_: parts.steps()))  # type: ignore[attr-defined]  # noqa: B010


def child(started: float, record: Path, words: list[str]) -> None:
    """Run a command in this process and write its parts; `started` is when the process was launched."""
    parts, compiled = Parts(), Compiled()
    parts.add("start of Python", time.time() - started, 0.0)
    compiled.count()
    with parts.part("import torch"):
        import torch  # noqa: F401
    with parts.part("import unspur"):
        from unspur.cli import main
        from unspur.cli.lazy_group import COMMANDS, load_command

        if words[0] in COMMANDS:
            load_command(words[0])
    _patch(parts)
    parts._turn()  # wrapping is not part of the command
    parts.rows.pop("rest", None)
    sys.argv = ["unspur", *words]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    parts._turn()
    found = {"rows": list(parts.rows.values()), "compiled": vars(compiled), "code": code}
    record.write_text(json.dumps(found))


def measure(words: list[str]) -> tuple[list[Row], dict[str, float]]:
    """Run a command in a new process. Return its parts in order of time with their sum, and `Compiled`."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "parts.json"
        call = f"child({time.time()!r}, Path({str(record)!r}), {words!r})"
        code = f"from pathlib import Path; from benchmarks.wait import child; {call}"
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=variables)  # noqa: S603
        found = json.loads(record.read_text())
    if found["code"]:
        raise SystemExit(f"`unspur {' '.join(words)}` failed with exit code {found['code']}.")
    rows = found["rows"]
    total = {key: sum(row[key] for row in rows) for key in ("seconds", "cpu", "steps")}
    return [*rows, {"part": "sum", **total}], found["compiled"]


def table(rows: list[Row], compiled: Mapping[str, float]) -> str:
    """Return the parts as a text table."""
    whole = rows[-1]["seconds"] or 1.0
    lines = [f"{'part':<18} {'seconds':>8} {'share':>6} {'CPU s':>8} {'steps s':>8}"]
    for row in rows:
        lines.append(
            f"{row['part']:<18} {row['seconds']:>8.2f} {100 * row['seconds'] / whole:>5.0f}% "
            f"{row['cpu']:>8.2f} {row['steps']:>8.2f}"
        )
    imported = sum(row["seconds"] for row in rows[:-1] if row["part"] == "import torch")
    other = whole - imported - rows[-1]["steps"]
    lines.append(f"neither import of torch nor steps: {100 * other / whole:.0f} %")
    if compiled["modules"]:
        lines.append(
            f"compiled from source: {compiled['modules']:.0f} Python modules in "
            f"{compiled['seconds']:.2f} s; with their bytecode in place imports take less"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Measure the command after `--`, print its table, and write it with --out."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks wait",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="file for the numbers (.json or .json.gz)")
    parser.add_argument("words", nargs="+", help="an unspur command, after --")
    args = parser.parse_args(arguments)
    rows, compiled = measure(args.words)
    print(table(rows, compiled))
    if args.out:
        from unspur.store import environment, write_document

        made = time.strftime("%Y-%m-%d", time.gmtime())
        about = {"command": args.words, "made": made, "with": environment()}
        write_document(args.out, {**about, "compiled": compiled, "rows": rows})

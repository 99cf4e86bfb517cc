"""python -m fuzz.crash: fail every file-system call of a run, an export and a page; then repeat the command.

The second command must succeed, with the bits of an uninterrupted run, and leave no temporary files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unspur.boundary import explain_system
from unspur.errors import UnspurError
from unspur.store import open_artifact
from unspur.store.manifest import check_folder

from . import desk
from .faults import DEATHS, KINDS, Trap

ENDED, REFUSED, RAW, UNREACHED = 0, 3, 4, 5
SAME = ("model.safetensors", "masks.safetensors", "scores.json", "recipe.toml", "suspects.csv")
LEFT_OVER = re.compile(r"\.(tmp|partial|removed|old)$|\.damaged-")
ASIDE = re.compile(r"\.damaged-\d+$")  # damaged artifacts, which are kept on purpose


def _run(root: Path) -> None:
    desk.make_run(root, desk.SHORT)


# A command, and the command that must run before it.
COMMANDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None] | None]] = {
    "run": (_run, None),
    "export": (desk.make_export, _run),
    "page": (desk.make_page, _run),
}


@dataclass
class Counts:
    """The number of failed calls, how the command ended after each, and what was lost."""

    ends: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)


def attempt(command: Callable[[Path], None], root: Path, number: int = 0, kind: str = "EIO") -> int:
    """Run a command in a child process with one failing call; return the exit code, negative for a signal."""
    if (child := os.fork()) == 0:
        os._exit(do(command, root, number, kind))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def do(command: Callable[[Path], None], root: Path, number: int = 0, kind: str = "EIO") -> int:
    """Run a command in this process, with one failing call if `number` is not 0; return an exit code."""
    trap = Trap(root, number, kind)
    warnings.simplefilter("ignore")
    try:
        if number:
            trap.set()
        with explain_system():
            command(root)
    except UnspurError:
        return REFUSED
    except BaseException as error:
        print(f"raw: {type(error).__name__}: {error}", file=sys.stderr)
        return RAW
    return UNREACHED if number and trap.count < number else ENDED


def contents(root: Path) -> dict[str, Any]:
    """Return the results of a command that must be the same each time."""
    found: dict[str, Any] = {}
    for path in sorted((root / "store").iterdir()):
        if path.is_dir() and not ASIDE.search(path.name):
            artifact = open_artifact(path)
            rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in artifact.log]
            found[path.name] = (_hash(path / "tensors.safetensors"), artifact.facts, rows)
    for folder in (root / "run", root / "run" / "ordinary", root / "export"):
        if folder.exists():
            check_folder(folder, "model.json")
            found |= {
                str(p.relative_to(root)): _hash(p) for p in map(folder.joinpath, SAME) if p.exists()
            }
    if (page := root / "page.html").exists():
        found["page"] = "</html>" in page.read_text()
    return found


def orphans(root: Path) -> list[str]:
    """Return the files that unfinished work has left behind."""
    names = [str(path.relative_to(root)) for path in root.rglob("*")]
    return [name for name in names if LEFT_OVER.search(name) and not ASIDE.search(name)]


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fail_calls(
    name: str, place: Path, *, seed: int = 0, stride: int = 1, kinds: int = 1, seconds: float = 1e9
) -> Counts:
    """Fail every `stride`-th call of a command, each in one or more ways, and repeat the command."""
    command, before = COMMANDS[name]
    ready = place / "ready"
    ready.mkdir(parents=True)
    if before is not None:
        assert attempt(before, ready) == ENDED
    whole = _copy(ready, place / "whole")
    assert attempt(command, whole) == ENDED
    wanted, counts, number = contents(whole), Counts(), 1 + seed % stride
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        chosen = [KINDS[(number + seed + 2 * i) % len(KINDS)] for i in range(kinds)]
        codes = [
            _trial(name, ready, place / "trial", number, kind, wanted, counts) for kind in chosen
        ]
        if UNREACHED in codes:
            break
        counts.ends["calls"] += 1
        number += stride
    return counts


def _trial(
    name: str, ready: Path, place: Path, number: int, kind: str, wanted: Any, counts: Counts
) -> int:
    """Fail one call, run the command again, and compare."""
    command = COMMANDS[name][0]
    root = _copy(ready, place)
    code = attempt(command, root, number, kind)
    if code == UNREACHED:
        return code
    counts.ends[_word(code, kind)] += 1
    problem = "" if code != RAW else "a raw error"
    if code < 0 and kind not in DEATHS:
        problem = f"signal {-code}"
    problem = problem or _repeat(command, root, wanted)
    if problem:
        counts.lost.append(f"{name}, call {number}, {kind}: {problem}")
    return code


def _repeat(command: Callable[[Path], None], root: Path, wanted: Any) -> str:
    """Run a command again; return what is wrong afterwards, or ''."""
    if (code := attempt(command, root)) != ENDED:
        return f"the second command ended with {code}"
    try:
        found = contents(root)
    except (UnspurError, OSError) as error:
        return str(error)
    differing = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
    left = orphans(root)
    return f"differs: {differing}" if differing else f"left behind: {left}" if left else ""


def _word(code: int, kind: str) -> str:
    if code == -signal.SIGKILL:
        return "killed"
    return {ENDED: "went on", REFUSED: "refused"}.get(code, "raw")


def _copy(ready: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ready, place)
    return place


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm"  # imports and caches
        for command in (_run, desk.make_export, desk.make_page):
            command(warm)
        faults = 0
        for name in [options.command] if options.command else COMMANDS:
            limits = {"seed": options.seed, "stride": options.stride, "kinds": options.kinds}
            counts = fail_calls(name, Path(folder) / name, seconds=options.seconds, **limits)
            print(f"{name}: {json.dumps(counts.ends)}; {len(counts.lost)} lost", flush=True)
            print("".join(f"    {text}\n" for text in counts.lost[:40]), end="", flush=True)
            faults += len(counts.lost)
    return 1 if faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz.crash")
    parser.add_argument("--command", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0, help="which way each call fails")
    parser.add_argument("--stride", type=int, default=1, help="1 fails every call")
    parser.add_argument("--kinds", type=int, default=1, help=f"ways a call fails, of {len(KINDS)}")
    parser.add_argument("--seconds", type=float, default=1e9, help="limit for each command")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

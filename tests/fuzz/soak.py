"""python -m fuzz.soak: random commands on one store, some of them killed; at the end nothing is damaged.

Two commands run at any time. Some are killed at a random moment. At the end the last commands are run again,
every artifact and every folder is read, and the memory and the open files of a process that worked all the
time are compared with those at its start.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from unspur.errors import UnspurError
from unspur.store import open_artifact
from unspur.store.manifest import check_folder

from . import desk, processes

MOST_GROWTH = 100  # MB by which a process that works all the time may grow


def soak(root: Path, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """Run random commands for some time; return counts and what was wrong."""
    rng, counts, wrong = random.Random(seed), Counter[str](), list[str]()
    processes.prepare(root)
    worker = Worker(root / "worker")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pair = [processes.start(root, *processes.random_command(rng)) for _ in range(2)]
        counts["commands"] += 2
        if rng.random() < 0.4:
            counts["kills"] += processes.kill_later(rng.choice(pair), rng.uniform(1.0, 6.0))
        worker.work()
        for process in pair:
            code, said = processes.end(process)
            counts[f"exit {code}"] += 1
            if processes.is_raw(code, said):
                wrong.append(f"{process.args}: {code}: {said[-500:]}")
    return counts, wrong + _verify(root) + worker.growth()


def _verify(root: Path) -> list[str]:
    """Run the commands again, then read every artifact and every folder."""
    wrong = []
    for out in ("out", "other"):
        code, said = processes.end(processes.start(root, *processes.run_arguments(out)))
        if code:
            wrong.append(f"the last run into {out}: {code}: {said[-500:]}")
    stored = [path for path in (root / "store").iterdir() if path.is_dir() and "." not in path.name]
    checks: list[Callable[[], object]] = [
        lambda p=path: open_artifact(p).tensors for path in stored
    ]  # type: ignore[misc]
    checks += [lambda p=path: check_folder(p, "model.json") for path in processes.folders(root)]  # type: ignore[misc]
    for check in checks:
        try:
            check()
        except UnspurError as error:
            wrong.append(str(error))
    return wrong


class Worker:
    """Works in this process all the time: a run, its page and its export, with a separate store."""

    def __init__(self, root: Path):
        self.root = root
        self.marks: list[tuple[float, int]] = []

    def work(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            desk.make_run(self.root, (*desk.SHORT, f"seed={len(self.marks) % 5}"))
            desk.make_export(self.root)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.marks.append((memory, len(os.listdir("/proc/self/fd"))))

    def growth(self) -> list[str]:
        """Return whether memory or open files grew after the first rounds, as sentences."""
        (before, files), (after, more) = self.marks[len(self.marks) // 3], self.marks[-1]
        print(f"memory {before:.0f} to {after:.0f} MB, open files {files} to {more}")
        wrong = [f"memory grew from {before} to {after} MB"] if after - before > MOST_GROWTH else []
        return wrong + ([f"open files grew from {files} to {more}"] if more > files + 8 else [])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.soak")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = soak(Path(folder), options.seconds, options.seed)
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print("\n".join(wrong) or "all whole")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

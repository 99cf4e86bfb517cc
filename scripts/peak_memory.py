"""Measure the peak memory of every command on many small images.

    python scripts/peak_memory.py --images 20000 --side 28

Each command runs in its own process, on the CPU. Trainings have few steps, which does not change the memory.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unspur.data.sharded.shard_index import write_index
from unspur.data.sharded.shard_scan import scan_shards
from unspur.data.sharded.shard_writer import PackedImage, write_shards
from unspur.store import read_document, write_document

STEPS = 20
LABELS = ("stands", "lies")
ODD = 40  # two of so many images, one of each class, have the tint of the other class
LINE = 25  # how much brighter the line is
STAGES = ("mine", "pretrain", "adapt", "prune", "finetune")


def write_images(root: Path, count: int, side: int) -> None:
    """Write images as files in a folder for each class."""
    for label in LABELS:
        (root / label).mkdir(parents=True)
    for number, image in enumerate(make_images(count, side)):
        (root / LABELS[number % 2] / f"{number:06d}.png").write_bytes(image)


def write_packed(root: Path, count: int, side: int) -> None:
    """Write the same images as shards, with an index."""
    root.mkdir()
    write_shards(_packed(count, side), root, "train")
    write_index(scan_shards(root), root)


def _packed(count: int, side: int) -> Iterator[PackedImage]:
    for number, image in enumerate(make_images(count, side)):
        about = {"name": f"{number:07d}.png", "label": LABELS[number % 2]}
        yield PackedImage(image, ".png", 1 - number % 2, about)


def make_images(count: int, side: int) -> Iterator[bytes]:
    """Yield images of two classes in turn, whose faint line lies or stands.

    Nearly all have the tint of their class, which is much easier to learn. So the others become suspects.
    """
    rng = np.random.default_rng(0)
    for number in range(count):
        lies, odd = number % 2, number % ODD in (0, 1)
        pixels = rng.integers(0, 60, (side, side, 3), np.uint8)
        pixels[..., 2 * (1 - lies if odd else lies)] += 90
        place = rng.integers(2, side - 2)
        pixels[(place, slice(None)) if lies else (slice(None), place)] += LINE
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "png")
        yield file.getvalue()


def commands(images: Path, root: Path) -> dict[str, list[str]]:
    """Return every command that reads images or results, each after the commands whose results it needs."""
    run, audit, store = str(root / "run"), str(root / "audit"), str(root / "store")
    sets = [f"--set={stage}.steps={STEPS}" for stage in STAGES]
    sets += [f"--set=finetune.iterates=[{STEPS}]", f"--set=select.every={STEPS}"]
    where = ["--device", "cpu", "--store", store, "-q"]
    return {
        "audit": ["audit", str(images), "--steps", str(STEPS), "--out", audit, *where],
        "debias": ["debias", str(images), "--out", run, "--anyway", *sets, *where],
        "predict": ["predict", run, str(images), "--device", "cpu"],
        "evaluate": ["evaluate", run, str(images), "--device", "cpu"],
        "export": ["export", run, "--images", str(images)],
        "report": ["report", run, "--store", store],
        "runs list": ["runs", "list", "--store", store],
    }


def measure(arguments: list[str], log: Path) -> tuple[int, float, float]:
    """Run a command. Return its exit code, its peak memory in MB and its time in seconds."""
    began = time.monotonic()
    with log.open("w") as file:
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "unspur", *arguments],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, file.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, file.fileno(), 2),
            ],
        )
        _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_maxrss / 1024, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=20_000, help="number of images")
    parser.add_argument("--side", type=int, default=28, help="height and width in pixels")
    parser.add_argument("--shards", action="store_true", help="write shards, which are streamed")
    parser.add_argument("--only", nargs="*", help="run only these commands")
    parser.add_argument("--out", type=Path, help="record to whose table `memory` rows are added")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (write_packed if options.shards else write_images)(
            root / "images", options.images, options.side
        )
        print(
            f"| command | peak memory with {options.images:,} images | seconds |\n|---|---:|---:|"
        )
        for name, arguments in commands(root / "images", root).items():
            if options.only and name not in options.only:
                continue
            code, memory, seconds = measure(arguments, root / "log.txt")
            note = "" if code == 0 else f" (exit {code}: {(root / 'log.txt').read_text()[-300:]})"
            print(f"| `unspur {name}` | {memory:,.0f} MB | {seconds:.0f} |{note}", flush=True)
            if options.out and code == 0:
                row = {"command": name, "images": options.images, "side": options.side}
                row |= {"peak_mb": round(memory), "seconds": round(seconds)}
                add_row(options.out, row | {"stages": stored_stages(root / "store")})


def stored_stages(store: Path) -> str:
    """Return the stages of which a store has results."""
    return ", ".join(name for name in STAGES if [*store.glob(f"{name}-*/artifact.json")])


def add_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the record. It replaces a row of the same command, number of images and side."""
    record = read_document(path) if path.exists() else {"tables": {}}
    same = ("command", "images", "side")
    rows = [r for r in record["tables"].get("memory", []) if any(r[k] != row[k] for k in same)]
    record["tables"]["memory"] = sorted([*rows, row], key=lambda r: (r["command"], r["images"]))
    write_document(path, record)


if __name__ == "__main__":
    main()

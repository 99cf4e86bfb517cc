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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unspur.data.sharded.shard_index import write_index
from unspur.data.sharded.shard_scan import scan_shards
from unspur.data.sharded.shard_writer import PER_SHARD, PackedImage, write_shards
from unspur.store import read_document, write_document

STEPS = 20
STAGES = ("mine", "pretrain", "adapt", "prune", "finetune")


def write_images(root: Path, count: int, side: int) -> None:
    """Write images of two classes. The tint of nearly all of them depends on the class."""
    rng = np.random.default_rng(0)
    for label in ("stands", "lies"):
        (root / label).mkdir(parents=True)
    for number in range(count):
        lies = number % 2
        pixels = rng.integers(0, 60, (side, side, 3), np.uint8)
        pixels[..., 2 * (lies if number % 20 else 1 - lies)] += 90
        place = rng.integers(2, side - 2)
        pixels[(place, slice(None)) if lies else (slice(None), place)] = 220
        Image.fromarray(pixels).save(root / ("lies" if lies else "stands") / f"{number:06d}.png")


def write_packed(root: Path, count: int, side: int) -> None:
    """Write the same kind of images as shards. All shards are links to the first one."""
    rng = np.random.default_rng(0)
    root.mkdir()
    write_shards(_packed(rng, min(count, PER_SHARD), side), root, "train")
    first, index = root / "train-000000.tar", scan_shards(root)
    copies = count // len(index)
    for number in range(1, copies):
        os.link(first, root / f"train-{number:06d}.tar")
    arrays = {name: np.concatenate([each] * copies) for name, each in index.arrays.items()}
    arrays["shard"] = np.repeat(np.arange(copies, dtype=np.int32), len(index))
    names = [f"{number:07d}.png".encode() for number in range(copies * len(index))]
    arrays["name_bytes"] = np.frombuffer(b"".join(names), np.uint8)
    arrays["name_end"] = np.cumsum([len(name) for name in names], dtype=np.int64)
    shards = tuple(f"train-{number:06d}.tar" for number in range(copies))
    write_index(replace(index, shards=shards, lengths=index.lengths * copies, arrays=arrays), root)


def _packed(rng: np.random.Generator, count: int, side: int) -> Iterator[PackedImage]:
    for number in range(count):
        lies = number % 2
        about = {"name": f"{number:07d}.png", "label": ("stands", "lies")[lies]}
        yield PackedImage(_image(rng, side, lies, number % 20 == 0), ".png", 1 - lies, about)


def _image(rng: np.random.Generator, side: int, lies: int, odd: bool) -> bytes:
    pixels = rng.integers(0, 60, (side, side, 3), np.uint8)
    pixels[..., 2 * (1 - lies if odd else lies)] += 90
    place = rng.integers(2, side - 2)
    pixels[(place, slice(None)) if lies else (slice(None), place)] = 220
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


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
                add_row(options.out, row | {"peak_mb": round(memory), "seconds": round(seconds)})


def add_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the record. It replaces a row of the same command, number of images and side."""
    record = read_document(path) if path.exists() else {"tables": {}}
    same = ("command", "images", "side")
    rows = [r for r in record["tables"].get("memory", []) if any(r[k] != row[k] for k in same)]
    record["tables"]["memory"] = sorted([*rows, row], key=lambda r: (r["command"], r["images"]))
    write_document(path, record)


if __name__ == "__main__":
    main()

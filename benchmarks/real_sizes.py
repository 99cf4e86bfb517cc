"""Run `unspur debias` on image files of many kinds and sizes; measure time, memory and accuracy.

python -m benchmarks.real_sizes --out results/real-sizes.json.gz && make pages    the table of docs/data.md
python -m benchmarks.real_sizes --only alpha tiny                                 measure only these rows

The images have a planted shortcut: the class is a pattern, and the colour of the frame around it nearly
always belongs to the class. Trainings are short, so that all rows together take a few minutes. They show
that the command works and what it costs. On a CPU the sets and the network are small; on a GPU the
network is ResNet-18 at 224 pixels. Every row runs in its own process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from unspur import workflow
from unspur.data.custom.assembly import UserImages
from unspur.reproduce.speed_table import speed_table
from unspur.stages.place import find_place
from unspur.store import environment, read_document, write_document

SHARE = 0.1  # share of training images whose frame has a random colour
STYLES = 10
GRID = 4  # the pattern of a class has GRID x GRID blocks
SHORT: dict[str, Any] = {
    "mine.steps": 40,
    "pretrain.steps": 80,
    "prune.steps": 30,
    "finetune.steps": 30,
    "model.options": {"width": 16},
}
LONGER = {"mine.steps": 500, "pretrain.steps": 500, "prune.steps": 250, "finetune.steps": 250}


@dataclass(frozen=True)
class Case:
    """A set of image files. With `distinct` > 0, the files after these are links to them."""

    what: str
    images: int
    classes: int = 2
    pixels: int = 224
    kind: str = "RGB"
    mixed: bool = False
    rare: float = 1.0  # images of the last class for each image of another class
    distinct: int = 0


CASES = {
    "photographs": Case("JPEG, 224 px", 10_000),
    "large": Case("JPEG, 1,024 px", 2000, pixels=1024),
    "mixed": Case("JPEG, 120 to 400 px, tall and wide", 5000, mixed=True),
    "grey": Case("PNG, 8-bit grey", 5000, kind="L"),
    "deep": Case("PNG, 16-bit grey", 5000, kind="I;16"),
    "alpha": Case("PNG with alpha", 5000, kind="RGBA"),
    "imbalance": Case("classes 100 : 1", 5050, rare=0.01),
    "classes": Case("1,000 classes", 20_000, classes=1000, pixels=64),
    "tiny": Case("50 images", 50),
    "million": Case("1,000,000 images", 1_000_000, classes=10, pixels=64, distinct=20_000),
}
FEWER = {  # number of images on a CPU; rows that are missing here would take too long
    "photographs": 400,
    "large": 200,
    "mixed": 300,
    "grey": 300,
    "deep": 300,
    "alpha": 300,
    "imbalance": 505,
    "classes": 3000,
    "tiny": 50,
}


def write_images(folder: Path, case: Case) -> Path:
    """Write the files of a case, a fifth of them for the test split, and a table that lists them."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (case.classes, GRID, GRID))
    rows = list(_rows(case, rng))

    def save(number: int) -> None:
        name, label, style, _ = rows[number]
        original = case.distinct and number >= case.distinct
        if original:
            os.link(folder / rows[number % case.distinct][0], folder / name)
            return
        size = _size(case, np.random.default_rng([1, number]))
        pixels = _draw(codes[label], style, size, np.random.default_rng([2, number]))
        _convert(pixels, case.kind).save(
            folder / name, **({"quality": 85} if name[-3:] == "jpg" else {})
        )

    with ThreadPoolExecutor() as pool:
        for start in range(0, len(rows), 10_000):
            list(pool.map(save, range(start, min(len(rows), start + 10_000))))
    table = folder / "table.csv"
    lines = [f"{name},{label},{split},{style}" for name, label, style, split in rows]
    table.write_text("\n".join(["path,label,split,group", *lines]) + "\n")
    return table


def _rows(case: Case, rng: np.random.Generator) -> Iterator[tuple[str, int, int, str]]:
    """Yield name, label, style and split of every image; the styles of test images are uniform."""
    suffix = "jpg" if case.kind == "RGB" else "png"
    odds = np.ones(case.classes)
    odds[-1] = case.rare
    labels = rng.choice(case.classes, case.images, p=odds / odds.sum())
    some = min(case.images, 4 * case.classes)
    labels[:some] = np.arange(some) % case.classes  # a few of each class
    for number, label in enumerate(labels):
        if case.distinct:
            label = labels[number % case.distinct]
        test = 2 * case.classes <= number and number % 5 == 0
        own = int(label) % min(STYLES, case.classes)
        any_style = int(rng.integers(min(STYLES, case.classes)))
        style = any_style if test or rng.random() < SHARE else own
        yield f"{number:07d}.{suffix}", int(label), style, "test" if test else "train"


def _size(case: Case, rng: np.random.Generator) -> tuple[int, int]:
    if not case.mixed:
        return case.pixels, case.pixels
    high, wide = rng.integers(120, 401, 2)
    return int(high), int(wide)


def _draw(
    code: NDArray[Any], style: int, size: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Draw the pattern of a class on smooth noise, in a frame of the style's colour."""
    high, wide = size
    coarse = Image.fromarray(rng.integers(70, 186, (8, 8, 3), np.uint8))
    image = np.asarray(coarse.resize((wide, high), Image.Resampling.BICUBIC)).astype(np.int16)
    frame = max(1, min(size) // 10)
    inner = Image.fromarray((code * 80).astype(np.uint8))
    pattern = inner.resize((wide - 2 * frame, high - 2 * frame), Image.Resampling.NEAREST)
    middle = image[frame:-frame, frame:-frame] + np.asarray(pattern)[..., None] - 40
    hue = style / STYLES * 2 * np.pi
    colour = 128 + 100 * np.cos(hue + np.array([0, 2.1, 4.2]))
    framed = np.broadcast_to(colour, image.shape).copy()
    framed[frame:-frame, frame:-frame] = middle
    clipped: NDArray[np.uint8] = framed.clip(0, 255).astype(np.uint8)
    return clipped


def _convert(pixels: NDArray[np.uint8], kind: str) -> Image.Image:
    """Return pixels as an image of some kind. With alpha, one corner is transparent."""
    image = Image.fromarray(pixels)
    if kind == "I;16":
        return Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    if kind == "RGBA":
        alpha = np.full(pixels.shape[:2], 255, np.uint8)
        alpha[: len(alpha) // 12, : len(alpha) // 12] = 0
        image.putalpha(Image.fromarray(alpha))
        return image
    return image.convert(kind)


def try_case(case: Case, device: str) -> dict[str, Any]:
    """Debias the images of a case. Return time, memory and accuracy."""
    cuda = device.startswith("cuda")
    with tempfile.TemporaryDirectory() as folder:
        table = write_images(Path(folder), case)
        place = find_place(device, Path(folder) / "store", _silent)
        size = min(case.pixels, 224) if cuda else 64
        began = time.perf_counter()
        run = workflow.open_debias(
            UserImages(table),
            place,
            model=None if cuda else "convnet",
            size=size,
            settings=LONGER if cuda else SHORT,
            anyway=True,
        )
        opened = time.perf_counter()
        numbers = workflow.carry_out(run).numbers
        ended = time.perf_counter()
    memory = torch.cuda.max_memory_allocated() / 2**20 if cuda else None
    return {
        "files": case.what,
        "images": case.images,
        "classes": case.classes,
        "input_px": size,
        "decoding_s": opened - began,
        "training_s": ended - opened,
        "memory_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **({} if memory is None else {"on_the_GPU_MiB": memory}),
        "ordinary_%": 100 * numbers["ordinary"]["unbiased"],
        "debiased_%": 100 * numbers["debiased"]["unbiased"],
    }


def _silent(stage: str) -> Any:
    from contextlib import nullcontext

    return nullcontext()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        help="file for the numbers (.json or .json.gz); other rows in it are kept",
    )
    parser.add_argument("--only", nargs="*", choices=CASES, help="measure only these rows")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--case", help=argparse.SUPPRESS)  # one row, in this process
    args = parser.parse_args()
    cuda = args.device.startswith("cuda")
    if args.case:
        case = CASES[args.case]
        case = case if cuda else replace(case, images=FEWER[args.case])
        print(json.dumps(try_case(case, args.device)))
        return
    names = args.only or [name for name in (CASES if cuda else FEWER) if name != "million"]
    kept = read_document(args.out) if args.out and args.out.exists() else {}
    rows = {row["files"]: row for row in kept.get("tables", {}).get(args.device, [])}
    for name in names:
        command = [sys.executable, "-m", "benchmarks.real_sizes", "--case", name]
        done = subprocess.run(  # noqa: S603  (our own program)
            [*command, "--device", args.device], capture_output=True, text=True, check=True
        )
        row = json.loads(done.stdout.splitlines()[-1])
        rows[row["files"]] = row
        print(speed_table([row]), flush=True)
        if args.out:
            tables = {
                "cpu": [],
                "cuda": [],
                **kept.get("tables", {}),
                args.device: [*rows.values()],
            }
            made = {"made": time.strftime("%Y-%m-%d", time.gmtime()), "with": environment()}
            write_document(args.out, {"tables": tables, **made})


if __name__ == "__main__":
    main()

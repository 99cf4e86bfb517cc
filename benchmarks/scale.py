"""Measure steps per second with several processes, and images per second from shards and files.

python -m benchmarks scale                                   print the tables
python -m benchmarks scale --out results/scale.json.gz       keep them in a record as well
python -m benchmarks scale --device cuda --out results/scale-cuda.json.gz    a step on a GPU
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from unspur.data.batches import Preprocess
from unspur.data.custom.images import load
from unspur.data.custom.packing_images import pack_images
from unspur.data.decoding.files import Files
from unspur.data.decoding.pixels import read
from unspur.data.decoding.readers import available_cores
from unspur.data.splits import Part
from unspur.data.streaming import Streaming
from unspur.reproduce.speed_table import speed_table
from unspur.store import environment, read_document, write_document
from unspur.training import sampling

from .timing import photographs

Row = dict[str, Any]
SIDE, BATCH = 64, 64
ON_CPU, ON_GPU = ("processes", "readers", "decoding"), ("steps",)
STEPS = 200  # steps of the training of `processes` that is timed
ROUNDS = 3  # of which the fastest is kept
# Far from the time of the first row, so that one round tells.
ONCE = ("python, eager", "torchrun, 2 processes")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")


def processes() -> list[Row]:
    """Return the steps per second of the demo's ordinary training, with one and with two processes."""
    launches = {1: [sys.executable], 2: [sys.executable, *TORCHRUN, "2"]}
    return [
        {"processes": count, "steps_per_second": _steps_per_second(launch)}
        for count, launch in launches.items()
    ]


def _steps_per_second(launch: list[str]) -> float:
    """Train the demo's ordinary model in a new command, with one thread for each process."""
    with tempfile.TemporaryDirectory() as folder:
        sets = ["--set", "plan=erm", "--set", f"pretrain.steps={STEPS}"]
        where = ["--device", "cpu", "--store", f"{folder}/store", "--out", f"{folder}/run", "-q"]
        subprocess.run(  # noqa: S603  (our own command)
            [*launch, "-m", "unspur", "run", "demo", *sets, *where],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
        )
        (about,) = Path(folder, "store").glob("pretrain-*/artifact.json")
        return STEPS / float(json.loads(about.read_text())["seconds"])


def steps(device: str) -> list[Row]:
    """Return the time of a step of ResNet-18 by how it is started; *times* compares it with `python`."""
    ways = {
        "python": ((), ()),
        "torchrun, 1 process": ((*TORCHRUN, "1"), ()),
        "a team of one": ((), ("--team",)),
        "python, eager": ((), ("--eager",)),
        "torchrun, 2 processes": ((*TORCHRUN, "2"), ()),
    }
    rows: dict[str, Row] = {}
    for turn in range(ROUNDS):  # so that a slower phase of the machine affects the other ways alike
        for name, (launch, options) in ways.items():
            if turn and name in ONCE:
                continue
            row = {"launch": name, **_divided_step(device, launch, options)}
            rows[name] = min(rows.get(name, row), row, key=lambda each: float(each["step_us"]))
    plain = rows["python"]["step_us"]
    return [row | {"times": row["step_us"] / plain} for row in rows.values()]


def _divided_step(device: str, launch: tuple[str, ...], options: tuple[str, ...]) -> Row:
    """Measure a step in new processes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "step.json")
        subprocess.run(  # noqa: S603  (our own command)
            [
                *(sys.executable, *launch, "-m", "benchmarks.divided_step"),
                *(str(out), "--device", device, *options),
            ],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        found: Row = json.loads(out.read_text())
        return found


def readers(count: int) -> list[Row]:
    """Return the images per second in random order, from files, from shards and with webdataset."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "plain").mkdir()
        paths = photographs(root / "plain", count, SIDE)
        packed = _pack(paths, root)
        files = Files(tuple(paths), torch.arange(count) % 10, (SIDE, SIDE))
        shards = load(packed, size=(SIDE, SIDE)).train
        ways: dict[str, Callable[[], int]] = {
            "plain files, random order": lambda: _stream(files),
            "shards, random order": lambda: _stream(shards),
            "shards, webdataset in a DataLoader": lambda: _webdataset(packed),
        }
        return [_timed(name, way) for name, way in ways.items()]


def _pack(paths: list[Path], root: Path) -> Path:
    """Pack photographs into shards, in ten classes."""
    for number, path in enumerate(paths):
        folder = root / "photos" / str(number % 10)
        folder.mkdir(parents=True, exist_ok=True)
        os.link(path, folder / path.name)
    pack_images(root / "photos", root / "shards", per_shard=max(1, len(paths) // 4))
    return root / "shards"


def _stream(part: Part) -> int:
    """Read all images once, as training does. Return their number."""
    order = sampling.Passes(torch.arange(len(part)), batch=BATCH, seed=0)
    source = Streaming(part, device=torch.device("cpu"), preprocess=Preprocess())
    batches = source.feed(iter(order.draw(0, len(part) // BATCH)))
    return sum(len(index) for index, _ in batches)


def _webdataset(folder: Path) -> int:
    """Read all images once with webdataset: shards in sequence, a shuffle buffer, a DataLoader."""
    import webdataset
    from torch.utils.data import DataLoader

    paths = sorted(map(str, folder.glob("train-*.tar")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        images = (
            webdataset.WebDataset(paths, shardshuffle=len(paths))
            .shuffle(1000)
            .decode("pil")
            .to_tuple("jpg;png", "cls")
            .map_tuple(_pixels, int)
        )
        return sum(
            len(labels) for _, labels in DataLoader(images, BATCH, num_workers=_workers(paths))
        )


def _workers(paths: list[str]) -> int:
    return min(available_cores(), len(paths))


def _pixels(image: Any) -> torch.Tensor:
    """Resize an image as unspur does. An image that already has this size is only copied."""
    import numpy as np

    return torch.from_numpy(np.array(image.convert("RGB").resize((SIDE, SIDE))).transpose(2, 0, 1))


def _timed(name: str, way: Callable[[], int]) -> Row:
    """Return the images per second of the faster of two passes. The first pass also starts processes."""
    rates = []
    for _ in range(2):
        began = time.perf_counter()
        count = way()
        rates.append(count / (time.perf_counter() - began))
    return {"reader": name, "images_per_second": max(rates)}


def decoding() -> list[Row]:
    """Return the CPU time to decode an image, which other programs change little."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for side in (64, 256, 500):
            (place := Path(folder) / str(side)).mkdir()
            paths = photographs(place, 40, side)
            began = time.process_time()
            for path in paths:
                read(path, (224, 224))
            each = (time.process_time() - began) / len(paths)
            size = sum(path.stat().st_size for path in paths) / len(paths)
            rows.append({"jpeg_px": side, "kB": size / 1000, "ms_per_core": 1000 * each})
    return rows


def tables(names: Sequence[str], count: int, device: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield the requested tables."""
    known: dict[str, Callable[[], list[Row]]] = {
        "processes": processes,
        "readers": lambda: readers(count),
        "decoding": decoding,
        "steps": lambda: steps(device),
    }
    yield from ((name, known[name]()) for name in names)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks scale", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="file for the numbers (.json or .json.gz); other tables in it are kept",
    )
    parser.add_argument("--images", type=int, default=4000, help="number of images to read")
    parser.add_argument(
        "--only", nargs="*", choices=(*ON_CPU, *ON_GPU), help="measure only these tables"
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args(arguments)
    results: Row = {"tables": {}}
    if options.out and options.out.exists():
        results = read_document(options.out)
    names = options.only or (ON_GPU if options.device == "cuda" else ON_CPU)
    for name, rows in tables(names, options.images, options.device):
        results["tables"][name] = rows
        results |= {"made": time.strftime("%Y-%m-%d", time.gmtime()), "with": environment()}
        print(f"\n{name}\n{speed_table(rows)}", flush=True)
        if options.out:
            write_document(options.out, results)

"""Measure the speed and memory of training steps, all in one process.

python -m benchmarks --out speed.json                 all tables that this machine can measure
python -m benchmarks --out speed.json --only masks    one table
python -m benchmarks wait -- demo                     the time of a whole command, part by part
python -m benchmarks scaling --device cpu             time and memory as a function of one size at a time
python -m benchmarks scale                            several processes, and images in shards
python -m benchmarks --only official --official DIR   the authors' released code in DIR beside ours
python -m benchmarks --out results/speed.json.gz && make pages    update the tables of docs/performance.md
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unspur import data, recipes
from unspur.data.batches import Preprocess, Resident
from unspur.data.splits import Split
from unspur.reproduce.speed_table import speed_table
from unspur.store import environment, read_document, write_document
from unspur.training import sampling
from unspur.training.inputs import Training
from unspur.training.loop_state import Loop
from unspur.training.numerics import Precision

from . import official, plain_loop, scale, scaling, textbook, wait
from .profiling import demo_method, profile_step
from .streaming import streaming
from .timing import OPTIONS, network, noise_images, time_steps, training

Row = dict[str, Any]
BATCH = 256
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")


def loops(device: torch.device, workers: int) -> list[Row]:
    """Compare a textbook loop with ours on the CMNIST network."""
    split = noise_images(4000, 28)
    rows = []
    for kind in ("dense", "masks"):
        rate = textbook.steps_per_second(
            split,
            network("convnet", device),
            batch=BATCH,
            workers=workers,
            steps=8 if kind == "masks" else 40,
            masked=kind == "masks",
        )
        rows.append({"loop": f"textbook, {workers} workers", "step": kind, "us": 1e6 / rate})
        for name, options in _ours(device).items():
            timing = time_steps(
                [training(kind, network("convnet", device), split, batch=BATCH, options=options)]
            )
            row = {"loop": name, "step": kind, "us": timing.step_us, "setup_s": timing.setup_s}
            rows.append({**row, "times": 1e6 / rate / timing.step_us})
    return rows


def _ours(device: torch.device) -> dict[str, Any]:
    eager = replace(OPTIONS, capture=False)
    if device.type == "cpu":
        return {"ours": eager}
    bf16 = replace(OPTIONS, precision="bf16")
    return {
        "ours, eager tf32": eager,
        "ours, captured tf32": OPTIONS,
        "ours, compiled and captured tf32": replace(OPTIONS, compile=True),
        "ours, captured bf16": bf16,
        "ours, compiled and captured bf16": replace(bf16, compile=True),
    }


def masks(device: torch.device, workers: int) -> list[Row]:
    """Compare a step that learns masks with a dense one, captured and compiled."""
    cuda = device.type == "cuda"
    cases = [("convnet", 28, BATCH if cuda else 64), ("resnet18", 32, BATCH if cuda else 32)]
    cases += [("resnet18", 128, 64), ("resnet18", 224, 64)] if cuda else []
    rows = []
    for name, size, batch in cases:
        split = noise_images(1000, size)
        for compiled in (False, True) if cuda and size < 200 else (False,):
            options = replace(OPTIONS, precision="bf16" if cuda else "fp32", compile=compiled)
            steps = (100 if size < 200 else 50) if cuda else 10
            kinds = {
                kind: time_steps(
                    [training(kind, network(name, device), split, batch=batch, options=options)],
                    steps=steps,
                )
                for kind in ("dense", "masks")
            }
            rows.append(
                {
                    "network": name,
                    "pixels": size,
                    "batch": batch,
                    "compiled": compiled,
                    **{f"{kind}_us": t.step_us for kind, t in kinds.items()},
                    "times": kinds["masks"].step_us / kinds["dense"].step_us,
                    **{f"{kind}_mib": t.peak_mib for kind, t in kinds.items()},
                    **{f"{kind}_setup_s": t.setup_s for kind, t in kinds.items()},
                }
            )
    return rows


def weights(device: torch.device, workers: int) -> list[Row]:
    """Measure the time of a step as a function of the number of weights."""
    split = noise_images(2000, 28)
    rows = []
    for width in (16, 32, 64, 128, 256) if device.type == "cuda" else (8, 16, 32, 64):
        steps = 100 if device.type == "cuda" else 10
        model = network("convnet", device, width=width)
        row: Row = {
            "width": width,
            "weights": sum(p.numel() for p in model.parameters() if p.dim() > 1),
        }
        for kind in ("dense", "masks"):
            model = network("convnet", device, width=width)
            timing = time_steps([training(kind, model, split, batch=_batch(device))], steps=steps)
            row |= {f"{kind}_us": timing.step_us, f"{kind}_mib": timing.peak_mib}
        rows.append(row)
    return rows


def batches(device: torch.device, workers: int) -> list[Row]:
    """Measure the time of a step as a function of the batch size."""
    split = noise_images(4096, 28)
    rows = []
    for batch in (
        (32, 64, 128, 256, 512, 1024, 2048) if device.type == "cuda" else (16, 32, 64, 128)
    ):
        row: Row = {"batch": batch}
        for kind in ("dense", "masks"):
            timing = time_steps(
                [training(kind, network("convnet", device), split, batch=batch)],
                steps=100 if device.type == "cuda" else 10,
            )
            row |= {f"{kind}_us": timing.step_us, f"{kind}_mib": timing.peak_mib}
        rows.append(row)
    return rows


def modes(device: torch.device, workers: int) -> list[Row]:
    """Compare deterministic and fast steps, in every precision."""
    split = noise_images(4000, 28)
    rows = []
    for deterministic in (True, False):
        row: Row = {"mode": "deterministic" if deterministic else "fast"}
        for precision in PRECISIONS if device.type == "cuda" else PRECISIONS[:1]:
            options = replace(OPTIONS, precision=precision, deterministic=deterministic)
            timing = time_steps(
                [
                    training(
                        "dense",
                        network("convnet", device),
                        split,
                        batch=_batch(device),
                        options=options,
                    )
                ],
                steps=200 if device.type == "cuda" else 10,
            )
            row[f"{precision}_us"] = timing.step_us
        rows.append(row)
    return rows


def together(device: torch.device, workers: int) -> list[Row]:
    """Measure the time of a step for several trainings side by side on one GPU."""
    if device.type != "cuda":
        return []
    split = noise_images(4000, 28)
    rows = []
    for count in (1, 2, 4, 8, 16):
        row: Row = {"trainings": count}
        for precision, compiled in itertools.product(PRECISIONS[1:], (False, True)):
            if compiled and count not in (1, 16):
                continue
            options = replace(OPTIONS, precision=precision, compile=compiled)
            for kind in ("dense", "masks"):
                trainings = [
                    training(kind, network("convnet", device), split, batch=BATCH, options=options)
                    for _ in range(count)
                ]
                timing = time_steps(trainings, steps=100)
                row[f"{kind}_{precision}{'_compiled' if compiled else ''}_us"] = timing.step_us
        rows.append(row)
    return rows


def shares(device: torch.device, workers: int) -> list[Row]:
    """Measure the share of each kind of operation in the demo's steps on a CPU."""
    settings = recipes.load("demo")
    splits = data.load("demo", ratio=settings.data.ratio)
    assert isinstance(splits.train, Split)  # the demo's images are in memory
    cpu = torch.device("cpu")
    rows = []
    for stage in ("mine", "pretrain", "prune", "finetune"):
        how = getattr(settings, stage)
        conflict = splits.conflicting("train")
        source = Resident(splits.train, device=cpu, preprocess=Preprocess(), conflict=conflict)
        order = sampling.Passes(torch.arange(len(splits.train)), batch=how.batch, seed=0)
        model = network(settings.model.name, cpu, **settings.model.options)
        loop = Loop(Training(demo_method(stage, model, settings), source, order, how.options()))
        rows.append({"stage": stage, **profile_step(loop, order.draw(0, 24))})
    return rows


def plain(device: torch.device, workers: int) -> list[Row]:
    """Compare our step with that of a plain torch loop on a CPU, in CPU seconds."""
    cases = [("convnet", 28, 64, 10), ("resnet18", 28, 64, 3), ("resnet18", 96, 16, 2)]
    return [row for case in cases for row in plain_loop.compare(*case)]


def _batch(device: torch.device) -> int:
    return BATCH if device.type == "cuda" else 64


TABLES: dict[str, Callable[[torch.device, int], list[Row]]] = {
    "loops": loops,
    "masks": masks,
    "weights": weights,
    "batches": batches,
    "modes": modes,
    "together": together,
    "streaming": streaming,
    "shares": shares,
    "plain": plain,
}


def main() -> None:
    others = {"wait": wait.main, "scaling": scaling.main, "scale": scale.main}
    other = others.get("".join(sys.argv[1:2]))
    if other is not None:
        other(sys.argv[2:])
        return
    args = _parse()
    results: dict[str, Any] = {"tables": {}}
    if args.out and args.out.exists():
        results = read_document(args.out)
    for name in args.only:
        began = time.perf_counter()
        results["tables"][name] = _measure(name, args, results)
        results |= {"made": time.strftime("%Y-%m-%d", time.gmtime()), "with": environment()}
        print(
            f"\n{name} ({time.perf_counter() - began:.0f} s)\n{speed_table(results['tables'][name])}",
            *results.get("notes", {}).get(name, []),
            sep="\n",
            flush=True,
        )
        if args.out:
            write_document(args.out, results)


def _parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    kept = "file for the numbers (.json or .json.gz); other tables in it are kept"
    parser.add_argument("--out", type=Path, help=kept)
    parser.add_argument(
        "--only", nargs="*", choices=[*TABLES, "official"], help="measure only these tables"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--workers", type=int, default=4, help="workers of the textbook loop's DataLoader"
    )
    official.add_options(parser)
    args = parser.parse_args()
    if args.only is None:
        args.only = [*TABLES, *(["official"] if args.official else [])]
    if "official" in args.only and args.official is None:
        parser.error("the table official needs --official DIR, the folder of the authors' code.")
    return args


def _measure(name: str, args: argparse.Namespace, results: dict[str, Any]) -> list[Row]:
    """Return the rows of a table; add its notes, if it has any, to the results."""
    device = torch.device(args.device)
    if name in TABLES:
        return TABLES[name](device, args.workers)
    rows, results.setdefault("notes", {})[name] = official.compare(
        args.official, device, args.official_steps
    )
    return rows


if __name__ == "__main__":
    main()

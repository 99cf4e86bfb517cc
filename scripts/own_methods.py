"""Compare the preset with JTT and with a new last layer, on the same suspects, network and optimiser.

    python scripts/own_methods.py --out results/own-methods.json.gz --data-root DIR

The images are 2,000 training digits of MNIST with a planted shortcut that 4 % of them contradict. The test
images are 4,000 other training digits whose style is independent of the class. Every method has the settings
of `unspur debias` for so many images on a CPU, with a small network, and the same suspects and ordinary
model. Where it says *mixed*, the method trains on images mixed as in the preset. A run takes at most about a
minute of a CPU core. Runs that are already in the record are not repeated. `make pages` writes the table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from own_preset import KINDS, MIXED, SMALL, accuracies

from unspur import workflow
from unspur.data.benchmarks import mnist, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages.place import Place, find_place
from unspur.store import environment, read_document, write_document
from unspur.training.metrics import mining_quality

IMAGES, TEST, SHARE = 2000, (50_000, 54_000), 0.04
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "unspur": ("unspur", {}),
    "JTT": ("jtt", {}),
    "JTT, mixed": ("jtt", MIXED),
    "dfr-mined": ("dfr-mined", {}),
    "dfr-mined, mixed": ("dfr-mined", MIXED),
}


def images(root: Path, kind: str, seed: int) -> tuple[Splits, Splits]:
    """Return digits with a planted shortcut, and digits whose style is independent of the class."""
    found = mnist.mnist(root)

    def base(first: int, last: int) -> planted.Base:
        some = slice(first, last)
        return planted.from_digits(found.train_images[some], found.train_labels[some], name="mnist")

    start = IMAGES * seed
    train = planted.planted(base(start, start + IMAGES), kind, share=SHARE, seed=seed)
    return train, planted.unrelated(base(*TEST), kind, seed=1000 + seed)


def measure(train: Splits, test: Splits, name: str, seed: int, place: Place) -> dict[str, Any]:
    """Debias the images without bias labels; score both models on aligned and conflicting test images."""
    method, changes = METHODS[name]
    own = Splits(train=train.train, classes=train.classes, name=train.name)
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = workflow.open_debias(
            UserImages(own),
            place,
            model="convnet",
            settings={**SMALL, **changes, "seed": seed},
            method=method,
            anyway=True,
        )
        outcome = workflow.carry_out(run)
    results, truth = outcome.results, train.conflicting("train")
    assert truth is not None
    return {
        "result": accuracies(outcome, results.final_weights, test),
        "ordinary": accuracies(outcome, results.weights("pretrain"), test)
        if "pretrain" in results
        else None,
        "mining": mining_quality(results.suspects().conflict, truth),
        "macs": outcome.scores.facts["density"]["macs"],
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def wanted(kinds: list[str], seeds: list[int]) -> Iterator[tuple[str, int, str]]:
    """Yield the runs, the first seed of everything first."""
    yield from ((kind, seed, name) for seed in seeds for kind in kinds for name in METHODS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/own-methods.json.gz"))
    parser.add_argument("--data-root", type=Path, help="folder with MNIST")
    parser.add_argument("--only", nargs="+", default=list(KINDS), help="kinds of shortcut")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = read_document(options.out)["runs"] if options.out.exists() else []
    known = {(run["kind"], run["seed"], run["method"]) for run in runs}
    root = mnist.find_root(options.data_root)
    with tempfile.TemporaryDirectory() as store:
        place = find_place("cpu", Path(store), terminal.show(quiet=True))
        for kind, seed, name in wanted(options.only, options.seeds):
            if (kind, seed, name) in known:
                continue
            found = measure(*images(root, kind, seed), name, seed, place)
            runs.append({"kind": kind, "seed": seed, "method": name, **found})
            write_document(options.out, {"images": IMAGES, "with": environment(), "runs": runs})
            print(runs[-1], flush=True)


if __name__ == "__main__":
    main()

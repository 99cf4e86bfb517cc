"""Compare settings for own images on planted shortcuts of several kinds.

    python scripts/own_preset.py --out results/own-preset.json.gz --data-root DIR

The images are 6,000 training digits of MNIST, 2 % of which contradict the shortcut. The test images are
4,000 other *training* digits whose style is independent of the class. The network is small; a run takes
about a minute on a CPU. Runs that are already in the record are not repeated. `make pages` writes the
table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unspur import workflow
from unspur.data.benchmarks import mnist, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Splits
from unspur.recipes import budget
from unspur.report import terminal
from unspur.stages.place import Place, find_place
from unspur.store import environment, read_document, write_document
from unspur.training.metrics import mining_quality
from unspur.workflow import Outcome

KINDS = ("colour", "texture", "patch", "light")
TRAIN, TEST, SHARE = (0, 6000), (50_000, 54_000), 0.02
SMALL = {"model.options": {"width": 16}}
PLAIN = {"data.style": 0.0, "data.mix": 0.0, "data.spectrum": 0.0}
MIXED = {"data.style": 1.0, "data.mix": 1.0, "data.spectrum": 0.5}
WEIGHTS = {"prune.unit": "weight", "prune.cut": "threshold", "prune.weigh": "weights"}
# The preset and the alternatives to it: the method, and the changes of the preset's settings.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "preset": ("unspur", {}),
    "prefer aligned": ("unspur", budget.preference("aligned")),
    "prefer conflicting": ("unspur", budget.preference("conflicting")),
    "noise on the logit": ("unspur", {"prune.noise": "logit"}),
    "single weights": ("unspur", WEIGHTS),
    "not pruned": ("unspur", {**WEIGHTS, "prune.how": "random", "prune.keep": 1.0}),
    "not mixed": ("unspur", PLAIN),
    "JTT": ("jtt", {}),
    "JTT, mixed": ("jtt", MIXED),
    "ERM, mixed": ("erm", MIXED),
}


def images(root: Path, kind: str) -> tuple[Splits, Splits]:
    """Return digits with a planted shortcut, and digits whose style is independent of the class."""
    digits = mnist.mnist(root)

    def base(first: int, last: int) -> planted.Base:
        some = slice(first, last)
        return planted.from_digits(
            digits.train_images[some], digits.train_labels[some], name="mnist"
        )

    train = planted.planted(base(*TRAIN), kind, share=SHARE, seed=5)
    return train, planted.unrelated(base(*TEST), kind, seed=6)


def measure(train: Splits, test: Splits, variant: str, place: Place) -> dict[str, Any]:
    """Debias the images without bias labels, and score both models on the test images."""
    method, changes = VARIANTS[variant]
    blind = Splits(train=train.train, classes=train.classes, name=train.name)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = workflow.open_debias(
            UserImages(blind),
            place,
            model="convnet",
            settings={**SMALL, **changes},
            method=method,
            anyway=True,
        )
        outcome = workflow.carry_out(run)
    results, density = outcome.results, outcome.scores.facts["density"]
    found = {"result": accuracies(outcome, results.final_weights, test)}
    if "pretrain" in results:
        found["ordinary"] = accuracies(outcome, results.weights("pretrain"), test)
    if "mine" in results:
        truth = train.conflicting("train")
        assert truth is not None
        found["mining"] = mining_quality(results.suspects().conflict, truth)
    seconds = round(time.perf_counter() - began)
    return {**found, "kept": density["overall"], "macs": density["macs"], "seconds": seconds}


def accuracies(outcome: Outcome, weights: dict[str, Tensor], test: Splits) -> dict[str, float]:
    """Return the accuracy on aligned and on conflicting test images."""
    model, prepare = outcome.context.network(weights).eval(), outcome.context.preprocess
    everything = test.train.take(torch.arange(len(test.train)))
    with torch.no_grad():
        right = torch.cat([model(prepare(x)).argmax(1) for x in torch.split(everything, 500)])
    right, conflict = right == test.train.targets, test.conflicting("train")
    assert conflict is not None
    parts = {"aligned": ~conflict, "conflicting": conflict}
    return {name: float(right[part].double().mean()) for name, part in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/own-preset.json.gz"))
    parser.add_argument("--data-root", type=Path, help="folder with MNIST")
    parser.add_argument("--only", default="", help="kinds of shortcut, separated by commas")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = read_document(options.out)["runs"] if options.out.exists() else []
    known = {(run["kind"], run["variant"]) for run in runs}
    root = mnist.find_root(options.data_root)
    with tempfile.TemporaryDirectory() as store:
        place = find_place("cpu", Path(store), terminal.show(quiet=True))
        for kind in options.only.split(",") if options.only else KINDS:
            train, test = images(root, kind)
            for variant in VARIANTS:
                if (kind, variant) in known:
                    continue
                found = measure(train, test, variant, place)
                print(kind, variant, found, flush=True)
                runs.append({"kind": kind, "variant": variant, **found})
                write_document(options.out, {"with": environment(), "runs": runs})


if __name__ == "__main__":
    main()

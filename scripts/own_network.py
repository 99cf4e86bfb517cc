"""Compare networks for a user's own small images by accuracy and CPU seconds.

    python scripts/own_network.py --out results/own-network.json.gz --data-root DIR --threads 1

The images are MNIST training digits of 28 pixels with a planted shortcut that 2 % of them contradict. The
test images are other *training* digits whose style is independent of the class, so the accuracy on them
is the unbiased accuracy. With `--kinds cifar10` they are natural images of 32 pixels without a planted
shortcut, and only the ordinary model is trained. The settings are those of `unspur debias` on a CPU, or
shorter with `--steps`. Times are CPU seconds of the process, which other programs change little. Runs
that are already in the record are not repeated.
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
from unspur.data.benchmarks import cifar10, mnist, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Split, Splits
from unspur.recipes import budget
from unspur.report import terminal
from unspur.stages.place import Place, find_place
from unspur.store import environment, read_document, write_document
from unspur.workflow import Outcome

TEST = (50_000, 54_000)
PLAIN = "cifar10"
SHARE = 0.02  # share of training images that contradict the shortcut
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "convnet, width 64": ("convnet", {"width": 64}),
    "convnet, width 32": ("convnet", {"width": 32}),
    "convnet, width 16": ("convnet", {"width": 16}),
    "resnet18": ("resnet18", {}),
}


def images(root: Path, kind: str, count: int) -> tuple[Splits, Splits]:
    """Return digits with a planted shortcut, and digits whose style is independent of the class."""
    if kind == PLAIN:
        return _natural(root, count)
    digits = mnist.mnist(root)

    def base(first: int, last: int) -> planted.Base:
        some = slice(first, last)
        return planted.from_digits(
            digits.train_images[some], digits.train_labels[some], name="mnist"
        )

    train = planted.planted(base(0, count), kind, share=SHARE, seed=5)
    return train, planted.unrelated(base(*TEST), kind, seed=6)


def _natural(root: Path, count: int) -> tuple[Splits, Splits]:
    """Return training images of CIFAR-10, and other training images to test on."""
    found = cifar10.read(root)
    first, last = TEST[0] - 10_000, TEST[1] - 10_000
    parts = (slice(0, count), slice(first, last))
    train, test = (Split(found.train_images[part], found.train_labels[part]) for part in parts)
    return tuple(Splits(train=part, classes=cifar10.CLASSES, name=PLAIN) for part in (train, test))  # type: ignore[return-value]


def shorter(steps: int) -> dict[str, Any]:
    """Return the settings of a shorter run, or none if `steps` is 0."""
    if not steps:
        return {}
    half = steps // 2
    lengths = {"pretrain": steps, "adapt": half, "prune": half, "finetune": steps}
    changes = {f"{stage}.steps": count for stage, count in lengths.items()}
    return {**changes, "prune.rate": budget.TRAVEL / half, "select.every": max(1, steps // 20)}


def measure(
    train: Splits, test: Splits, network: str, place: Place, steps: int = 0
) -> dict[str, Any]:
    """Debias the images without bias labels, and score both models on the test images."""
    name, options = NETWORKS[network]
    blind = Splits(train=train.train, classes=train.classes, name=train.name)
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"model.options": options, **shorter(steps)}
        method = "erm" if train.name == PLAIN else "unspur"
        run = workflow.open_debias(
            UserImages(blind), place, model=name, settings=settings, method=method, anyway=True
        )
        outcome = workflow.carry_out(run)
    spent = {
        "seconds": round(time.perf_counter() - began),
        "cpu_seconds": round(time.process_time() - cpu),
    }
    results = outcome.results
    found = {"result": accuracies(outcome, results.final_weights, test)}
    if "pretrain" in results:
        found["ordinary"] = accuracies(outcome, results.weights("pretrain"), test)
    return {**found, **spent}


def accuracies(outcome: Outcome, weights: dict[str, Tensor], test: Splits) -> dict[str, float]:
    """Return the accuracy on all test images and, if there is a shortcut, on aligned and conflicting ones."""
    model, prepare = outcome.context.network(weights).eval(), outcome.context.preprocess
    everything = test.train.take(torch.arange(len(test.train)))
    with torch.no_grad():
        found = torch.cat([model(prepare(x)).argmax(1) for x in torch.split(everything, 500)])
    right, conflict = found == test.train.targets, test.conflicting("train")
    if conflict is None:
        return {"all": round(float(right.double().mean()), 4)}
    parts = {"aligned": ~conflict, "conflicting": conflict, "all": conflict | True}
    return {name: round(float(right[part].double().mean()), 4) for name, part in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/own-network.json.gz"))
    parser.add_argument("--data-root", type=Path, help="folder with MNIST and CIFAR-10 (data)")
    parser.add_argument(
        "--kinds",
        default="colour,texture,patch,light",
        help="kinds of shortcut, separated by commas; cifar10: natural images without one",
    )
    parser.add_argument(
        "--networks", default=";".join(NETWORKS), help="networks, separated by semicolons"
    )
    parser.add_argument("--images", type=int, default=12_000, help="number of training images")
    parser.add_argument(
        "--steps", type=int, default=0, help="steps of the ordinary model; 0: as usual"
    )
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="threads of torch"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    runs = read_document(options.out)["runs"] if options.out.exists() else []
    known = {(run["kind"], run["network"], run["images"], run["steps"]) for run in runs}
    root = options.data_root or Path("data")
    with tempfile.TemporaryDirectory() as store:
        place = find_place("cpu", Path(store), terminal.show(quiet=True))
        for kind in options.kinds.split(","):
            train, test = images(root, kind, options.images)
            for network in options.networks.split(";"):
                if (kind, network, options.images, options.steps) in known:
                    continue
                found = measure(train, test, network, place, options.steps)
                about = {"images": options.images, "steps": options.steps}
                row = {"kind": kind, "network": network, **about, **found}
                print(row, flush=True)
                runs.append(row)
                write_document(options.out, {"with": environment(), "runs": runs})


if __name__ == "__main__":
    main()

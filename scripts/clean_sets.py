"""Debias ten image sets without a shortcut. The result should be the ordinary model.

    python scripts/clean_sets.py --out results/clean-sets.json.gz --data-root DIR

DIR holds MNIST, CIFAR-10 and the faces in the layout of BFFHQ. Sets that are missing are left out with a
message. The settings are those of `unspur debias` on a CPU, with a small network; the judge uses its own
network. A set takes about a minute on one CPU core. Sets that are already in the record are not run again.
`make pages` writes the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unspur import noise, workflow
from unspur.data.benchmarks import bffhq, cifar10, embedded, mnist, planted
from unspur.data.benchmarks.planted import Base
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Split, Splits
from unspur.errors import DataError
from unspur.report import terminal
from unspur.stages.place import temporary_place
from unspur.store import environment, read_document, write_document

IMAGES, TEST, SIDE = 3000, 1000, 32
SETTINGS = {"model.options": {"width": 16}}
VEHICLES = (0, 1, 8, 9)  # classes of CIFAR-10; with 6 (frogs) both halves have five classes
SYNTHETIC = 800  # identifies a stream of random numbers


def digits(root: Path, change: Callable[[Base], Splits] = planted.plain) -> Splits:
    """Return the digits that come with unspur, changed by `change`."""
    found = embedded.digits()
    train = planted.from_digits(found.train_images, found.train_labels, name="digits")
    test = planted.from_digits(found.test_images, found.test_labels, name="digits")
    return _joined(train, test, change)


def odd_and_even(root: Path) -> Splits:
    """Return the digits of MNIST in two classes, even and odd."""
    found = mnist.mnist(root)
    train = planted.from_digits(found.train_images, found.train_labels % 2, name="mnist")
    test = planted.from_digits(found.test_images, found.test_labels % 2, name="mnist")
    return _joined(train, test)


def photographs(root: Path, label: Callable[[Tensor], Tensor]) -> Splits:
    """Return a part of CIFAR-10. `label` maps old classes to new ones, or to -1 to drop the images."""
    found = cifar10.read(root)
    parts = []
    for images, labels in (
        (found.train_images, found.train_labels),
        (found.test_images, found.test_labels),
    ):
        new = label(labels)
        parts.append(Base(images[new >= 0], new[new >= 0], "cifar10"))
    return _joined(*parts)


def faces(root: Path, *, by: str) -> Splits:
    """Return faces with all four combinations of age and sex equally frequent, labelled by age or by sex."""
    found = bffhq.load(root, "1pct", size=64)
    assert found.test is not None
    assert found.valid is not None
    labels = {
        "age": (found.test.targets, found.valid.targets),
        "sex": (found.bias["test"], found.bias["valid"]),
    }[by]
    parts = [
        Split(part.take(torch.arange(len(part))), targets)
        for part, targets in zip((found.test, found.valid), labels, strict=True)
    ]
    return Splits(train=parts[0], test=parts[1], classes=("0", "1"), name="faces")


def gratings(root: Path) -> Splits:
    """Return noisy coloured stripes in four directions. The colour is independent of the direction."""
    n = IMAGES + TEST
    labels = torch.arange(n) % 4
    u = noise.uniform(0, 0, SYNTHETIC, (n, 5))
    place = torch.linspace(-1, 1, SIDE)
    angle = (labels + 0.3 * (u[:, 0] - 0.5))[:, None, None] * (torch.pi / 4)
    across = torch.cos(angle) * place + torch.sin(angle) * place[:, None]
    waves = torch.sin(across * (6 + 6 * u[:, 1, None, None]) + 6.3 * u[:, 1, None, None])
    colour = 0.3 + 0.7 * u[:, 2:, None, None]
    grain = noise.uniform(0, 1, SYNTHETIC, (n, 3, SIDE, SIDE))
    images = (255 * (0.5 * colour * (1 + waves[:, None]) / 2 + 0.5 * grain)).byte()
    base = Base(images, labels, "gratings")
    return _joined(base.only(torch.arange(IMAGES)), base.only(torch.arange(IMAGES, n)))


def _joined(train: Base, test: Base, change: Callable[[Base], Splits] = planted.plain) -> Splits:
    """Return some changed images of each base as one set with a training and a test split."""
    made = [change(base.some(n, seed=0)) for base, n in ((train, IMAGES), (test, TEST))]
    return replace(made[0], test=made[1].train, bias={})


SETS: dict[str, Callable[[Path], Splits]] = {
    "digits": digits,
    "digits, any colour": lambda root: digits(
        root, lambda base: planted.unrelated(base, "colour", seed=0)
    ),
    "digits, some spoiled": lambda root: digits(root, lambda b: planted.spoiled(b, seed=0)),
    "MNIST, odd and even": odd_and_even,
    "CIFAR-10, first five classes": lambda root: photographs(
        root, lambda c: torch.where(c < 5, c, -1)
    ),
    "CIFAR-10, last five classes": lambda root: photographs(
        root, lambda c: torch.where(c < 5, -1, c - 5)
    ),
    "CIFAR-10, two halves": lambda root: photographs(
        root, lambda c: torch.isin(c, torch.tensor([*VEHICLES, 6])).long()
    ),
    "faces, age": lambda root: faces(root, by="age"),
    "faces, sex": lambda root: faces(root, by="sex"),
    "gratings": gratings,
}


def measure(splits: Splits) -> dict[str, Any]:
    """Debias a set. Return the verdict, the check of the gain, and accuracies on the test split."""
    began, cpu = time.perf_counter(), time.process_time()
    with temporary_place("cpu", terminal.show(quiet=True)) as place:
        run = workflow.open_debias(UserImages(splits), place, model="convnet", settings=SETTINGS)
        outcome = workflow.carry_out(run)
        numbers, tried = outcome.numbers, outcome.rejected_scores
    return {
        "images": len(splits.train),
        "verdict": numbers["judge"]["verdict"],
        "gain_check": numbers.get("gain_check"),
        "tried": tried.facts["debiased"]["average"] if tried else None,
        "ordinary": numbers["ordinary"]["average"],
        "result": numbers["debiased"]["average"],
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/clean-sets.json.gz"))
    parser.add_argument("--data-root", type=Path, help="folder with MNIST, CIFAR-10 and faces")
    parser.add_argument("--only", nargs="+", default=list(SETS), help="names of sets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = read_document(options.out)["sets"] if options.out.exists() else {}
    for name, make in SETS.items():
        if name in sets or name not in options.only:
            continue
        try:
            sets[name] = measure(make(mnist.find_root(options.data_root)))
        except DataError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        write_document(options.out, {"with": environment(), "sets": sets})
        print(name, sets[name], flush=True)


if __name__ == "__main__":
    main()

"""Measure how often `unspur probe` ranks the right change first, and how often it makes a false claim.

    python scripts/probe_suite.py --out results/probe.json.gz --data-root DIR

Shortcuts (a coloured border, a tint, a patch in a corner, light from one side) are planted into digits,
MNIST, photographs and faces. A small network is trained on images of which nearly all follow the
shortcut, and is probed with other images of the same kind. Clean sets have no shortcut, or have these
styles at random. DIR holds MNIST, CIFAR-10 and the faces in the layout of BFFHQ; sets that are missing
are left out with a message. Cases that are already in the record are not run again. The suite takes about
five minutes on one CPU core. `make pages` writes the tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspur import models, noise
from unspur.data.benchmarks import bffhq, cifar10, cmnist, embedded, mnist, planted
from unspur.data.benchmarks.planted import Base
from unspur.data.image_sizes import resize
from unspur.errors import DataError
from unspur.probe.findings import ChangeEffect
from unspur.probe.image_changes import PLAIN, hide
from unspur.probe.measuring import ProbedImages, measure
from unspur.store import environment, read_document, write_document

TRAIN, PROBED, SHARE = 3000, 600, 0.02
STEPS, BATCH, WIDTH = 250, 32, 12
FRAME = 3  # width of a planted border in pixels
RIGHT = {"border": "border", "tint": "colour", "patch": "corners", "light": "light"}
BASES = ("digits", "mnist", "photographs", "faces")
SEEDS = (1, 2)  # seed 0 was used to choose the margin of a claim and the cues


@dataclass(frozen=True)
class Case:
    """Images with a planted shortcut or without one."""

    base: str
    kind: str  # border, tint, patch, light; for clean images plain or any-KIND
    seed: int

    @property
    def name(self) -> str:
        return f"{self.base}/{self.kind}@{self.seed}"

    @property
    def is_clean(self) -> bool:
        return self.kind == "plain" or self.kind.startswith("any-")


def every() -> Iterator[Case]:
    """Yield all cases of the report."""
    for seed in SEEDS:
        for base in BASES:
            yield from (Case(base, kind, seed) for kind in RIGHT)
            yield Case(base, "plain", seed)
            yield from (Case(base, f"any-{kind}", seed) for kind in RIGHT)


@cache
def base_images(name: str, root: Path) -> Base:
    """Return plain images of 32 x 32 pixels."""
    if name == "digits":
        found = embedded.digits()
        return planted.from_digits(found.train_images, found.train_labels, name=name)
    if name == "mnist":
        digits = mnist.mnist(root)
        return planted.from_digits(digits.train_images, digits.train_labels, name=name)
    if name == "photographs":
        cifar = cifar10.read(root)
        return Base(cifar.train_images, cifar.train_labels, name)
    faces = resize(bffhq.load(root, "1pct", size=64), (planted.SIDE, planted.SIDE))
    parts = [part for part in (faces.test, faces.valid) if part is not None]
    images = torch.cat([part.take(torch.arange(len(part))) for part in parts])
    return Base(images, torch.cat([part.targets for part in parts]), name)


def add_style(images: Tensor, styles: Tensor, kind: str, seed: int) -> Tensor:
    """Add the cue of a shortcut to each image, in one of ten styles."""
    if kind == "border":
        colours = (torch.tensor(list(cmnist.COLOURS.values())) * 255).byte()[styles]
        framed = colours[:, :, None, None].expand(images.shape).clone()
        inside = slice(FRAME, planted.SIDE - FRAME)
        framed[:, :, inside, inside] = images[:, :, inside, inside]
        return framed
    return planted.KINDS["colour" if kind == "tint" else kind](images, styles, seed)


def make(case: Case, root: Path) -> tuple[Tensor, Tensor]:
    """Return the images and labels of a case, in random order."""
    base = base_images(case.base, root)
    base = base.some(TRAIN + PROBED, seed=case.seed)
    order = torch.randperm(
        len(base.labels), generator=torch.Generator().manual_seed(100 + case.seed)
    )
    images, labels = base.images[order], base.labels[order]
    if case.kind == "plain":
        return images, labels
    if case.is_clean:
        any_style = noise.uniform(case.seed, 0, planted.ANY_STYLE, (len(labels),))
        styles = (any_style * base.classes).long()
    else:
        styles = planted.assign_styles(labels, base.classes, share=SHARE, seed=case.seed)
    return add_style(images, styles, case.kind.removeprefix("any-"), case.seed), labels


class Scaled(nn.Module):
    """A network that takes images with values from 0 to 255."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images / 255)
        return logits


def train(images: Tensor, labels: Tensor, seed: int) -> nn.Module:
    """Train a small network with cross entropy."""
    torch.manual_seed(seed)
    network = Scaled(models.builder("convnet", int(labels.max()) + 1, {"width": WIDTH}).make())
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=STEPS)
    for _ in range(STEPS):
        some = torch.randint(len(labels), (BATCH,))
        loss = F.cross_entropy(network(images[some]), labels[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


def run(case: Case, root: Path) -> dict[str, Any]:
    """Train a network on a case and probe it with all built-in changes."""
    began = time.perf_counter()
    images, labels = make(case, root)
    kept = len(labels) - PROBED
    network = train(images[:kept], labels[:kept], case.seed)
    trained = time.perf_counter()
    classes = tuple(str(c) for c in range(int(labels.max()) + 1))
    probed = ProbedImages(images[kept:], labels[kept:], classes, title=case.name)
    changes = [hide(name) for name in PLAIN]
    found = measure({"ordinary": network}, probed, changes, torch.device("cpu"))
    return {
        "base": case.base,
        "kind": case.kind,
        "seed": case.seed,
        "clean": case.is_clean,
        "accuracy": found.changes[0].first.right.before,
        "ranking": [change.name for change in found.changes],
        "claims": [change.name for change in found.claims],
        "effects": {change.name: _numbers(change) for change in found.changes},
        "training_seconds": round(trained - began, 1),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _numbers(change: ChangeEffect) -> dict[str, Any]:
    pull = change.first.pull
    return {
        "effect": round(pull.difference, 4),
        "interval": [round(end, 4) for end in pull.interval],
        "p": pull.p_value,
        "after_hiding": round(change.first.right.after, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/probe.json.gz"))
    parser.add_argument("--data-root", type=Path, help="folder with MNIST, CIFAR-10 and faces")
    parser.add_argument("--only", default="", help="run only cases whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = read_document(options.out)["cases"] if options.out.exists() else {}
    for case in every():
        if case.name in cases or options.only not in case.name:
            continue
        try:
            cases[case.name] = run(case, mnist.find_root(options.data_root))
        except DataError as error:
            print(f"{case.name} is left out: {error}", file=sys.stderr)
            continue
        write_document(options.out, {"with": environment(), "cases": cases})
        found = cases[case.name]
        shown = {name: each["effect"] for name, each in found["effects"].items()}
        print(case.name, f"{found['accuracy']:.2f}", shown, found["claims"], flush=True)


if __name__ == "__main__":
    main()

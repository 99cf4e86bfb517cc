"""Draw the pictures of docs/gallery.md from the run of the demo and from one on CIFAR10-C.

    unspur demo
    unspur run cifar10c/1pct-unspur --out runs/cifar10c --set seed=11
    python scripts/gallery_pictures.py docs/images --demo runs/demo --cifar10c runs/cifar10c --data-root DIR

Runs that are not given are left out. The suspects of CIFAR10-C are a result of the stage `mine`, so a run
whose other stages are short is enough.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import unspur
from unspur.data import load

SIDE = 0.62  # inches of an image


def draw_suspects(run: Path, data: unspur.Splits, out: Path) -> None:
    """Draw typical members of each class above a gap, its strongest suspects below."""
    rows = list(csv.DictReader((run / "suspects.csv").open()))
    figure, axes = plt.subplots(7, 10, figsize=(10 * SIDE, 7 * SIDE))
    for name, column in zip(data.classes, axes.T, strict=True):
        members = [int(row["index"]) for row in rows if row["label"] == name]
        chosen = [*members[-3:], None, *members[:3]]
        for axis, index in zip(column, chosen, strict=True):
            axis.axis("off")
            if index is not None:
                axis.imshow(data.train.take(torch.tensor([index]))[0].permute(1, 2, 0))
        column[0].set_title(name, fontsize=6)
    _save(figure, out)


def draw_answers(run: Path, data: unspur.Splits, out: Path) -> None:
    """Draw conflicting test images with the answers of both models, at even distances in their order."""
    conflicting = data.conflicting("test").nonzero().squeeze(1)  # type: ignore[union-attr]
    index = conflicting[torch.linspace(0, len(conflicting) - 1, 20).long()]
    images = data.test.take(index)  # type: ignore[union-attr]
    with torch.no_grad():
        before, after = (unspur.load(path)(images).argmax(1) for path in (run / "ordinary", run))
    figure, axes = plt.subplots(2, 10, figsize=(10 * SIDE, 2 * SIDE + 0.6))
    labels = data.test.targets[index]  # type: ignore[union-attr]
    for axis, image, *answers in zip(axes.flat, images, before, after, labels, strict=True):
        axis.imshow(image.permute(1, 2, 0))
        axis.set_title(_words(answers), fontsize=8)
        axis.axis("off")
    _save(figure, out)


def _words(answers: Iterable[Tensor]) -> str:
    before, after, label = (int(answer) for answer in answers)
    return f"{before} → {after}{'' if after == label else ' ✗'}"


def _save(figure: plt.Figure, out: Path) -> None:
    figure.savefig(out, dpi=110, bbox_inches="tight", facecolor="white")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--demo", type=Path, help="folder of the demo's run")
    parser.add_argument("--cifar10c", type=Path, help="folder of a run of cifar10c/1pct-unspur")
    parser.add_argument("--data-root", type=Path, help="folder with CIFAR-10")
    options = parser.parse_args()
    if options.demo:
        digits = load("demo", ratio="2pct")
        draw_suspects(options.demo, digits, options.out / "gallery-suspects.png")
        draw_answers(options.demo, digits, options.out / "gallery-answers.png")
    if options.cifar10c:
        photographs = load("cifar10c", ratio="1pct", root=options.data_root)
        draw_suspects(options.cifar10c, photographs, options.out / "gallery-photographs.png")


if __name__ == "__main__":
    main()

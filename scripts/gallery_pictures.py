"""Draw the pictures of docs/gallery.md from the run of the demo.

unspur demo && python scripts/gallery_pictures.py runs/demo docs/images
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

import unspur
from unspur.data import load

SIDE = 0.62  # inches of an image


def draw_suspects(run: Path, images: Tensor, out: Path) -> None:
    """Draw typical members of each class above a gap, its strongest suspects below."""
    rows = list(csv.DictReader((run / "suspects.csv").open()))
    figure, axes = plt.subplots(7, 10, figsize=(10 * SIDE, 7 * SIDE))
    for label in range(10):
        members = [int(row["index"]) for row in rows if row["label"] == str(label)]
        chosen = [*members[-3:], None, *members[:3]]
        for axis, index in zip(axes[:, label], chosen, strict=True):
            axis.axis("off")
            if index is not None:
                axis.imshow(images[index].permute(1, 2, 0))
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
    run, out = Path(sys.argv[1]), Path(sys.argv[2])
    data = load("demo", ratio="2pct")
    draw_suspects(run, data.train.take(torch.arange(len(data.train))), out / "gallery-suspects.png")
    draw_answers(run, data, out / "gallery-answers.png")


if __name__ == "__main__":
    main()

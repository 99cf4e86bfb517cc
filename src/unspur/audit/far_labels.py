"""Labels that a confident network finds unlikely: wrong labels among many hard images.

If a network is wrong on most images, single wrong labels cannot be distinguished from hard images. But even
if a confident network is wrong on a hard image, the label is usually one of the likely classes. A wrong label
can be any class. So the share of unlikely labels among the most confident mistakes shows how many labels are
wrong. Only classes that the network recognises count: a class that it never learned is unlikely for every
image.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .statistics import wilson

CONFIDENT = 0.1  # share of the images that is used, those with the largest margins
FEWEST_CLASSES, FEWEST_MISTAKES = 5, 30
RECOGNISED = 0.5  # smallest accuracy on a class that counts, relative to the accuracy on all images


@dataclass(frozen=True)
class FarLabels:
    """How many of the most confident mistakes have a label from the less likely half of the classes."""

    confident: int  # images with the largest margins
    mistakes: int  # among these
    far: int  # mistakes with an unlikely label
    chance: float  # that a wrong label is from the less likely half

    @property
    def share(self) -> float:
        """Return the estimated share of wrong labels among these mistakes."""
        return self.far / self.mistakes / self.chance

    @property
    def lower(self) -> float:
        """Return the lower end of the 95 % interval of the share."""
        return wilson(self.far, self.mistakes)[0] / self.chance


def label_distance(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Return as `far` whether each label is unlikely: 1 for yes, 0 for no, -1 for classes that do not count.

    `far_chance` is the chance that a wrong label is unlikely; 0 if the network recognises too few classes.
    """
    right = logits.argmax(1) == targets
    classes = [
        label
        for label in torch.unique(targets).tolist()
        if _share(right[targets == label]) >= RECOGNISED * _share(right)
    ]
    far = torch.full((len(targets),), -1, dtype=torch.int8)
    if len(classes) < FEWEST_CLASSES:
        return {"far": far, "far_chance": torch.zeros(1)}
    usable, places = torch.isin(targets, torch.tensor(classes)), len(classes) // 2
    among = logits[usable][:, classes]
    own = logits[usable].gather(1, targets[usable, None])
    far[usable] = ((among > own).sum(1) >= len(classes) - places).to(torch.int8)
    return {"far": far, "far_chance": torch.tensor([places / (len(classes) - 1)])}


def count_far_labels(far: Tensor, margin: Tensor, wrong: Tensor, chance: float) -> FarLabels | None:
    """Count the unlikely labels among the most confident mistakes; None if there are too few mistakes."""
    usable = (far >= 0).nonzero().squeeze(1)
    confident = int(CONFIDENT * len(usable))
    top = usable[torch.argsort(margin[usable], descending=True, stable=True)[:confident]]
    mistakes = int(wrong[top].sum())
    if mistakes < FEWEST_MISTAKES or not chance:
        return None
    return FarLabels(confident, mistakes, int((far[top] > 0).sum()), chance)


def _share(selected: Tensor) -> float:
    return float(selected.double().mean())

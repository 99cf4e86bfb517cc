"""Labels that a confident network finds unlikely: wrong labels among many hard images.

Where a network errs on most images, wrong labels drown among hard ones. But even where a confident network
is wrong, the label of a hard image is usually among the likely classes. A wrong label is any class. So of the
mistakes that the network is surest of, the share with an unlikely label tells how many look like wrong
labels. Only classes that the network recognises count: one that it never learned is unlikely for every image.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .statistics import wilson

CONFIDENT = 0.1  # share of the images, those with the largest margins
FEWEST_CLASSES, FEWEST_MISTAKES = 5, 30
RECOGNISED = (
    0.5  # accuracy on a class, as a share of the accuracy on all images, that it takes to count
)


@dataclass(frozen=True)
class FarLabels:
    """Of the mistakes that a network is surest of, how many have a label from the less likely half."""

    confident: int  # images
    mistakes: int
    far: int
    chance: float  # that a wrong label is from the less likely half

    @property
    def share(self) -> float:
        """Return the share of these mistakes that would be wrong labels."""
        return self.far / self.mistakes / self.chance

    @property
    def lower(self) -> float:
        """Return the lower end of the 95 % interval of the share."""
        return wilson(self.far, self.mistakes)[0] / self.chance


def label_distance(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Return for each image whether its label is unlikely (1) or not (0), -1 for classes that do not count.

    Also the chance that a wrong label is unlikely; 0 where the network recognises too few classes.
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
    counted, places = torch.isin(targets, torch.tensor(classes)), len(classes) // 2
    among = logits[counted][:, classes]
    own = logits[counted].gather(1, targets[counted, None])
    far[counted] = ((among > own).sum(1) >= len(classes) - places).to(torch.int8)
    return {"far": far, "far_chance": torch.tensor([places / (len(classes) - 1)])}


def count_far_labels(far: Tensor, margin: Tensor, wrong: Tensor, chance: float) -> FarLabels | None:
    """Count the unlikely labels of the surest mistakes; None where there are too few to say anything."""
    counted = (far >= 0).nonzero().squeeze(1)
    confident = int(CONFIDENT * len(counted))
    surest = counted[torch.argsort(margin[counted], descending=True, stable=True)[:confident]]
    mistakes = int(wrong[surest].sum())
    if mistakes < FEWEST_MISTAKES or not chance:
        return None
    return FarLabels(confident, mistakes, int((far[surest] > 0).sum()), chance)


def _share(of: Tensor) -> float:
    return float(of.double().mean())

"""Suspects: the samples that probably contradict the shortcut, and the verdict on a set of suspects.

A network that learns what is easy predicts correctly where the shortcut holds. The samples that it predicts
wrongly probably contradict the shortcut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..training.metrics import surprise

LEAST = 2.0**-24  # a probability below it is rounded to 0 by the score
FIELDS = ("score", "conflict", "predicted")


@dataclass(frozen=True, eq=False)
class Suspects:
    """For each sample: its score, whether it is a suspect, and the class that the miner predicts."""

    score: Tensor
    conflict: Tensor
    predicted: Tensor

    def __repr__(self) -> str:
        return f"Suspects({int(self.conflict.sum())} of {len(self)} samples)"

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, part: slice) -> Suspects:
        return Suspects(self.score[part], self.conflict[part], self.predicted[part])

    @property
    def evidence(self) -> Tensor:
        """Return -log p of the label under the miner, in float64."""
        return -torch.log((1 - self.score.double()).clamp(min=LEAST))

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        return {f"{prefix}.{name}": getattr(self, name) for name in FIELDS}

    @staticmethod
    def of(tensors: Mapping[str, Tensor], prefix: str) -> Suspects:
        return Suspects(*(tensors[f"{prefix}.{name}"] for name in FIELDS))


def misclassified(logits: Tensor, targets: Tensor) -> Suspects:
    """Flag the samples that the miner predicts wrongly; the score is 1 - p of the label."""
    predicted = logits.argmax(1)
    return Suspects(surprise(logits, targets), predicted != targets, predicted)


def above(score: Tensor, logits: Tensor, *, threshold: float = 0.8) -> Suspects:
    """Flag the samples with a score above a threshold (epoch ensemble)."""
    return Suspects(score, score > threshold, logits.argmax(1))


def oracle(conflicting: Tensor, targets: Tensor) -> Suspects:
    """Flag the truly conflicting samples: an upper bound, for evaluation only."""
    return Suspects(conflicting.float(), conflicting, targets)


CROWDED = 0.5  # a share of suspects in a class above which a warning is given


def crowded_classes(suspects: Suspects, targets: Tensor, classes: Sequence[str]) -> str:
    """Return a warning about classes in which most samples are suspects, or "" if there are none."""
    return crowding(class_counts(suspects, targets, classes))


def class_counts(
    suspects: Suspects, targets: Tensor, classes: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Return the number of suspects and of samples of each class."""
    counts = {}
    for label, name in enumerate(classes):
        members = targets == label
        counts[name] = int((members & suspects.conflict).sum()), int(members.sum())
    return counts


def crowding(counts: Mapping[str, tuple[int, int]]) -> str:
    """Return the same warning from (suspects, samples) of each class."""
    most = {name: each for name, each in counts.items() if each[0] > CROWDED * each[1]}
    if not most:
        return ""
    parts = [f"{flagged} of {samples} of {name!r}" for name, (flagged, samples) in most.items()]
    more = f" and {len(parts) - 5} more classes" if len(parts) > 5 else ""
    return (
        f"Most images of a class are suspects: {', '.join(parts[:5])}{more}. They are probably "
        "not conflicting: the class may be hard, or its labels wrong. Look at its images before you trust "
        "the flags."
    )


@dataclass(frozen=True)
class Verdict:
    """The verdict on a set of suspects: a code, and a text for the user."""

    code: Literal["nothing", "usable", "too-many", "lost-class", "noise"]
    text: str

    @property
    def usable(self) -> bool:
        """Whether debiasing continues with these suspects; otherwise the ordinary model is the result."""
        return self.code in ("usable", "noise")


FEWEST, FEWEST_SHARE, MOST_SHARE = 5, 0.0005, 0.35
NOISE_EVIDENCE, NOISE_SHARE = 20, 0.85
LOST = 0.9  # a share of suspects in a class above which the miner has not learned the class


def verdict(
    suspects: Suspects,
    *,
    by_class: Mapping[str, tuple[int, int]] | None = None,
    opinion: Tensor | None = None,
) -> Verdict:
    """Return the verdict on a set of suspects.

    `by_class` has (suspects, samples) of each class; classes that the miner did not learn are found by it.
    `opinion` is for suspects that no model was trained on: whether the ordinary model predicts the same class
    as the miner. A conflicting sample still has features of its class, which the ordinary model may use. A
    sample with a wrong label does not.
    """
    n, k = len(suspects), int(suspects.conflict.sum())
    share = f"{k} of {n} training samples ({100 * k / n:.2f} %)"
    if k < max(FEWEST, FEWEST_SHARE * n):
        return _too_few(share)
    if k > MOST_SHARE * n:
        return _too_many(share)
    lost = {name: each for name, each in (by_class or {}).items() if each[0] > LOST * each[1]}
    if sum(flagged for flagged, _ in lost.values()) > k / 2:
        return _lost_class(share, lost)
    if opinion is not None and len(opinion) >= NOISE_EVIDENCE:
        against = float(opinion.double().mean())
        if against >= NOISE_SHARE:
            return _noisy(share, against)
    return Verdict("usable", f"A shortcut is likely: {share} contradict what a model learns first.")


def _too_few(share: str) -> Verdict:
    return Verdict(
        "nothing",
        f"No sign of a shortcut: {share} contradict what a model learns first, too few to act on. "
        "The ordinary model is returned.",
    )


def _too_many(share: str) -> Verdict:
    return Verdict(
        "too-many",
        f"The miner did not learn the task: it gets {share} wrong, so these are not exceptions to a "
        "shortcut. The ordinary model is returned. Mine longer (mine.steps) or with another rate.",
    )


def _lost_class(share: str, lost: Mapping[str, tuple[int, int]]) -> Verdict:
    parts = [f"{flagged} of {samples} of {name!r}" for name, (flagged, samples) in lost.items()]
    return Verdict(
        "lost-class",
        f"The miner did not learn every class: it gets {share} wrong, most of them in classes that consist "
        f"of suspects ({', '.join(parts[:5])}), so they are not exceptions to a shortcut. The "
        "ordinary model is returned. Mine with a warm-up (mine.warm_up=1), or look at the labels of these "
        "classes.",
    )


def _noisy(share: str, against: float) -> Verdict:
    return Verdict(
        "noise",
        f"{share} contradict what a model learns first, but the ordinary model contradicts "
        f"{100 * against:.0f} % of their labels on unseen samples too: they may be wrong labels. "
        "Debiasing went on; look at the suspects before trusting it.",
    )

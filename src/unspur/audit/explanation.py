"""Explain the suspects: which property of an image predicts, within its class, that it is a suspect?

For each column, a rule picks the kinds that are more frequent among the suspects of a class than among its
other images. *Advantage* is the share of suspects that the rule picks minus the share of other images that it
picks: 1 for a column that separates them completely, 0 for an uninformative one. A rule chosen on the same
images has some advantage by chance. So the p-value comes from random choices of as many suspects of each
class (a permutation test), and the advantage is corrected by their mean. Holm's method corrects the p-values
for the number of columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .explanation_columns import Column

LEVEL = 0.01  # largest corrected p-value of a column that counts as an explanation
LEAST = 0.1  # smallest advantage of such a column
FEWEST = 10  # smallest number of suspects that can be explained
DRAWS, BLOCK = 10_000, 1_000  # random choices of suspects, at most, and how many at a time
ENOUGH = 20  # stop after this number of random choices that are as good as the suspects
MOST_CLASSES = 100  # classes that are used, those with the most suspects

Counts = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class KindExample:
    """The class and the kind of a column for which suspects differ most from other images."""

    label: str
    kind: str
    suspects: float  # share of the suspects of the class
    others: float  # share of its other images


@dataclass(frozen=True)
class ColumnEvidence:
    """How well a column predicts the suspects within their class."""

    name: str
    origin: str
    advantage: float  # corrected for chance, from 0 to 1
    found: float  # share of the suspects that the rule of this column picks
    picked: float  # share of the other images that the rule picks
    p_value: float  # corrected for the number of columns
    example: KindExample

    @property
    def counts(self) -> bool:
        """Return whether the column counts as an explanation."""
        return self.p_value <= LEVEL and self.advantage >= LEAST


@dataclass(frozen=True)
class Explanation:
    """All columns that were compared, the best explanation first."""

    columns: tuple[ColumnEvidence, ...]
    suspects: int
    table: str = ""  # the user's table, if there is one
    missing: int = 0  # images without a row in it

    @property
    def named(self) -> list[ColumnEvidence]:
        """Return the columns that explain the suspects, the best first."""
        return [each for each in self.columns if each.counts]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "named": [each.name for each in self.named]}

    @staticmethod
    def from_json(about: Mapping[str, Any]) -> Explanation:
        """Read what `as_json` wrote."""
        columns = tuple(
            ColumnEvidence(**{**each, "example": KindExample(**each["example"])})
            for each in about["columns"]
        )
        return Explanation(columns, about["suspects"], about["table"], about["missing"])


def explain(
    suspects: Tensor,
    targets: Tensor,
    classes: Sequence[str],
    columns: Sequence[Column],
    *,
    seed: int,
) -> Explanation:
    """Compare columns by how well they predict the suspects within each class."""
    flags, labels = suspects.cpu().numpy(), targets.cpu().numpy()
    if int(flags.sum()) < FEWEST:
        return Explanation((), int(flags.sum()))
    class_numbers = _largest(flags, labels)
    # No p-value is below 1 / draws, so with many columns it takes more of them to get below the level.
    draws = max(DRAWS, math.ceil(len(columns) / LEVEL))
    entropy = seed % 2**64  # numpy takes no negative numbers
    found = [
        _weigh(each, flags, labels, class_numbers, classes, draws, [entropy, number])
        for number, each in enumerate(columns)
    ]
    return Explanation(_holm([each for each in found if each]), int(flags.sum()))


def _largest(flags: NDArray[np.bool_], labels: Counts) -> list[int]:
    """Return the classes that have both suspects and other images, those with most suspects first."""
    totals = np.bincount(labels)
    counts = np.bincount(labels[flags], minlength=len(totals))
    mixed = [c for c in np.argsort(-counts, kind="stable").tolist() if 0 < counts[c] < totals[c]]
    return mixed[:MOST_CLASSES]


@dataclass(frozen=True)
class Stratum:
    """One class: for each kind of a column, the number of its images and of its suspects."""

    label: int
    totals: Counts
    suspects: Counts


def _weigh(
    column: Column,
    flags: NDArray[np.bool_],
    labels: Counts,
    class_numbers: Sequence[int],
    classes: Sequence[str],
    draws: int,
    seed: Sequence[int],
) -> ColumnEvidence | None:
    """Return the evidence of one column; None if it is constant within every class."""
    strata = list(_strata(column, flags, labels, class_numbers))
    if not strata:
        return None
    found, picked = _rule(strata)
    observed = found - picked
    p_value, chance = _by_chance(strata, observed, draws, np.random.default_rng(seed))
    corrected = (observed - chance) / max(1 - chance, 1e-9)
    example = _example(strata, column, classes)
    return ColumnEvidence(
        column.name, column.origin, max(0.0, corrected), found, picked, p_value, example
    )


def _strata(
    column: Column, flags: NDArray[np.bool_], labels: Counts, class_numbers: Sequence[int]
) -> Iterator[Stratum]:
    """Yield the classes in which the column is not constant."""
    kinds = len(column.kind_names)
    for label in class_numbers:
        here = labels == label
        totals = np.bincount(column.kinds[here], minlength=kinds)
        if np.count_nonzero(totals) > 1:
            yield Stratum(label, totals, np.bincount(column.kinds[here & flags], minlength=kinds))


def _rule(strata: Sequence[Stratum]) -> tuple[float, float]:
    """Return the share of suspects and of other images that the best rule within each class picks."""
    weight = sum(int(each.suspects.sum()) for each in strata)
    found = picked = 0.0
    for each in strata:
        ones, others = _shares(each.suspects, each.totals)
        more, share = ones > others, int(each.suspects.sum()) / weight
        found += share * float(ones[more].sum())
        picked += share * float(others[more].sum())
    return found, picked


def _shares(suspects: Counts, totals: Counts) -> tuple[Array, Array]:
    """Return the share of each kind among suspects and among other images, along the last axis."""
    others = totals - suspects
    return (
        suspects / suspects.sum(-1, keepdims=True),
        others / others.sum(-1, keepdims=True),
    )


def _by_chance(
    strata: Sequence[Stratum], observed: float, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the p-value and the mean advantage of suspects that are chosen at random in each class.

    Stops early once chance is clearly as good; the p-value remains valid (Besag and Clifford, 1991).
    """
    count, hits, total = 0, 0, 0.0
    while count < draws and hits < ENOUGH:
        advantages = _random_advantages(strata, rng)
        count, total = count + BLOCK, total + float(advantages.sum())
        hits += int((advantages >= observed - 1e-12).sum())
    return (hits + 1) / (count + 1), total / count


def _random_advantages(strata: Sequence[Stratum], rng: np.random.Generator) -> Array:
    weight = sum(int(each.suspects.sum()) for each in strata)
    advantages = np.zeros(BLOCK)
    for each in strata:
        count = int(each.suspects.sum())
        draws = rng.multivariate_hypergeometric(each.totals, count, size=BLOCK, method="marginals")
        ones, others = _shares(draws, each.totals)
        advantages += count / weight * np.maximum(ones - others, 0).sum(1)
    return advantages


def _example(strata: Sequence[Stratum], column: Column, classes: Sequence[str]) -> KindExample:
    """Return the class and the kind in which suspects differ most, counted in images."""
    best, most = KindExample("", "", 0.0, 0.0), -1.0
    for each in strata:
        ones, others = _shares(each.suspects, each.totals)
        kind = int(np.argmax(ones - others))
        surplus = float(ones[kind] - others[kind]) * int(each.suspects.sum())
        if surplus > most:
            name = column.kind_names[kind]
            best = KindExample(classes[each.label], name, float(ones[kind]), float(others[kind]))
            most = surplus
    return best


def _holm(found: Sequence[ColumnEvidence]) -> tuple[ColumnEvidence, ...]:
    """Correct the p-values for the number of columns, and sort: explanations first, then by advantage."""
    ordered = sorted(found, key=lambda each: each.p_value)
    largest, corrected = 0.0, []
    for place, each in enumerate(ordered):
        largest = max(largest, min(1.0, each.p_value * (len(ordered) - place)))
        corrected.append(replace(each, p_value=largest))
    return tuple(sorted(corrected, key=lambda each: (not each.counts, -each.advantage)))

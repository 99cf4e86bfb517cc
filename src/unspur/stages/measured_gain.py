"""Measure the gain of debiasing without bias labels.

The ordinary and the debiased network are compared on suspects, and on other samples. The comparison is fair
because:

- neither network was trained on these samples. If there is only a training split, a quarter of its suspects
  is kept out of training;
- a sample is not scored by a step that it selected itself. Samples that are used for selection are scored by
  a step that other samples selected;
- the suspects were found by other networks, which were not trained on them either. Errors of the ordinary
  network would be a biased choice, because its accuracy on them is low by definition.

The samples are those of the test split if it has enough suspects, otherwise those used for selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from .context import Context
from .results import Results

LEVEL_Z = 1.959964  # normal quantile of a 95 % interval
FEWEST = 10  # suspects that are needed to measure a gain


@dataclass(frozen=True)
class PairedGain:
    """Two accuracies on the same samples, their difference, and its 95 % interval."""

    count: int
    ordinary: float
    debiased: float
    gain: float
    low: float
    high: float


def paired_gain(before: Tensor, after: Tensor) -> PairedGain:
    """Compare two networks by which samples they predict correctly."""
    n = len(before)
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    old, new = (float(right.double().mean()) for right in (before, after))
    return PairedGain(n, old, new, (won - lost) / n, *paired_interval(won, lost, n))


def paired_interval(won: int, lost: int, n: int, *, z: float = LEVEL_Z) -> tuple[float, float]:
    """Return the interval of the gain if `won` of n samples become right and `lost` wrong; 95 % by default.

    The interval is that of Agresti and Min (2005) for paired proportions: Wald's interval with half a sample
    added to each of the four cells. It keeps its level for few samples and for gains near 0 or 1.
    """
    total, difference = n + 2, won - lost
    error = math.sqrt(won + lost + 1 - difference**2 / total) / total
    middle = difference / total
    return max(middle - z * error, -1.0), min(middle + z * error, 1.0)


@dataclass(frozen=True, eq=False)
class Measured:
    """The samples to measure the gain on: a split, which of its samples, and which of these are suspects."""

    split: str
    among: Tensor
    conflict: Tensor

    @property
    def is_enough(self) -> bool:
        return int(self.conflict.sum()) >= FEWEST


def samples_outside(context: Context) -> tuple[str, Tensor] | None:
    """Return the samples that no network of a run was trained on or fitted to; None if there are none."""
    samples = context.selection_samples
    return None if samples is None or context.trains_on(samples[0]) else samples


def measured_samples(context: Context, results: Results) -> Measured | None:
    """Return the samples to measure the gain on, or None if they have too few suspects."""
    if context.miner is None or "mine" not in results:
        return None
    kept_out = samples_outside(context)
    parts = [] if kept_out is None else [kept_out]
    if context.splits.test is not None:
        every = results.suspects("test").conflict
        parts.insert(0, ("test", every | ~every))
    choices = (Measured(s, among, results.suspects(s).conflict[among]) for s, among in parts)
    return next((samples for samples in choices if samples.is_enough), None)


def gain_facts(
    context: Context, results: Results, right: Callable[[str, str, Tensor], Tensor]
) -> dict[str, Any] | None:
    """Return the gain on suspects and on other samples, or None if it cannot be measured.

    `right(stage, split, among)` returns which samples the network of a stage predicts correctly.
    """
    samples = measured_samples(context, results)
    return None if samples is None else compare_on(samples, results, right)


def compare_on(
    samples: Measured, results: Results, right: Callable[[str, str, Tensor], Tensor]
) -> dict[str, Any] | None:
    """Return the gain on some samples, as `gain_facts` does; None if there are not two networks."""
    last = results.last_network
    if last is None or not {"pretrain"} < results.keys() - {"mine"}:
        return None
    before = right("pretrain", samples.split, samples.among)
    selected = results[last].tensors.get("right") if samples.split != "test" else None
    after = right(last, samples.split, samples.among) if selected is None else selected
    parts = {"suspects": samples.conflict, "others": ~samples.conflict}
    gains = {
        name: paired_gain(before[part], after[part]) for name, part in parts.items() if part.any()
    }
    return {"split": samples.split, **{name: asdict(gain) for name, gain in gains.items()}}

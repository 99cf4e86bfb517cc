"""Measure what debiasing gains where nobody has labelled the shortcut.

The ordinary and the debiased network are compared on suspects, and on other samples. The comparison is fair
if nothing links these samples to either network:

- neither was trained on them. Where only a training split is there, a quarter of its suspects is kept out;
- they did not select the iterate. A sample that did is scored by an iterate that others selected;
- the suspects were found by other networks, which were not trained on them either. Suspects that the
  ordinary network itself gets wrong would be a biased choice: it is bound to do badly on them.

The samples are those of the test split if it has enough suspects, otherwise those that select the iterate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from .context import Context
from .results import Results

LEVEL_Z = 1.959964  # of a 95 % interval
FEWEST = 10  # suspects that a gain is measured on


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
    """Compare which samples two networks get right.

    The interval is that of Agresti and Min (2005) for paired proportions: Wald's, with half a sample added to
    each of the four cells, which keeps its level for few samples and for gains near 0 or 1.
    """
    n = len(before)
    won, lost = int((after & ~before).sum()), int((before & ~after).sum())
    total, difference = n + 2, won - lost
    error = math.sqrt(won + lost + 1 - difference**2 / total) / total
    middle = difference / total
    low, high = max(middle - LEVEL_Z * error, -1.0), min(middle + LEVEL_Z * error, 1.0)
    old, new = (float(right.double().mean()) for right in (before, after))
    return PairedGain(n, old, new, difference / n, low, high)


@dataclass(frozen=True, eq=False)
class Measured:
    """The samples that measure the gain: a split, which of its samples, and which of those are suspects."""

    split: str
    among: Tensor
    conflict: Tensor

    @property
    def is_enough(self) -> bool:
        return int(self.conflict.sum()) >= FEWEST


def measured_samples(context: Context, results: Results) -> Measured | None:
    """Return the samples to measure the gain on; None if there are none, or too few suspects among them."""
    if context.miner is None or "mine" not in results:
        return None
    parts = [context.selecting] if context.selecting is not None else []
    if context.splits.test is not None:
        every = results.suspects("test").conflict
        parts.insert(0, ("test", every | ~every))
    found = (Measured(s, among, results.suspects(s).conflict[among]) for s, among in parts)
    return next((samples for samples in found if samples.is_enough), None)


def gain_facts(
    context: Context, results: Results, right: Callable[[str, str, Tensor], Tensor]
) -> dict[str, Any] | None:
    """Return the gain on suspects and on others; None where it cannot be measured.

    `right(stage, split, among)` says which samples the network of a stage gets right.
    """
    last, samples = results.last_network, measured_samples(context, results)
    if samples is None or last is None or not {"pretrain"} < results.keys() - {"mine"}:
        return None
    before = right("pretrain", samples.split, samples.among)
    selected = results[last].tensors.get("right") if samples.split != "test" else None
    after = right(last, samples.split, samples.among) if selected is None else selected
    parts = {"suspects": samples.conflict, "others": ~samples.conflict}
    gains = {
        name: paired_gain(before[part], after[part]) for name, part in parts.items() if part.any()
    }
    return {"split": samples.split, **{name: asdict(found) for name, found in gains.items()}}

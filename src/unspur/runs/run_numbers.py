"""Collect the numbers of a run: scores, the judge's advice, a warning about crowded classes."""

from __future__ import annotations

from typing import Any

from ..stages.context import Advice, Context
from ..stages.gain_check import GainCheck
from ..stages.results import Results
from ..stages.suspects import class_counts, crowding, verdict
from ..store import Artifact
from .run_folder import with_advice, with_gain_check


def run_numbers(
    context: Context,
    results: Results,
    scores: Artifact,
    advice: Advice | None,
    gain_check: GainCheck | None = None,
) -> dict[str, Any]:
    """Return the scores, the judge's advice, the check of the gain, and a warning about crowded classes."""
    numbers, splits = with_gain_check(with_advice(scores.facts, advice), gain_check), context.splits
    if "mine" not in results:
        return numbers
    suspects = results.suspects()
    counts = class_counts(suspects, splits.train.targets.cpu(), splits.classes)
    # A class that was not learned is in the verdict already.
    crowded = crowding(counts) if verdict(suspects, by_class=counts).usable else ""
    return {**numbers, "crowded": crowded} if crowded else numbers

"""Collect the numbers of a run: scores, the judge's advice, a warning about crowded classes."""

from __future__ import annotations

from typing import Any

from ..stages.context import Advice, Context
from ..stages.results import Results
from ..stages.suspects import crowded_classes, verdict
from ..store import Artifact
from .run_folder import with_advice


def run_numbers(
    context: Context, results: Results, scores: Artifact, advice: Advice | None
) -> dict[str, Any]:
    """Return the scores, the judge's advice if there was a judge, and a warning about crowded classes."""
    numbers, splits = with_advice(scores.facts, advice), context.splits
    if "mine" not in results or not verdict(results.suspects()).usable:
        return numbers
    crowded = crowded_classes(results.suspects(), splits.train.targets, splits.classes)
    return {**numbers, "crowded": crowded} if crowded else numbers

"""The outcome of a run: results, scores, and what was decided before and after training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..deploy.before_after import BeforeAfter
from ..runs.run_numbers import run_numbers
from ..stages.context import Advice, Context
from ..stages.evaluate import evaluate
from ..stages.gain_check import GainCheck
from ..stages.results import Results
from ..store import Artifact


@dataclass(frozen=True)
class Outcome:
    """The results of a run, its scores, the judge's advice, and the path of the report if there is one.

    Size and speed are measured if the run is saved and something was pruned. `rejected` has the results with
    the debiased model, if the check of the gain returned to the ordinary model.
    """

    context: Context
    results: Results
    scores: Artifact
    advice: Advice | None = None
    page: Path | None = None
    size_and_speed: BeforeAfter | None = None
    gain_check: GainCheck | None = None
    rejected: Results | None = None

    @property
    def numbers(self) -> dict[str, Any]:
        """The scores, the judge's advice, the check of the gain, and a warning about crowded classes."""
        return run_numbers(
            self.context, self.results, self.scores, self.advice, gain_check=self.gain_check
        )

    @property
    def rejected_scores(self) -> Artifact | None:
        """The scores of the debiased model that is not the result, if there is one."""
        return None if self.rejected is None else evaluate(self.context, self.rejected)

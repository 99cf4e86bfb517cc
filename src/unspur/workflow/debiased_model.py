"""The result of debiasing for Python: the model, its suspects, scores and masks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..models import restore_output
from ..runs.classifier import Classifier
from ..runs.run_folder import about_images
from ..stages.suspects import Suspects
from .outcome import Outcome


@dataclass(frozen=True)
class DebiasedModel:
    """The result of `debias`: the model, its suspects, scores and masks, and the folder of the run."""

    model: nn.Module
    suspects: Suspects | None  # None if the method has no mining stage
    scores: dict[str, Any]
    masks: dict[str, Tensor]
    out: Path | None
    classifier: Classifier  # the model with its preprocessing: images in, logits out

    def __repr__(self) -> str:
        out = str(self.out) if self.out else None
        parts = f"model={type(self.model).__name__}, suspects={self.suspects!r}, out={out!r}"
        return f"DebiasedModel({parts}; also: scores, masks, classifier)"


def debiased_model(outcome: Outcome, out: Path | None) -> DebiasedModel:
    """Return the result of a run for a user; `out` is the folder of the run."""
    results = outcome.results
    model = outcome.context.final_network(results.final_weights).eval()
    return DebiasedModel(
        model=restore_output(model),
        suspects=results.suspects() if "mine" in results else None,
        scores=outcome.numbers,
        masks=results.masks,
        out=out,
        classifier=Classifier(model, about_images(outcome.context)),
    )

"""Check after training whether debiasing was worth its cost; otherwise the ordinary model is the result.

The audit before a run can take hard images for images that contradict a shortcut. Then debiasing gains little
on the suspects and loses accuracy on all other images. So both models are compared on samples that neither
was trained on: validation samples, or those that were kept out of training. The test split is not used, so
that its scores are not those of a model that it selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from .context import Context
from .evaluate import Scorer
from .measured_gain import Measured, compare_on, samples_outside
from .results import ComparedGain, Results, store_result

VERSION = 1  # increase it if the same networks would give other gains
FEWEST = (
    20  # suspects that are needed to reject a debiased model; with fewer, the gain is too uncertain
)
# The least gain on suspects, divided by the cost on all other samples. With 3, debiasing pays as soon as a
# quarter of the images in use contradict the shortcut.
WORTH = 3.0


@dataclass(frozen=True)
class GainCheck:
    """The gain and cost of debiasing on unseen samples, and the number of suspects among them."""

    gain: Mapping[str, Any] | None  # None if there is no suspect
    suspects: int

    @property
    def is_open(self) -> bool:
        """Whether a gain that seems not to be worth its cost is measured on too few suspects to say so.

        A loss, a gain whose interval ends below the cost, or a cost that no gain outweighs is not, however
        few suspects there are.
        """
        if self.gain is None:
            return True
        return self.suspects < FEWEST and not is_worth_it(self.gain) and may_be_worth_it(self.gain)

    @property
    def keep(self) -> bool:
        """Whether the debiased model is the result of the run."""
        return self.is_open or bool(self.gain and is_worth_it(self.gain))


def is_worth_it(gain: Mapping[str, Any]) -> bool:
    """Return whether the gain on suspects is significant and outweighs the cost on all other samples."""
    suspects = gain["suspects"]
    return bool(suspects["low"] > 0 and suspects["gain"] > WORTH * _cost(gain))


def may_be_worth_it(gain: Mapping[str, Any]) -> bool:
    """Return whether there is a gain, its interval ends above the cost, and a gain can outweigh that cost.

    A gain is at most 1.
    """
    suspects, cost = gain["suspects"], _cost(gain)
    return bool(suspects["gain"] > 0 and suspects["high"] > cost and WORTH * cost < 1)


def _cost(gain: Mapping[str, Any]) -> float:
    """Return the accuracy lost on samples that are no suspects."""
    others = gain.get("others")
    return max(0.0, -others["gain"]) if others else 0.0


def check_gain(context: Context, results: Results) -> GainCheck | None:
    """Compare the ordinary and the debiased model of a run; None if the run does not have both."""
    samples = _samples(context, results)
    if samples is None or results.last_network in (None, "pretrain"):
        return None
    count = int(samples.conflict.sum())
    if count == 0:
        return GainCheck(None, count)
    ingredients = {
        "stage": "gain check",
        "version": VERSION,
        "parents": {name: artifact.path.name for name, artifact in results.items()},
        "device": context.device.type,
    }
    stored = store_result(
        context.store, ingredients, lambda: ComparedGain(_compare(context, results, samples))
    )
    return GainCheck(stored.facts["gain"], count)


def ordinary_only(results: Results) -> Results:
    """Return the results of a run without its debiased model."""
    return Results({name: results[name] for name in ("mine", "pretrain") if name in results})


def _samples(context: Context, results: Results) -> Measured | None:
    """Return the samples that no network was trained on; None if there are none, or no suspects."""
    if context.miner is None or not {"mine", "pretrain"} <= results.keys():
        return None
    if (samples := samples_outside(context)) is None:
        return None
    split, among = samples
    return Measured(split, among, results.suspects(split).conflict[among])


def _compare(context: Context, results: Results, samples: Measured) -> dict[str, Any]:
    gain = compare_on(samples, results, partial(Scorer(context).right, results))
    assert gain is not None, "the run has two networks"
    return gain

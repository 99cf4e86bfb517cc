"""Find the suspects of a run as an audit does: each sample is judged by networks not trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..data.splits import Part
from ..recipes import Recipe, change
from ..stages.context import Context
from ..stages.suspects import Suspects
from .audit_cost import AuditCost, audit_cost
from .audit_networks import DEPRIVED, MINER, find
from .crossfit import CrossFit
from .half_training import half_trainings, train_all
from .preparation import check, is_enough, mining

NETWORKS = (MINER, DEPRIVED)  # a sample that both get wrong is a suspect


def choose(recipe: Recipe, images: Part) -> Recipe:
    """Return the recipe with the settings of an audit's miner, unchanged if the images cannot be audited."""
    if not is_enough(images):
        return recipe
    settings = {"how": "crossfit", **mining(len(images.targets))}
    return change(recipe, {f"mine.{name}": value for name, value in settings.items()})


def is_used(recipe: Recipe) -> bool:
    """Return whether a recipe finds its suspects as an audit does."""
    return recipe.mine.how == "crossfit" and "mine" in recipe.stages


def of(audit: Context, recipe: Recipe) -> CrossFitMiner:
    """Return the miner of an audit with the settings of a recipe; raise if the data cannot be audited."""
    check(audit)
    settings = recipe.mine.model_copy(update={"how": "gce"})
    return CrossFitMiner(replace(audit, recipe=audit.recipe.model_copy(update={"mine": settings})))


@dataclass(frozen=True)
class CrossFitMiner:
    """The four trainings of an audit that find suspects; trainings of an earlier audit are reused."""

    context: Context  # of an audit

    @cached_property
    def _crossfit(self) -> CrossFit:
        return CrossFit(self.context)

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """The keys of the artifacts that give the suspects, whether they are stored or not."""
        trainings = half_trainings(self._crossfit, [find(name) for name in NETWORKS])
        return {f"{each.network.name}/{each.half}": each.key for each in trainings}

    def __call__(self) -> Mapping[str, Suspects]:
        """Return the suspects of every split."""
        return self._suspects

    @cached_property
    def _suspects(self) -> Mapping[str, Suspects]:
        crossfit = self._crossfit
        for name in NETWORKS:
            trainings = half_trainings(crossfit, [find(name)])
            train_all(trainings, len(trainings))
        return {split: crossfit.flagged_in(split) for split in self.context.splits.parts()}

    def parts(self) -> dict[str, float]:
        """Return the estimated seconds of the trainings that are not stored yet, by name."""
        return self._cost.parts

    @cached_property
    def _cost(self) -> AuditCost:
        return audit_cost(self.context, [find(name) for name in NETWORKS])

    def cost(self) -> tuple[int, float]:
        """Return the steps and the estimated seconds of the trainings that are not stored yet."""
        cost = self._cost
        return cost.trainings * cost.steps, cost.seconds

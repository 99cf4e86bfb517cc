"""Build the trainings of stages: data, order of samples, options and watchers from the recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import masks
from ..data.batches import NO_MIXING, Source
from ..data.mixing import Mixing
from ..recipes.settings import DebiasSettings
from ..training import sampling
from ..training.inputs import Training, Watcher
from ..training.method import Method
from ..training.sections import TrainingSettings
from ..training.watchers import Curve, Unseen
from .context import Context
from .results import Results
from .suspects import Suspects


def make_training(
    context: Context,
    stage: str,
    method: Method,
    settings: TrainingSettings,
    *,
    source: Source | None = None,
    order: sampling.Order | None = None,
    watchers: Sequence[Watcher] = (),
    begins: bool = False,
) -> Training:
    """Return the training of a method; by default it passes through the data in random order.

    `begins` is True if it starts from the initial network.
    """
    recipe, seed = context.recipe, context.seed(stage)
    if source is None:
        source = training_source(context, seed)
    if order is None:
        order = passes(context, settings.batch, seed)
    if context.unseen is not None:
        split, among = context.unseen
        curve = Curve(Unseen(context.resident(split), among), every=recipe.watch_every)
        watchers = [*watchers, curve]
    options = recipe.fit_options(settings, seed=seed, begins=begins)
    return Training(method, source, order, options, watchers)


def training_source(
    context: Context,
    seed: int,
    *,
    mixes: bool = True,
    conflict: Tensor | None = None,
    bias: Tensor | None = None,
) -> Source:
    """Return the training split with the augmentations of the recipe, and further labels of its samples.

    With `mixes=False` images are not mixed.
    """
    data = context.recipe.data
    mixing = Mixing(spectrum=data.spectrum, style=data.style, mix=data.mix) if mixes else NO_MIXING
    return context.source(
        context.splits.train,
        augment=data.augment,
        mixing=mixing,
        seed=seed,
        conflict=conflict,
        bias=bias,
    )


def passes(context: Context, batch: int, seed: int) -> sampling.Passes:
    """Return the order of passes through all samples that stages train on, each in random order."""
    among = (~context.kept_out).nonzero().squeeze(1).to(context.device)
    return sampling.Passes(among, batch=batch, seed=seed)


def oversample(
    context: Context, stage: str, settings: DebiasSettings, results: Results
) -> tuple[Source, sampling.Order]:
    """Return the training data with flags of suspects, and an order that samples suspects more often."""
    seed = context.seed(stage)
    if "mine" not in results:
        return training_source(context, seed), passes(context, settings.batch, seed)
    suspects = results.suspects()
    conflict = suspects.conflict
    odds = torch.where(context.kept_out, 0.0, _odds(context, settings, suspects))
    source = training_source(context, seed, conflict=conflict)
    return source, sampling.Weighted(odds.to(context.device), batch=settings.batch, seed=seed)


def _odds(context: Context, settings: DebiasSettings, suspects: Suspects) -> Tensor:
    """Return sampling odds: a fixed factor for suspects, or one derived from their number."""
    conflict = suspects.conflict
    if settings.up:
        return sampling.fixed_odds(conflict, up=settings.up)
    among, odds = ~context.kept_out, torch.zeros(len(conflict), dtype=torch.float64)
    targets = context.splits.train.targets.cpu()[among]
    least = min(0.5, context.recipe.mine.threshold)  # no miner flags a sample with a lower score
    grades = _grades(suspects, settings.graded, least)[among] if settings.graded else None
    odds[among] = sampling.derived_odds(
        conflict[among], targets, share=settings.share, cap=settings.cap, grades=grades
    )
    return odds


def _grades(suspects: Suspects, power: float, least: float) -> Tensor:
    """Return a power of -log p of every label; suspects that only a person flags get the mean of the others.

    These have a score below `least`: the miner finds their labels likely. Their own -log p may be 0, and they
    would never be sampled.
    """
    grades = suspects.evidence**power
    by_person = suspects.conflict & (suspects.score < least)
    others = grades[suspects.conflict & ~by_person]
    return torch.where(by_person, others.mean() if len(others) else 1.0, grades)


def loss_options(settings: DebiasSettings) -> dict[str, Any]:
    """Return the settings of the debiasing loss."""
    return settings.model_dump(include={"align", "positives", "temperature", "group_weight"})


def latest_weights(context: Context, results: Results) -> Mapping[str, Tensor]:
    """Return the weights of the last finished stage, or the initial ones."""
    return results.final_weights if results.last_network else context.initial


def whole_masks(context: Context) -> dict[str, Tensor]:
    """Return masks that keep every weight."""
    model = context.network()
    masks.attach(model)
    return masks.harden(model)

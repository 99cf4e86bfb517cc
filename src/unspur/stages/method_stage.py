"""The stage of a single-stage method: one training from the initial network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import masks
from ..data.batches import Source
from ..methods import MethodEntry, OwnStage
from ..models import Builder, builder
from ..store.hashing import digest
from ..training import metrics, sampling
from ..training.inputs import Watcher
from ..training.sections import MethodSettings, NetworkSettings
from ..training.watchers import Best, Iterates
from .context import Context
from .results import Results, TrainedWeights
from .selection import describe_selection, right_when_unseen, selector
from .stage import Stage, Work
from .trainings import make_training, training_source


def stage_of(entry: MethodEntry) -> Stage:
    """Return the stage that trains a method of the catalogue."""
    own = entry.own_stage
    assert own is not None, "only single-stage methods have a stage with their name"
    return Stage(
        entry.name,
        partial(_train, entry.name, own),
        needs=("mine",),
        more_key=partial(_more_key, entry.name, own),
        cost=own.cost,
        copies=own.copies,
    )


def _train(name: str, own: OwnStage, context: Context, results: Results) -> Work:
    settings = cast(MethodSettings, context.recipe.table(name))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed("heads"))  # for layers that the method adds
        model = context.network(context.initial)
        method = context.place(own.build(model, ContextInputs(context), settings))
    best, iterates = selector(context, results), Iterates(settings.iterates)
    watchers: list[Watcher] = [best] if best else []
    watchers += [iterates] if settings.iterates else []
    source, order = _batches(context, name, own, settings)
    yield make_training(
        context, name, method, settings, source=source, order=order, watchers=watchers, begins=True
    )
    weights = best.weights if best else masks.plain_state(cast(nn.Module, method.model))
    selection = {"selection": _selection(context, results, best, settings.steps)}
    return TrainedWeights(weights, iterates.state(), selection, right_when_unseen(best))


def _selection(context: Context, results: Results, best: Best | None, steps: int) -> dict[str, Any]:
    """Return which step's weights are the result; without suspects it is always the last one."""
    if "mine" in results:
        return describe_selection(context, results, best, steps)
    return {"rule": "last", "step": steps, "reason": "asked for"}


def _batches(
    context: Context, name: str, own: OwnStage, settings: MethodSettings
) -> tuple[Source | None, sampling.Order | None]:
    """Return data with bias labels if the method uses them, and an order that balances groups if needed."""
    if not own.loss.uses_bias_labels:
        return None, None
    seed, train = context.seed(name), context.splits.train
    source = training_source(context, seed, bias=context.bias())
    if not own.balance_groups:
        return source, None
    sizes = ContextInputs(context).group_counts[train.targets, context.bias()]
    odds = torch.where(context.kept_out, 0.0, 1 / sizes.double()).to(context.device)
    return source, sampling.Weighted(odds, batch=settings.batch, seed=seed)


def _more_key(name: str, own: OwnStage, context: Context, mined: bool) -> dict[str, Any]:
    """Add the head, further networks and bias labels to the key, if the method uses them."""
    more: dict[str, Any] = {"head": context.head} if own.uses_head else {}
    if mined:
        more["select"] = context.recipe.select.model_dump(mode="json")
    for purpose, settings in own.extra_networks(context.recipe.table(name)).items():
        extra = network_builder(context, settings)
        more[purpose] = extra.source
        if settings.init:
            start = extra.build(context.seed(purpose)).state_dict()
            more[f"{purpose}_initial"] = digest(" ".join(start), *start.values())
    if own.loss.uses_bias_labels:
        more["bias"] = digest("", context.bias())
    return more


def network_builder(context: Context, settings: NetworkSettings) -> Builder:
    """Return the builder of a network other than the main one."""
    classes = len(context.splits.classes)
    return builder(settings.name, classes, settings.options, init=settings.init)


@dataclass(frozen=True)
class ContextInputs:
    """The inputs of a method, from the context of a run."""

    context: Context

    @property
    def targets(self) -> Tensor:
        return self.context.splits.train.targets

    @property
    def example(self) -> Tensor:
        return self.context.probe

    @property
    def head(self) -> str:
        return self.context.head

    @property
    def group_counts(self) -> Tensor:
        bias, used = self.context.bias(), ~self.context.kept_out
        return metrics.group_counts(
            self.targets[used],
            bias[used],
            classes=len(self.context.splits.classes),
            biases=int(bias.max()) + 1,
        )

    def seed(self, purpose: str) -> int:
        return self.context.seed(purpose)

    def another_network(self, purpose: str) -> nn.Module:
        return self.context.network(seed=purpose)

    def extra_network(self, settings: NetworkSettings, purpose: str) -> nn.Module:
        return network_builder(self.context, settings).build(self.context.seed(purpose))

"""Scores: the only reader of the test split and of bias labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..data.batches import Source
from ..data.splits import Splits
from ..store import Artifact
from ..training import metrics
from ..training.loop import predict, under
from ..training.numerics import matmul_precision
from . import mining
from .context import VERSIONS, Context, Made, Result, last_stage, weights_of
from .mining import Suspects


def evaluate(context: Context, made: Made) -> Artifact:
    """Score what a plan made, on the test split (or, without one, on validation data)."""
    ingredients = {
        "stage": "evaluate",
        "version": VERSIONS.get("evaluate", 1),
        "parents": {name: artifact.path.name for name, artifact in made.items()},
        "truth": context.splits.truth_digest,
        "device": context.device.type,
    }
    return context.store.make(ingredients, lambda workspace: _evaluate(context, made))


def _evaluate(context: Context, made: Made) -> Result:
    scorer, last = Scorer(context), last_stage(made)
    assert last is not None, "every plan ends in a network"
    networks = networks_of(made)
    masked = networks["pruned"]
    predicted = {
        name: scorer.predicted(weights_of(made, stage), scorer.source, scorer.among)
        for name, stage in networks.items()
        if stage is not None
    }
    scored = {
        name: scorer.score(predicted[name]).as_json() if name in predicted else None
        for name in networks
    }
    unpruned = {"overall": 1.0, "reachable": 1.0, "macs": 1.0, "layers": {}}
    ended = {"rule": "last", "reason": "the ordinary model is the result"}
    return {**scorer.truth(), **{f"predicted.{name}": t for name, t in predicted.items()}}, {
        "evaluated_on": scorer.name,
        **scored,
        "mining": _mining_facts(context, made) if "mine" in made else None,
        "unseen": _unseen_facts(scorer, made) if "mine" in made else None,
        "density": made[masked].facts if masked else unpruned,
        "selection": made[last].facts.get("selection", ended),
        **{name: facts for name, facts in made[last].facts.items() if name == "refit"},
        "iterates": _iterates(scorer, under(made[last].tensors, "iterate.")),
    }


def networks_of(made: Made) -> dict[str, str | None]:
    """The stages that made the networks people compare: ordinary, pruned, debiased (None: there is none)."""
    return {
        "ordinary": "pretrain" if "pretrain" in made else None,
        "pruned": next((stage for stage in ("control", "prune") if stage in made), None),
        "debiased": last_stage(made),
    }


def _iterates(scorer: Scorer, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """The scores of the iterates that were kept, by step."""
    steps = sorted({int(name.partition(".")[0]) for name in weights})
    return {str(step): scorer(under(weights, f"{step}.")).as_json() for step in steps}


class Scorer:
    """Scores weights on the data that evaluation reads: the best kept apart from training there is."""

    def __init__(self, context: Context):
        self.context = context
        self.split = evaluation_split(context.splits)
        self.among: Tensor | None = None
        self.name = self.split
        if self.split == "train" and bool(context.held_out.any()):
            self.among, self.name = context.held_out, "the training samples kept out of training"
        self.source = context.source(context.splits.parts()[self.split])

    def __call__(self, weights: Mapping[str, Tensor]) -> metrics.Accuracy:
        return self.score(self.predicted(weights, self.source, self.among))

    def score(self, predicted: Tensor) -> metrics.Accuracy:
        """Every accuracy of the predictions for the samples that are scored."""
        return score_predictions(predicted, self.context.splits, self.split, among=self.among)

    def truth(self) -> dict[str, Tensor]:
        """What is known of the samples that are scored: targets, and bias and conflict where told."""
        splits, conflict = self.context.splits, self.context.splits.conflicting(self.split)
        known = {"targets": splits.parts()[self.split].targets}
        known |= {"bias": splits.bias[self.split]} if self.split in splits.bias else {}
        known |= {"conflict": conflict} if conflict is not None else {}
        return {name: t if self.among is None else t[self.among] for name, t in known.items()}

    def predicted(
        self, weights: Mapping[str, Tensor], source: Source, among: Tensor | None = None
    ) -> Tensor:
        model = self.context.place(self.context.outcome(weights)).eval()
        with matmul_precision(self.context.recipe.precision):
            return predict(model, source.plain(among=among)).argmax(1)


def evaluation_split(splits: Splits) -> str:
    """The test split; without one, validation; without that, the training split."""
    return next(name for name in ("test", "valid", "train") if name in splits.parts())


def score_predictions(
    predicted: Tensor, splits: Splits, name: str, *, among: Tensor | None = None
) -> metrics.Accuracy:
    """Every accuracy of predictions for one split, or for the samples of it that they are for."""
    chosen = torch.ones(len(predicted), dtype=torch.bool) if among is None else among
    known: dict[str, Any] = {}
    if name in splits.bias:
        known = {"bias": splits.bias[name][chosen], "train_counts": _train_counts(splits)}
    conflict = splits.conflicting(name)
    return metrics.scores(
        predicted,
        splits.parts()[name].targets[chosen],
        classes=len(splits.classes),
        conflict=None if conflict is None else conflict[chosen],
        **known,
    )


def _train_counts(splits: Splits) -> Tensor | None:
    if "train" not in splits.bias:
        return None
    biases = 1 + max(int(labels.max()) for labels in splits.bias.values())
    return metrics.group_counts(
        splits.train.targets, splits.bias["train"], classes=len(splits.classes), biases=biases
    )


def _mining_facts(context: Context, made: Made) -> dict[str, Any]:
    suspects = Suspects.of(made["mine"].tensors, "train")
    conflicting = context.splits.conflicting("train")
    quality: dict[str, float | None] = {"precision": None, "recall": None}
    if conflicting is not None:
        quality = metrics.mining_quality(suspects.conflict, conflicting)
    # The oracle has no opinion on classes, so there is nothing to compare a second one with.
    known = context.recipe.mine.how == "oracle"
    verdict = mining.verdict(suspects, opinion=None if known else _second_opinion(context, made))
    flagged = int(suspects.conflict.sum())
    return {**quality, "flagged": flagged, "verdict": verdict.code, "text": verdict.text}


def _unseen_facts(scorer: Scorer, made: Made) -> dict[str, Any] | None:
    """Accuracy on samples outside training, the miner's suspects apart from the rest.

    No label of the bias goes into it; these samples chose the iterate, so it is a little too good.
    """
    context = scorer.context
    if context.unseen is None:
        return None
    split, among = context.unseen
    source = context.resident(split)
    suspects = Suspects.of(made["mine"].tensors, split).conflict[among]
    parts = {"all": torch.ones_like(suspects), "suspects": suspects, "others": ~suspects}
    facts: dict[str, Any] = {
        "split": "validation" if split == "valid" else "training samples kept out of training",
        "counts": {name: int(part.sum()) for name, part in parts.items()},
    }
    for name, stage in (("ordinary", "pretrain"), ("debiased", last_stage(made))):
        if stage in made:
            predicted = scorer.predicted(weights_of(made, stage), source, among)
            right = (predicted == source.targets.cpu()[among]).double()
            facts[name] = {
                part: float(right[where].mean()) if bool(where.any()) else None
                for part, where in parts.items()
            }
    return facts


def _second_opinion(context: Context, made: Made) -> Tensor | None:
    """For unseen suspects: does the ordinary model see what the miner saw?"""
    if context.unseen is None or "pretrain" not in made:
        return None
    split, among = context.unseen
    suspects = Suspects.of(made["mine"].tensors, split)
    chosen = suspects.conflict & among
    if not bool(chosen.any()):
        return None
    predicted = Scorer(context).predicted(made["pretrain"].tensors, context.resident(split))
    return (predicted == suspects.predicted)[chosen]

"""Evaluate: compute the scores. Only it reads the test split and, apart from a few methods, bias labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..data.batches import Source
from ..data.splits import Splits
from ..store import Artifact
from ..training import metrics
from ..training.numerics import matmul_precision
from ..training.prediction import predict, under
from .context import Context
from .measured_gain import gain_facts
from .results import Results, Scores, store_result
from .suspects import class_counts, verdict

VERSION = 2  # increase it if the same networks would give other scores


def evaluate(context: Context, results: Results) -> Artifact:
    """Score the networks of a run on the test split or, without one, on validation data."""
    ingredients = score_ingredients(
        context, {name: artifact.path.name for name, artifact in results.items()}
    )
    return store_result(context.store, ingredients, lambda: _evaluate(context, results))


def score_ingredients(context: Context, parents: Mapping[str, str]) -> dict[str, Any]:
    """Return what the scores depend on; `parents` are the names of the artifacts of a run's stages."""
    return {
        "stage": "evaluate",
        "version": VERSION,
        "parents": dict(parents),
        "truth": context.splits.truth_digest,
        "device": context.device.type,
    }


def _evaluate(context: Context, results: Results) -> Scores:
    scorer, networks = Scorer(context), results.networks()
    predicted = {
        name: scorer.predicted(results.weights(stage), scorer.source, scorer.among)
        for name, stage in networks.items()
        if stage is not None
    }
    accuracies = {
        name: scorer.score(predicted[name]).as_json() if name in predicted else None
        for name in networks
    }
    numbers = {
        **_gain(scorer, results),
        "evaluated_on": scorer.name,
        **accuracies,
        "mining": _mining_facts(context, results) if "mine" in results else None,
        "unseen": _unseen_facts(scorer, results) if "mine" in results else None,
        **_network_facts(scorer, results),
    }
    return Scores(scorer.truth(), predicted, numbers)


def _gain(scorer: Scorer, results: Results) -> dict[str, Any]:
    """Return the gain of debiasing on suspects that neither network was trained on, if it can be measured."""
    gain = gain_facts(scorer.context, results, partial(scorer.right, results))
    return {"gain": gain} if gain else {}


def _network_facts(scorer: Scorer, results: Results) -> dict[str, Any]:
    """Return the share of weights kept, how the step was selected, and the scores of stored steps."""
    whole = {"overall": 1.0, "reachable": 1.0, "macs": 1.0, "layers": {}}
    assert results.last_network is not None, "every plan ends in a network"
    last = results[results.last_network]
    ordinary = {"rule": "last", "reason": "the ordinary model is the result"}
    return {
        "density": results[results.pruned].facts if results.pruned else whole,
        "selection": last.facts.get("selection", ordinary),
        **{name: facts for name, facts in last.facts.items() if name == "refit"},
        "iterates": _iterates(scorer, under(last.tensors, "iterate.")),
    }


def _iterates(scorer: Scorer, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the scores of the stored steps."""
    steps = sorted({int(name.partition(".")[0]) for name in weights})
    return {str(step): scorer(under(weights, f"{step}.")).as_json() for step in steps}


class Scorer:
    """Scores weights on the split for evaluation: test, validation, or held-out training samples."""

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
        """Return every accuracy of predictions for the evaluated samples."""
        return score_predictions(predicted, self.context.splits, self.split, among=self.among)

    def truth(self) -> dict[str, Tensor]:
        """Return the targets of the evaluated samples, and bias and conflict if they are known."""
        splits, conflict = self.context.splits, self.context.splits.conflicting(self.split)
        known = {"targets": splits.parts()[self.split].targets}
        known |= {"bias": splits.bias[self.split]} if self.split in splits.bias else {}
        known |= {"conflict": conflict} if conflict is not None else {}
        return {name: t if self.among is None else t[self.among] for name, t in known.items()}

    def predicted(
        self, weights: Mapping[str, Tensor], source: Source, among: Tensor | None = None
    ) -> Tensor:
        """Return the predicted classes of a network with these weights."""
        model = self.context.place(self.context.final_network(weights)).eval()
        with matmul_precision(self.context.recipe.precision):
            return predict(lambda x: model(x).argmax(1), source.plain(among=among)).long()

    def right(self, results: Results, stage: str, split: str, among: Tensor) -> Tensor:
        """Return which samples of a split the network of a stage predicts correctly."""
        source = self.context.source(self.context.splits.parts()[split])
        return self.predicted(results.weights(stage), source, among) == source.targets.cpu()[among]


def evaluation_split(splits: Splits) -> str:
    """Return "test" if there is a test split, otherwise "valid", otherwise "train"."""
    return next(name for name in ("test", "valid", "train") if name in splits.parts())


def score_predictions(
    predicted: Tensor, splits: Splits, name: str, *, among: Tensor | None = None
) -> metrics.Accuracy:
    """Return every accuracy of predictions for one split, or for its samples in `among`."""
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
    """Return the sizes of the (target, bias) groups of the training split, if known."""
    if "train" not in splits.bias:
        return None
    biases = 1 + max(int(labels.max()) for labels in splits.bias.values())
    return metrics.group_counts(
        splits.train.targets, splits.bias["train"], classes=len(splits.classes), biases=biases
    )


def _mining_facts(context: Context, results: Results) -> dict[str, Any]:
    """Return the quality of the suspects and the verdict on them."""
    suspects = results.suspects()
    conflicting = context.splits.conflicting("train")
    quality: dict[str, float | None] = {"precision": None, "recall": None}
    if conflicting is not None:
        quality = metrics.mining_quality(suspects.conflict, conflicting)
    # The oracle predicts no classes, so there is nothing to compare the ordinary model with.
    known = context.recipe.mine.how == "oracle"
    judgement = verdict(
        suspects,
        by_class=class_counts(suspects, context.splits.train.targets.cpu(), context.splits.classes),
        opinion=None if known else _second_opinion(context, results),
    )
    flagged = int(suspects.conflict.sum())
    return {**quality, "flagged": flagged, "verdict": judgement.code, "text": judgement.text}


def _unseen_facts(scorer: Scorer, results: Results) -> dict[str, Any] | None:
    """Return accuracies on samples outside of training, for suspects and for other samples.

    They need no bias labels. They are slightly too high, as these samples also select the step.
    """
    context = scorer.context
    if context.unseen is None or context.trains_on(context.unseen[0]):
        return None
    split, among = context.unseen
    suspects = results.suspects(split).conflict[among]
    parts = {"all": torch.ones_like(suspects), "suspects": suspects, "others": ~suspects}
    facts: dict[str, Any] = {
        "split": "validation" if split == "valid" else "training samples kept out of training",
        "counts": {name: int(part.sum()) for name, part in parts.items()},
    }
    for name, stage in (("ordinary", "pretrain"), ("debiased", results.last_network)):
        if stage is not None and stage in results:
            facts[name] = _unseen_accuracy(scorer, results.weights(stage), parts)
    return facts


def _unseen_accuracy(
    scorer: Scorer, weights: Mapping[str, Tensor], parts: Mapping[str, Tensor]
) -> dict[str, float | None]:
    """Return the accuracy on parts of the unseen samples; None for an empty part."""
    assert scorer.context.unseen is not None
    split, among = scorer.context.unseen
    source = scorer.context.resident(split)
    right = (scorer.predicted(weights, source, among) == source.targets.cpu()[among]).double()
    return {
        name: float(right[part].mean()) if bool(part.any()) else None
        for name, part in parts.items()
    }


def _second_opinion(context: Context, results: Results) -> Tensor | None:
    """Return for each unseen suspect whether the ordinary model predicts the same class as the miner."""
    if context.unseen is None or "pretrain" not in results:
        return None
    split, among = context.unseen
    suspects = results.suspects(split)
    chosen = suspects.conflict & among
    if not bool(chosen.any()):
        return None
    weights, source = results.weights("pretrain"), context.resident(split)
    return Scorer(context).predicted(weights, source, chosen) == suspects.predicted[chosen]

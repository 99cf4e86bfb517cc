"""Scores: the only reader of the test split and of bias labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from . import metrics, mining
from .data.source import Resident
from .data.splits import Splits
from .lab import VERSIONS, Lab, Made, Result
from .mining import Suspects
from .runtime import matmul_precision
from .store import Artifact
from .train import predict, under


def evaluate(lab: Lab, made: Made) -> Artifact:
    """Score what a plan made, on the test split (or, without one, on validation data)."""
    ingredients = {
        "stage": "evaluate",
        "version": VERSIONS["evaluate"],
        "parents": {name: artifact.path.name for name, artifact in made.items()},
        "truth": lab.splits.truth_digest,
        "device": lab.device.type,
    }
    return lab.store.make(ingredients, lambda workspace: _evaluate(lab, made))


def _evaluate(lab: Lab, made: Made) -> Result:
    scorer = Scorer(lab)
    ordinary = scorer(made["pretrain"].tensors)
    facts: dict[str, Any] = {
        "evaluated_on": scorer.name,
        "ordinary": ordinary.as_json(),
        "pruned": None,
        "debiased": ordinary.as_json(),
        "mining": None,
        "density": {"overall": 1.0, "reachable": 1.0, "layers": {}},
        "selection": {"rule": "last", "reason": "the ordinary model is the result"},
        "iterates": {},
    }
    if "mine" in made:
        facts["mining"] = _mining_facts(lab, made)
    if "finetune" in made:
        pruned, tuned = made["prune"], made["finetune"]
        facts["pruned"] = scorer(under(pruned.tensors, "weights.")).as_json()
        facts["debiased"] = scorer(under(tuned.tensors, "weights.")).as_json()
        facts["density"] = pruned.facts
        facts["selection"] = tuned.facts["selection"]
        iterates = under(tuned.tensors, "iterate.")
        for step in sorted({int(name.partition(".")[0]) for name in iterates}):
            facts["iterates"][str(step)] = scorer(under(iterates, f"{step}.")).as_json()
    return {}, facts


class Scorer:
    """Scores weights on the data that evaluation reads: the best kept apart from training there is."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.split = evaluation_split(lab.splits)
        self.among: Tensor | None = None
        self.name = self.split
        if self.split == "train" and bool(lab.kept_out.any()):
            self.among, self.name = lab.kept_out, "the training samples kept out of training"
        self.source = lab.source(lab.splits.parts()[self.split])

    def __call__(self, weights: Mapping[str, Tensor]) -> metrics.Accuracy:
        predicted = self.predicted(weights, self.source)
        return score_predictions(predicted, self.lab.splits, self.split, among=self.among)

    def predicted(self, weights: Mapping[str, Tensor], source: Resident) -> Tensor:
        model = self.lab.place(self.lab.network(weights)).eval()
        with matmul_precision(self.lab.recipe.precision):
            return predict(model, source.plain()).argmax(1)


def evaluation_split(splits: Splits) -> str:
    """The test split; without one, validation; without that, the training split."""
    return next(name for name in ("test", "valid", "train") if name in splits.parts())


def score_predictions(
    predicted: Tensor, splits: Splits, name: str, *, among: Tensor | None = None
) -> metrics.Accuracy:
    """Every accuracy of predictions for one split (or for some samples of it)."""
    chosen = torch.ones(len(predicted), dtype=torch.bool) if among is None else among
    known: dict[str, Any] = {}
    if name in splits.bias:
        known = {"bias": splits.bias[name][chosen], "train_counts": _train_counts(splits)}
    conflict = splits.conflicting(name)
    return metrics.scores(
        predicted[chosen],
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


def _mining_facts(lab: Lab, made: Made) -> dict[str, Any]:
    suspects = Suspects.of(made["mine"].tensors, "train")
    conflicting = lab.splits.conflicting("train")
    quality: dict[str, float | None] = {"precision": None, "recall": None}
    if conflicting is not None:
        quality = metrics.mining_quality(suspects.conflict, conflicting)
    # The oracle has no opinion on classes, so there is nothing to compare a second one with.
    known = lab.recipe.mine.how == "oracle"
    verdict = mining.verdict(suspects, opinion=None if known else _second_opinion(lab, made))
    flagged = int(suspects.conflict.sum())
    return {**quality, "flagged": flagged, "verdict": verdict.code, "text": verdict.text}


def _second_opinion(lab: Lab, made: Made) -> Tensor | None:
    """For unseen suspects: does the ordinary model see what the miner saw?"""
    if lab.unseen is None:
        return None
    split, among = lab.unseen
    suspects = Suspects.of(made["mine"].tensors, split)
    chosen = suspects.conflict & among
    if not bool(chosen.any()):
        return None
    predicted = Scorer(lab).predicted(made["pretrain"].tensors, lab.resident(split))
    return (predicted == suspects.predicted)[chosen]

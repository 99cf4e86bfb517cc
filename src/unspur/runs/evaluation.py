"""Score the models of a run on labelled images: overall, by class and by group, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from ..data.batches import CHUNK
from ..data.custom.labelled import LabelledImages
from ..data.splits import Part
from ..errors import DataError, UsageError
from ..training.prediction import predict
from .classifier import Classifier
from .intervals import METRICS, Interval, Intervals, bootstrap, wilson

Kind = Literal["overall", "class", "group"]


@dataclass(frozen=True)
class AccuracyShare:
    """The accuracy of a model on some images, and its 95 % interval; `note` names the worst group."""

    value: float
    interval: Interval
    note: str = ""


@dataclass(frozen=True)
class EvaluationRow:
    """One row of the table: a score, a class or a group, its number of images, the accuracy of each model."""

    kind: Kind
    name: str
    images: int
    accuracy: Mapping[str, AccuracyShare]
    gain: tuple[float, Interval] | None = None  # gain of the debiased over the ordinary model


@dataclass(frozen=True)
class Evaluation:
    """The scores of models on labelled images; `predicted` has class indices in the order of the images.

    `training_images` is how many of the images are known to be training images of the run.
    """

    data: str
    split: str
    images: int
    models: tuple[str, ...]
    rows: tuple[EvaluationRow, ...]
    predicted: Mapping[str, Tensor] = field(repr=False, default_factory=dict)
    training_images: int = 0

    @property
    def doubt(self) -> str:
        """A warning if images were used for training; otherwise ""."""
        if not self.training_images:
            return ""
        return (
            f"{self.training_images:,} of the {self.images:,} images are training images of this run, so the "
            "scores say little about new images. Score images that the run has not seen."
        )

    def row(self, name: str, kind: Kind = "overall") -> EvaluationRow:
        """Return a row by its name, as in `row("worst group")` or `row("cat", "class")`."""
        rows = {row.name: row for row in self.rows if row.kind == kind}
        if name not in rows:
            raise UsageError(
                f"the evaluation has no row {name!r} of kind {kind!r}; it has {', '.join(rows) or 'none'}."
            )
        return rows[name]


def score_models(
    models: Mapping[str, Classifier],
    images: LabelledImages,
    device: torch.device,
) -> Evaluation:
    """Score models by name; the gain of the model "debiased" over the model "ordinary" is added."""
    for model in models.values():
        _check_fit(model, images)
    first = next(iter(models.values()))
    images = images.matched(first.classes)
    predicted = {name: predict_part(each, images.part, device) for name, each in models.items()}
    rows = (
        *_overall(images, predicted),
        *_by_class(images, predicted),
        *_by_group(images, predicted),
    )
    return Evaluation(
        images.name, images.split, len(images.part), tuple(models), rows, dict(predicted)
    )


def _check_fit(model: Classifier, images: LabelledImages) -> None:
    if model.shape != images.part.shape:
        raise DataError(
            f"the model takes {model.shape} images of {len(model.classes)} classes, and {images.name} has "
            f"{images.part.shape} images of {len(images.classes)} classes."
        )


def predict_part(model: Classifier, part: Part, device: torch.device) -> Tensor:
    """Return the predicted class of every image."""
    model = model.to(device).eval()
    index = torch.split(torch.arange(len(part)), CHUNK)
    return predict(model, (part.take(some).to(device) for some in index)).argmax(1)


def _overall(images: LabelledImages, predicted: Mapping[str, Tensor]) -> list[EvaluationRow]:
    intervals = bootstrap(_tensors(images, predicted))
    counts = _counts(images)
    values = {name: _accuracies(images, each) for name, each in predicted.items()}
    rows = []
    for metric in METRICS:
        if metric not in counts:
            continue
        accuracy = {
            name: AccuracyShare(each[metric][0], intervals.accuracy[name][metric], each[metric][1])
            for name, each in values.items()
        }
        if metric == "worst_group":  # a bootstrap interval has no width if all of a group are wrong
            accuracy = {name: _worst(images, predicted[name], s) for name, s in accuracy.items()}
        gain = _gain(metric, accuracy, intervals)
        rows.append(
            EvaluationRow("overall", metric.replace("_", " "), counts[metric], accuracy, gain)
        )
    return rows


def _gain(
    metric: str, accuracy: Mapping[str, AccuracyShare], intervals: Intervals
) -> tuple[float, Interval] | None:
    if metric not in intervals.gain:
        return None
    return accuracy["debiased"].value - accuracy["ordinary"].value, intervals.gain[metric]


def _tensors(images: LabelledImages, predicted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    known = {"targets": images.part.targets, "bias": images.groups, "conflict": images.conflict}
    found = {name: tensor for name, tensor in known.items() if tensor is not None}
    return found | {f"predicted.{name}": tensor for name, tensor in predicted.items()}


def _counts(images: LabelledImages) -> dict[str, int]:
    """Return the number of images behind each accuracy that can be computed."""
    count = len(images.part)
    found = {"average": count}
    if images.groups is not None:
        found |= {"unbiased": count, "worst_group": count}
    if images.conflict is not None:
        conflicting = int(images.conflict.sum())
        found |= {"aligned": count - conflicting, "conflicting": conflicting}
    return {metric: number for metric, number in found.items() if number}


def _accuracies(images: LabelledImages, predicted: Tensor) -> dict[str, tuple[float, str]]:
    """Return the accuracies of a model, each with a note: the name of the worst group, or ''."""
    right = predicted == images.part.targets
    found = {"average": (_share(right), "")}
    if images.groups is not None:
        shares = {name: _share(right[among]) for name, among in _groups(images).items()}
        worst = min(shares, key=shares.__getitem__)
        found["unbiased"] = (sum(shares.values()) / len(shares), "")
        found["worst_group"] = (shares[worst], worst)
    if images.conflict is not None:
        for name, among in (("aligned", ~images.conflict), ("conflicting", images.conflict)):
            if bool(among.any()):
                found[name] = (_share(right[among]), "")
    return found


def _worst(images: LabelledImages, predicted: Tensor, share: AccuracyShare) -> AccuracyShare:
    """Return the accuracy of a model's worst group with a Wilson interval."""
    among = _groups(images)[share.note]
    hits = int((predicted == images.part.targets)[among].sum())
    return replace(share, interval=wilson(hits, int(among.sum())))


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def _groups(images: LabelledImages) -> dict[str, Tensor]:
    """Return which images are in each group, by the names of its class and its bias label."""
    assert images.groups is not None
    found: dict[str, Tensor] = {}
    for label, name in enumerate(images.classes):
        for group in range(int(images.groups.max()) + 1):
            among = (images.part.targets == label) & (images.groups == group)
            if bool(among.any()):
                names = images.group_names
                found[f"{name}, {names[group] if group < len(names) else group}"] = among
    return found


def _by_class(images: LabelledImages, predicted: Mapping[str, Tensor]) -> list[EvaluationRow]:
    among = {name: images.part.targets == i for i, name in enumerate(images.classes)}
    return [_row("class", name, some, images, predicted) for name, some in among.items()]


def _by_group(images: LabelledImages, predicted: Mapping[str, Tensor]) -> list[EvaluationRow]:
    if images.groups is None:
        return []
    groups = _groups(images).items()
    return [_row("group", name, some, images, predicted) for name, some in groups]


def _row(
    kind: Kind, name: str, among: Tensor, images: LabelledImages, predicted: Mapping[str, Tensor]
) -> EvaluationRow:
    count, accuracy = int(among.sum()), {}
    for model, each in predicted.items():
        hits = int((each == images.part.targets)[among].sum())
        share = hits / count if count else float("nan")
        accuracy[model] = AccuracyShare(share, wilson(hits, count))
    return EvaluationRow(kind, name, count, accuracy)

"""Classify the images of every change with all models, and compare the predictions image by image."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor, nn

from ..data.batches import CHUNK
from ..errors import DataError, ModelError
from ..training.prediction import predict
from .findings import ChangeEffect, ClassEffect, Flip, ModelEffect, Probe, rank
from .image_changes import Change, check_style
from .paired import LEVEL, Interval, PairedShare, compare
from .trials import Trial, make_trial

FLIPS = 12  # largest number of pictures of each change
FEWEST = 20  # smallest number of images


@dataclass(frozen=True, eq=False)
class ProbedImages:
    """The images of a probe; `labels` are indices into `classes`, or None if they are unknown.

    `doubt` is a sentence if the models were trained on the images.
    """

    images: Tensor
    labels: Tensor | None
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None
    title: str = "images"
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class Answers:
    """The predictions of a model for the unchanged images, and for the three sets of a trial."""

    plain: Tensor
    changed: Tensor
    treated: Tensor
    control: Tensor


def measure(
    models: Mapping[str, nn.Module],
    probed: ProbedImages,
    changes: Sequence[Change],
    device: torch.device,
    *,
    seed: int = 0,
    left_out: Sequence[str] = (),
    follow: Callable[[str], None] = lambda name: None,
) -> Probe:
    """Measure the effect of each change on each model; donors depend on the predictions of the first model.

    `follow` is called with the title of each change before it is measured.
    """
    if len(probed.images) < FEWEST:
        raise DataError(
            f"{probed.title} has {len(probed.images)} images; a probe needs at least {FEWEST}. Give more."
        )
    check_style(changes, probed.classes)
    classify = {
        name: _classifier(model, device, len(probed.classes)) for name, model in models.items()
    }
    plain = {name: each(probed.images) for name, each in classify.items()}
    first, comparisons = next(iter(plain)), len(changes) * len(models)
    labels = plain[first] if probed.labels is None else probed.labels
    found = []
    for change in changes:
        follow(change.title)
        trial = make_trial(change, probed.images, plain[first], probed.classes, seed=seed)
        answers = {name: _answers(classify[name], plain[name], trial) for name in models}
        found.append(_effect(trial, probed, labels, answers, comparisons))
    return Probe(
        probed.title,
        len(probed.images),
        probed.classes,
        tuple(models),
        tuple(rank(found)),
        probed.labels is not None,
        comparisons,
        tuple(left_out),
        probed.doubt,
    )


def _classifier(model: nn.Module, device: torch.device, classes: int) -> Callable[[Tensor], Tensor]:
    """Return a function from images to predicted classes."""
    model = model.to(device).eval()

    def classify(images: Tensor) -> Tensor:
        logits = predict(model, (some.to(device) for some in torch.split(images, CHUNK)))
        if logits.ndim != 2 or logits.shape[1] != classes:
            raise ModelError(
                f"the model's outputs have the shape {tuple(logits.shape)}; they should be one logit for "
                f"each of {classes} classes. Give the names of all classes, or another model."
            )
        return logits.argmax(1)

    return classify


def _answers(classify: Callable[[Tensor], Tensor], plain: Tensor, trial: Trial) -> Answers:
    changed = classify(trial.changed)
    treated = changed if trial.treated is trial.changed else classify(trial.treated)
    return Answers(plain, changed, treated, classify(trial.control))


def _effect(
    trial: Trial,
    probed: ProbedImages,
    labels: Tensor,
    answers: Mapping[str, Answers],
    comparisons: int,
) -> ChangeEffect:
    models = {
        name: _on_model(trial, probed.classes, labels, each, comparisons)
        for name, each in answers.items()
    }
    return ChangeEffect(
        trial.change.name,
        trial.change.title,
        trial.doubt,
        trial.treated is trial.changed,
        models,
        _gap(trial, list(answers.values()), comparisons),
        _flips(trial, probed, labels, next(iter(answers.values()))),
    )


def _on_model(
    trial: Trial, classes: Sequence[str], labels: Tensor, answers: Answers, comparisons: int
) -> ModelEffect:
    right = compare(answers.plain == labels, answers.changed == labels)
    pull, towards = _pull(trial, answers, len(classes), comparisons)
    present = sorted({*labels.tolist()})
    by_class = tuple(_on_class(label, labels, answers, classes) for label in present)
    flipped = int((answers.plain != answers.changed).sum())
    name = "" if towards is None else classes[towards]
    return ModelEffect(right, pull, name, by_class, flipped)


def _pull(
    trial: Trial, answers: Answers, classes: int, comparisons: int
) -> tuple[PairedShare, int | None]:
    """Return how many more treated than control images are classified as the class of the cue.

    If the cue does not come from a class, use the class that gains most images, and correct for that choice.
    """
    treated, control = answers.treated[trial.usable], answers.control[trial.usable]
    if trial.towards is not None:
        aim = trial.towards[trial.usable]
        pull = compare(control == aim, treated == aim, comparisons=comparisons, one_sided=True)
        return pull, None
    counts = [torch.bincount(each, minlength=classes) for each in (treated, control)]
    best = int((counts[0] - counts[1]).argmax())
    tests = comparisons * classes
    return compare(control == best, treated == best, comparisons=tests, one_sided=True), best


def _on_class(label: int, labels: Tensor, answers: Answers, classes: Sequence[str]) -> ClassEffect:
    members = labels == label
    right = compare(answers.plain[members] == label, answers.changed[members] == label)
    recognised = members & (answers.plain == label)
    left = answers.changed[recognised & (answers.changed != label)]
    counts = torch.bincount(left, minlength=len(classes))
    taken = int(counts.max())
    taken_for = classes[int(counts.argmax())] if taken else ""
    return ClassEffect(classes[label], right, int(recognised.sum()), taken, taken_for)


def _gap(
    trial: Trial, answers: Sequence[Answers], comparisons: int
) -> tuple[float, Interval] | None:
    """Return the effect on the first model minus that on the last, with its interval.

    The interval is Wald's with an image won and an image lost added, as in `paired.interval`: without them it
    has no width if all of a few images agree.
    """
    if len(answers) < 2 or trial.towards is None or not bool(trial.usable.any()):
        return None
    aim, usable = trial.towards[trial.usable], trial.usable
    first, last = (
        (each.treated[usable] == aim).double() - (each.control[usable] == aim).double()
        for each in (answers[0], answers[-1])
    )
    difference = first - last
    more = torch.cat([difference, torch.tensor([1.0, -1.0], dtype=difference.dtype)])
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / comparisons / 2)
    spread, middle = z * float(more.std(correction=0)) / math.sqrt(len(more)), float(more.mean())
    return float(difference.mean()), (max(-2.0, middle - spread), min(2.0, middle + spread))


def _flips(
    trial: Trial, probed: ProbedImages, labels: Tensor, answers: Answers
) -> tuple[Flip, ...]:
    """Return images that are classified correctly only before the change, the most common mistakes first."""
    flipped = (answers.plain == labels) & (answers.changed != labels)
    index = flipped.nonzero().squeeze(1)
    pair = labels[index] * len(probed.classes) + answers.changed[index]
    counts = torch.bincount(pair, minlength=1)[pair] if len(pair) else pair
    order = torch.sort(counts, descending=True, stable=True).indices[:FLIPS]
    return tuple(_flip(i, trial, probed, answers, labels) for i in index[order].tolist())


def _flip(i: int, trial: Trial, probed: ProbedImages, answers: Answers, labels: Tensor) -> Flip:
    classes = probed.classes
    return Flip(
        probed.names[i] if probed.names else f"image {i}",
        classes[int(labels[i])],
        classes[int(answers.plain[i])],
        classes[int(answers.changed[i])],
        probed.images[i],
        trial.changed[i],
    )

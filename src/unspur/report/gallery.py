"""The strongest suspects of each class beside typical members of it, and where the networks look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .pictures import SMALL, overlay, uri
from .words import group_name

Sample = Mapping[str, Any]
Marks = Callable[[Sample], Sequence[str]]  # what a sample can be filtered by

# Filters that every gallery has, and those where somebody knows the truth.
FILTERS = {"all": "everything here", "flagged": "flagged"}
TRUTH = {"contradicts": "truly contradicting", "follows": "not contradicting"}


@dataclass(frozen=True)
class Card:
    """One picture with what is known of the sample."""

    picture: str
    name: str
    label: str
    predicted: str
    score: float
    flagged: bool
    bias: str
    says: dict[str, str]
    marks: tuple[str, ...] = ()


@dataclass
class Shelf:
    """A class: how many of it are suspects, the strongest of them, and typical members."""

    label: str
    samples: int
    flagged: int
    suspects: list[Card] = field(default_factory=list)
    typical: list[Card] = field(default_factory=list)


@dataclass(frozen=True)
class Look:
    """A suspect, and what each network's decision depends on in it."""

    card: Card
    heats: dict[str, str]


def shelves(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], marks: Marks) -> list[Shelf]:
    """Return the gallery by class, in the order of the classes; only those that have something to show."""
    by_label = {
        label: Shelf(facts["classes"][label], count["samples"], count["flagged"])
        for label, count in enumerate(facts["counts"])
    }
    for sample, picture in zip(facts["gallery"], tensors["gallery.images"], strict=True):
        shelf = by_label[sample["label"]]
        side = shelf.suspects if sample["role"] == "suspect" else shelf.typical
        side.append(card(sample, picture, facts, (*known(sample), *marks(sample))))
    return [shelf for shelf in by_label.values() if shelf.suspects or shelf.typical]


def known(sample: Sample) -> list[str]:
    """Return the marks of a sample that every gallery has."""
    truth = {True: ["contradicts"], False: ["follows"]}.get(sample["conflicting"], [])
    return [*(["flagged"] if sample["flagged"] else []), *truth]


def filters(shelves: Sequence[Shelf], more: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of a gallery: the common ones, `more`, and the truth where it is known."""
    marks = {mark for shelf in shelves for each in shelf.suspects for mark in each.marks}
    return {**FILTERS, **more, **(TRUTH if marks & TRUTH.keys() else {})}


def tiny(images: Tensor) -> bool:
    """Return whether pictures are so small that their pixels should be seen."""
    return max(images.shape[-2:]) <= SMALL


def looks(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[Look]:
    """Return suspects with the heat map of each network over them."""
    result = []
    for place, sample in enumerate(facts["looks"]):
        picture = tensors["looks.images"][place]
        heats = {
            name: uri(overlay(picture, tensors[f"looks.{name}"][place]))
            for name in ("ordinary", "debiased")
            if f"looks.{name}" in tensors
        }
        result.append(Look(card(sample, picture, facts), heats))
    return result


def card(
    sample: Sample, picture: Tensor, facts: Mapping[str, Any], marks: tuple[str, ...] = ()
) -> Card:
    """Return a sample with its picture, classes by name."""
    classes: Sequence[str] = facts["classes"]
    return Card(
        picture=uri(picture),
        name=sample["name"],
        label=classes[sample["label"]],
        predicted=classes[sample["predicted"]],
        score=sample["score"],
        flagged=sample["flagged"],
        bias=_bias(sample["bias"], facts["bias_classes"]),
        says={name: classes[label] for name, label in sample["says"].items()},
        marks=marks,
    )


def _bias(number: int | None, names: Sequence[str]) -> str:
    if number is None:
        return ""
    return group_name(number, names)

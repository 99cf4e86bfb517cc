"""The gallery: the strongest suspects of each class beside typical images, and where the networks look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .pictures import SMALL, overlay, uri
from .words import group_name

Sample = Mapping[str, Any]
Marks = Callable[[Sample], Sequence[str]]  # returns the filters that a sample matches

# Filters that every gallery has, and those of data with bias labels.
FILTERS = {"all": "all pictures", "flagged": "flagged"}
TRUTH = {"contradicts": "truly conflicting", "follows": "truly aligned"}


@dataclass(frozen=True)
class Card:
    """One picture with the facts about its sample."""

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
    """A class: how many images it has, how many are flagged, its strongest suspects, typical images."""

    label: str
    samples: int
    flagged: int
    suspects: list[Card] = field(default_factory=list)
    typical: list[Card] = field(default_factory=list)


@dataclass(frozen=True)
class Look:
    """A suspect, and for each network the pixels that its prediction depends on."""

    card: Card
    heats: dict[str, str]


def shelves(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], marks: Marks) -> list[Shelf]:
    """Return the gallery by class, in the order of the classes, without empty ones."""
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
    """Return which of the filters of every gallery a sample matches."""
    truth = {True: ["contradicts"], False: ["follows"]}.get(sample["conflicting"], [])
    return [*(["flagged"] if sample["flagged"] else []), *truth]


def filters(shelves: Sequence[Shelf], more: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of a gallery: the common ones, `more`, and those by bias label if there are any."""
    marks = {mark for shelf in shelves for each in shelf.suspects for mark in each.marks}
    return {**FILTERS, **more, **(TRUTH if marks & TRUTH.keys() else {})}


def tiny(images: Tensor) -> bool:
    """Return whether pictures are so small that they are enlarged without smoothing."""
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
    """Return a sample with its picture and the names of its classes."""
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

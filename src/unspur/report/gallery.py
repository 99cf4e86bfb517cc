"""The strongest suspects of each class beside typical members of it, and where the networks look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .pictures import overlaid, uri


@dataclass(frozen=True)
class Card:
    """One picture with what is known of the sample."""

    picture: str
    name: str
    label: str
    predicted: str
    score: float
    flagged: bool
    conflicting: bool | None
    bias: str
    says: dict[str, str]


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


def shelves(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[Shelf]:
    """The gallery by class, in the order of the classes; only those that have something to show."""
    found = {
        label: Shelf(facts["classes"][label], count["samples"], count["flagged"])
        for label, count in enumerate(facts["counts"])
    }
    for sample, picture in zip(facts["gallery"], tensors["gallery.images"], strict=True):
        shelf = found[sample["label"]]
        side = shelf.suspects if sample["role"] == "suspect" else shelf.typical
        side.append(_card(sample, picture, facts))
    return [shelf for shelf in found.values() if shelf.suspects or shelf.typical]


def looks(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[Look]:
    """Suspects with the heat of each network laid over them."""
    found = []
    for place, sample in enumerate(facts["looks"]):
        picture = tensors["looks.images"][place]
        heats = {
            name: uri(overlaid(picture, tensors[f"looks.{name}"][place]))
            for name in ("ordinary", "debiased")
            if f"looks.{name}" in tensors
        }
        found.append(Look(_card(sample, picture, facts), heats))
    return found


def _card(sample: Mapping[str, Any], picture: Tensor, facts: Mapping[str, Any]) -> Card:
    classes: Sequence[str] = facts["classes"]
    return Card(
        picture=uri(picture),
        name=sample["name"],
        label=classes[sample["label"]],
        predicted=classes[sample["predicted"]],
        score=sample["score"],
        flagged=sample["flagged"],
        conflicting=sample["conflicting"],
        bias=_bias(sample["bias"], facts["bias_classes"]),
        says={name: classes[label] for name, label in sample["says"].items()},
    )


def _bias(number: int | None, names: Sequence[str]) -> str:
    if number is None:
        return ""
    return names[number] if number < len(names) else str(number)

"""The results of stages as typed records, and the artifacts of a run by stage.

A record converts to tensors and facts, which the store holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from ..store import Artifact, Store, Workspace
from ..training.prediction import under
from .suspects import Suspects

Tensors = dict[str, Tensor]
Facts = dict[str, Any]


class StageResult(Protocol):
    """A result that can be stored."""

    def tensors(self) -> Tensors: ...
    def facts(self) -> Facts: ...


@dataclass(frozen=True, eq=False)
class MinedSuspects:
    """The suspects of the training split and, if there is one, of the validation split."""

    splits: Mapping[str, Suspects]

    def tensors(self) -> Tensors:
        parts = (suspects.tensors(name) for name, suspects in self.splits.items())
        return {key: tensor for part in parts for key, tensor in part.items()}

    def facts(self) -> Facts:
        return {"flagged": int(self.splits["train"].conflict.sum())}

    @staticmethod
    def of(artifact: Artifact) -> MinedSuspects:
        names = dict.fromkeys(name.partition(".")[0] for name in artifact.tensors)
        return MinedSuspects({name: Suspects.of(artifact.tensors, name) for name in names})


@dataclass(frozen=True, eq=False)
class OrdinaryWeights:
    """The state dict of the ordinary model."""

    weights: Mapping[str, Tensor]

    def tensors(self) -> Tensors:
        return dict(self.weights)

    def facts(self) -> Facts:
        return {}


@dataclass(frozen=True, eq=False)
class TrainedWeights:
    """A trained network, the weights of the steps that a recipe lists, and facts such as the selected step.

    `right` is for the samples used for selection: whether each one is predicted correctly by a step that was
    selected without it.
    """

    weights: Mapping[str, Tensor]
    iterates: Mapping[str, Tensor] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    right: Tensor | None = None

    def tensors(self) -> Tensors:
        return {
            **{f"weights.{name}": t for name, t in self.weights.items()},
            **{f"iterate.{name}": t for name, t in self.iterates.items()},
            **({} if self.right is None else {"right": self.right}),
        }

    def facts(self) -> Facts:
        return dict(self.notes)


@dataclass(frozen=True, eq=False)
class PrunedWeights:
    """Masks, the masked network, the logits of the masks, and the share of weights kept."""

    keep: Mapping[str, Tensor]
    weights: Mapping[str, Tensor]
    density: Mapping[str, Any]
    logits: Mapping[str, Tensor] = field(default_factory=dict)

    def tensors(self) -> Tensors:
        return {
            **{f"logits.{name}": t for name, t in self.logits.items()},
            **{f"keep.{name}": t for name, t in self.keep.items()},
            **{f"weights.{name}": t for name, t in self.weights.items()},
        }

    def facts(self) -> Facts:
        return dict(self.density)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores, and the labels and predictions that they were computed from."""

    truth: Mapping[str, Tensor]
    predicted: Mapping[str, Tensor]
    numbers: Mapping[str, Any]

    def tensors(self) -> Tensors:
        predicted = {f"predicted.{name}": t for name, t in self.predicted.items()}
        return {**self.truth, **predicted}

    def facts(self) -> Facts:
        return dict(self.numbers)


@dataclass(frozen=True, eq=False)
class ComparedGain:
    """The gain of the debiased over the ordinary model on samples that neither was trained on."""

    gain: Mapping[str, Any]

    def tensors(self) -> Tensors:
        return {}

    def facts(self) -> Facts:
        return {"gain": dict(self.gain)}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Tensors that a page shows, and facts about them; `|` joins two sets of pictures."""

    images: Mapping[str, Tensor] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __or__(self, other: Pictures) -> Pictures:
        return Pictures({**self.images, **other.images}, {**self.notes, **other.notes})

    def tensors(self) -> Tensors:
        return dict(self.images)

    def facts(self) -> Facts:
        return dict(self.notes)


class Results(dict[str, Artifact]):
    """The artifacts of the finished stages of a run, by stage."""

    def suspects(self, split: str = "train") -> Suspects:
        """Return the suspects of a split."""
        return Suspects.of(self["mine"].tensors, split)

    def weights(self, stage: str) -> Tensors:
        """Return the weights that a stage returned."""
        tensors = self[stage].tensors
        return dict(tensors) if stage == "pretrain" else under(tensors, "weights.")

    @property
    def last_network(self) -> str | None:
        """The last finished stage with a network, or None."""
        return next((stage for stage in reversed(self) if stage != "mine"), None)

    @property
    def pruned(self) -> str | None:
        """The stage whose masks are used, or None if nothing was pruned."""
        return next((stage for stage in ("control", "prune") if stage in self), None)

    @property
    def masks(self) -> Tensors:
        """The masks that are used; empty if nothing was pruned."""
        return under(self[self.pruned].tensors, "keep.") if self.pruned else {}

    @property
    def final_weights(self) -> Tensors:
        """The weights of the final network."""
        assert self.last_network is not None, "every plan ends in a network"
        return self.weights(self.last_network)

    def networks(self) -> dict[str, str | None]:
        """Return the stages of the ordinary, pruned and debiased network, or None for a missing one."""
        return {
            "ordinary": "pretrain" if "pretrain" in self else None,
            "pruned": self.pruned,
            "debiased": self.last_network,
        }


def store_result(
    store: Store, ingredients: Mapping[str, Any], work: Callable[[], StageResult]
) -> Artifact:
    """Return the artifact of a result that needs no training; compute and store it if necessary."""

    def compute(workspace: Workspace) -> tuple[Tensors, Facts]:
        result = work()
        return result.tensors(), result.facts()

    return store.make(ingredients, compute)

"""The result of a probe: the effect of every change on every model, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from .paired import Interval, PairedShare

MARGIN = 0.1  # smaller effects are not claimed, as natural images have many weak cues


@dataclass(frozen=True)
class ClassEffect:
    """The effect on the images of a class, and the class that the change moves most of them to."""

    name: str
    right: PairedShare  # the share that is classified correctly, before and after
    recognised: int  # images of the class that are classified correctly before the change
    taken: int  # of these, images that are classified as `taken_for` after the change
    taken_for: str = ""


@dataclass(frozen=True)
class ModelEffect:
    """The effect of a change on one model.

    `right` compares the accuracy before and after the change. `pull` is the effect: the share of treated
    images that are classified as the class of the cue, minus that of the control images.
    """

    right: PairedShare
    pull: PairedShare
    towards: str  # the class that gains most images, if the cue does not come from a class
    classes: tuple[ClassEffect, ...]
    flipped: int  # images whose prediction the change changes, right or wrong

    @property
    def is_claimed(self) -> bool:
        """Return whether the model relies on the cue: the corrected interval lies above the margin."""
        return self.pull.interval[0] > MARGIN


@dataclass(frozen=True, eq=False)
class Flip:
    """An image whose prediction changes: both pictures, and both predictions."""

    name: str
    label: str
    before: str
    after: str
    picture: Tensor = field(repr=False)
    changed: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class ChangeEffect:
    """The effect of a change on all models; `gap` is the effect on the first minus that on the last."""

    name: str
    title: str
    doubt: str  # why nothing can be claimed; "" if there is no reason
    is_added: bool  # whether the change adds something to images instead of hiding it
    models: Mapping[str, ModelEffect]
    gap: tuple[float, Interval] | None
    flips: tuple[Flip, ...] = ()

    @property
    def first(self) -> ModelEffect:
        return next(iter(self.models.values()))

    @property
    def is_claimed(self) -> bool:
        """Return whether the first model relies on the cue; never if there is a doubt."""
        return not self.doubt and self.first.is_claimed


@dataclass(frozen=True, eq=False)
class Probe:
    """The effects of changes on the same images, the largest first.

    `doubt` is a sentence if the models were trained on the images.
    """

    data: str
    images: int
    classes: tuple[str, ...]
    models: tuple[str, ...]
    changes: tuple[ChangeEffect, ...]
    labelled: bool
    comparisons: int
    left_out: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def claims(self) -> list[ChangeEffect]:
        """Return the changes of cues that the first model relies on."""
        return [change for change in self.changes if change.is_claimed]

    def change(self, name: str) -> ChangeEffect:
        """Return the effect of the change with this name."""
        return next(change for change in self.changes if change.name == name)


def rank(effects: Sequence[ChangeEffect]) -> list[ChangeEffect]:
    """Sort changes by their effect on the first model; those in doubt or without a usable image come last."""

    def place(each: ChangeEffect) -> tuple[bool, bool, float]:
        pull = each.first.pull
        return pull.count == 0, bool(each.doubt), -pull.difference

    return sorted(effects, key=place)

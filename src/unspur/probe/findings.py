"""The result of a probe: the effect of every change on every model, ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from .paired import Interval, PairedShare

MARGIN = 0.1  # effects up to this are not claimed: natural images have many weak cues


@dataclass(frozen=True)
class ClassEffect:
    """The effect on the images of a class, and the class that most of them are taken for by the change."""

    name: str
    right: PairedShare  # the share that is classified rightly, before and after
    recognised: int  # images of the class that are classified rightly as they are
    taken: int  # of these, images that are taken for `taken_for` after the change
    taken_for: str = ""


@dataclass(frozen=True)
class ModelEffect:
    """The effect of a change on one model.

    `right` compares images as they are with the change that was asked for. `pull` is the effect: the share
    of treated images that is taken for the class of the cue, less that of the control images.
    """

    right: PairedShare
    pull: PairedShare
    towards: str  # the class with the largest gain, where the change has no class of its own
    classes: tuple[ClassEffect, ...]

    @property
    def is_claimed(self) -> bool:
        """Whether the model goes by the cue, more than by the margin, at the corrected level."""
        return self.pull.interval[0] > MARGIN


@dataclass(frozen=True, eq=False)
class Flip:
    """An image that is classified otherwise after a change: both pictures, and the answers to them."""

    name: str
    label: str
    before: str
    after: str
    picture: Tensor = field(repr=False)
    changed: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class ChangeEffect:
    """The effect of a change on all models; `gap` is that on the first less that on the last."""

    name: str
    title: str
    doubt: str  # why nothing can be claimed; "" if nothing stands against it
    is_added: bool  # whether something is added to images, not hidden in them
    models: Mapping[str, ModelEffect]
    gap: tuple[float, Interval] | None
    flips: tuple[Flip, ...] = ()

    @property
    def first(self) -> ModelEffect:
        return next(iter(self.models.values()))

    @property
    def is_claimed(self) -> bool:
        """Whether the first model goes by the cue; never in doubt."""
        return not self.doubt and self.first.is_claimed


@dataclass(frozen=True, eq=False)
class Probe:
    """The effects of changes on the same images, the largest first."""

    data: str
    images: int
    classes: tuple[str, ...]
    models: tuple[str, ...]
    changes: tuple[ChangeEffect, ...]
    labelled: bool
    comparisons: int
    left_out: tuple[str, ...] = ()

    @property
    def claims(self) -> list[ChangeEffect]:
        """Return the changes whose cue the first model goes by."""
        return [change for change in self.changes if change.is_claimed]

    def change(self, name: str) -> ChangeEffect:
        """Return the effect of a change by its name."""
        return next(change for change in self.changes if change.name == name)


def rank(effects: Sequence[ChangeEffect]) -> list[ChangeEffect]:
    """Sort changes by their effect on the first model; those that nothing can be claimed of go last."""
    return sorted(effects, key=lambda each: (bool(each.doubt), -each.first.pull.difference))

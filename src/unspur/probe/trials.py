"""A change with its fair control, as images to score.

Any change can lower the accuracy of any model, and hiding detail lowers that of all. So an effect is measured
between two changes that damage an image alike and differ in what the cue says of the class:

    a cue      the cue of an image of another class      against that of an image of its own class
    a style    the style of images of one class          against that of images of its own class
    a patch    the patch                                 against a grey one in its place
    function   the changed image                         against the user's control, if there is one

The effect is the share of images that are taken for the class of the cue, in the first less in the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .cues import Style
from .donors import Donors, choose_donors
from .found_cues import Background, Text
from .image_changes import Change, FunctionChange, StyleOf
from .patches import Patch

NO_CONTROL = (
    "There is no control, and any change can lower the accuracy of a model. Give a control that damages "
    "images alike."
)
UNSURE = (
    "What is exchanged was found by a segmentation, which errs and may take a part of the object along. Look "
    "at the pictures."
)


@dataclass(frozen=True, eq=False)
class Trial:
    """Images to score: as asked for (`changed`), and a treated set with its control.

    `towards` is the class that a treated image is pulled to; None where it is the one that gains most.
    `doubt` says why nothing can be claimed, if so: there is no fair control, or the cue may be found wrongly.
    """

    change: Change
    changed: Tensor
    treated: Tensor
    control: Tensor
    usable: Tensor
    towards: Tensor | None
    doubt: str = ""


def make_trial(
    change: Change, images: Tensor, predicted: Tensor, classes: Sequence[str], *, seed: int
) -> Trial:
    """Make the images of a change; `predicted` are the answers of the first model to `images`."""
    everything = torch.ones(len(images), dtype=torch.bool)
    if isinstance(change, Patch):
        pasted = change.paste(images)
        return Trial(change, pasted, pasted, change.paste_grey(images), everything, None)
    if isinstance(change, FunctionChange):
        changed, control = change.apply(images), change.apply_control(images)
        doubt = NO_CONTROL if control is None else ""
        control = images if control is None else control
        return Trial(change, changed, changed, control, everything, None, doubt)
    if isinstance(change, StyleOf):
        label = list(classes).index(change.label)
        donors = choose_donors(predicted, seed=seed, towards=label)
        treated, control = _exchanged(Style().exchange, images, donors)
        return Trial(change, treated, treated, control, donors.usable, donors.towards)
    donors = choose_donors(predicted, seed=seed)
    treated, control = _exchanged(change.exchange, images, donors)
    doubt = UNSURE if isinstance(change, Background | Text) else ""
    hidden = change.hide(images)
    return Trial(change, hidden, treated, control, donors.usable, donors.towards, doubt)


def _exchanged(exchange: object, images: Tensor, donors: Donors) -> tuple[Tensor, Tensor]:
    assert callable(exchange)
    return exchange(images, images[donors.other]), exchange(images, images[donors.own])

"""A change and its control, as sets of images to classify.

Any change can lower the accuracy of a model, even if the model does not rely on the cue. So an effect is
measured between two changes that damage an image equally, and differ only in the class of the cue:

    change      treated image                            control image
    a cue       with the cue of an image of another      with the cue of an image of its own class
                class
    a style     with the style of an image of the        with the style of an image of its own class
                chosen class
    a patch     with the patch                           with a grey patch in the same place
    a function  changed by the function                  changed by the user's control, if there is one

The effect is the share of treated images that are classified as the class of the cue, minus the same share of
control images.
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
    "Any change can lower the accuracy of a model, and there is no control to compare with. Give a control "
    "function that damages images equally."
)
UNSURE = (
    "The exchanged part was found by an automatic segmentation, which makes mistakes and may include a part "
    "of the object. Look at the pictures."
)


@dataclass(frozen=True, eq=False)
class Trial:
    """Images to classify: those of the change itself (`changed`), and a treated set with its control.

    `towards` is the class of the cue of each treated image; None if the cue does not come from a class.
    `doubt` is the reason why nothing can be claimed, if there is one: no control, or a cue that is located
    automatically.
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
    """Make the images of a change; `predicted` are the predictions of the first model for `images`."""
    all_usable = torch.ones(len(images), dtype=torch.bool)
    if isinstance(change, Patch):
        pasted = change.paste(images)
        return Trial(change, pasted, pasted, change.paste_grey(images), all_usable, None)
    if isinstance(change, FunctionChange):
        changed, control = change.apply(images), change.apply_control(images)
        doubt = NO_CONTROL if control is None else ""
        control = images if control is None else control
        return Trial(change, changed, changed, control, all_usable, None, doubt)
    if isinstance(change, StyleOf):
        label = list(classes).index(change.label)
        donors = choose_donors(predicted, seed=seed, towards=label)
        treated, control = _exchange(Style().exchange, images, donors)
        return Trial(change, treated, treated, control, donors.usable, donors.towards)
    donors = choose_donors(predicted, seed=seed)
    treated, control = _exchange(change.exchange, images, donors)
    doubt = UNSURE if isinstance(change, Background | Text) else ""
    hidden = change.hide(images)
    return Trial(change, hidden, treated, control, donors.usable, donors.towards, doubt)


def _exchange(exchange: object, images: Tensor, donors: Donors) -> tuple[Tensor, Tensor]:
    assert callable(exchange)
    return exchange(images, images[donors.other]), exchange(images, images[donors.own])

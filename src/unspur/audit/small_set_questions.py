"""The questions of the verdict that keep small sets, or few suspects, from a verdict that is too certain."""

from __future__ import annotations

from . import conclusions
from .evidence import Evidence
from .formatting import beside, percent, percent_beside
from .question_kinds import Question, has_insistence
from .shortcut_questions import SHOWING, ShowsBorder, ShowsGain
from .thresholds import THRESHOLDS, Thresholds

FEW_P_VALUE = 0.05  # largest p-value of a gain on fewer suspects that is worth a mention


class SmallSetQuestion(Question):
    """A question about a set with few images."""

    def is_asked(self, e: Evidence) -> bool:
        return super().is_asked(e) and e.samples < THRESHOLDS.few_images


class MayBeHard(SmallSetQuestion):
    """Keep hard images of a small set from being called a shortcut.

    A network learns little from so few images, and then hard images look like images that contradict a
    shortcut. With a shortcut, however, it learns that, and gets few images wrong.
    """

    name = "few images"
    asks = "Is there a sign of a shortcut that hard images may also give, because there are so few images?"
    yes = conclusions.TOO_FEW_IMAGES

    def is_known(self, limits: Thresholds) -> bool:
        return limits.few_images > 0

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return (
            e.samples < limits.few_images
            and e.error > limits.few_error
            and e.insistence < limits.few_insistence
            and any(question.holds(e, limits) for question in SHOWING)
            and not ShowsBorder().holds(e, limits)
        )

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        error = percent_beside(e.error, limits.few_error)
        sure = beside(e.insistence, limits.few_insistence)
        return f"{e.samples:,} images, {error} wrong, confident errors {sure}"

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"fewer than {limits.few_images:,} images, more than {percent(limits.few_error)} wrong, "
            f"confident errors below {limits.few_insistence:g}, and a yes to one of the next three questions"
        )


class HasTooFewForGain(Question):
    """Keep a large gain on few suspects from being called hard images, only because it is not significant.

    If there is no shortcut, this makes one verdict in twenty less certain; it never makes it a shortcut.
    """

    name = "few"
    asks = "Is a network better on the suspects, but are they too few to rule out chance?"
    yes = conclusions.TOO_FEW_FOR_GAIN

    def is_known(self, limits: Thresholds) -> bool:
        return limits.few_images > 0  # it is as old as the question about few images

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        if e.gain is None or e.suspects >= THRESHOLDS.few_suspects or not self.is_known(limits):
            return False
        gain = e.gain[1]
        return gain.value >= limits.gain and limits.p_value < gain.p_value <= FEW_P_VALUE

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        return f"{ShowsGain().measured(e, limits)}; {e.suspects:,} suspects" if e.networks else ""

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"fewer than {THRESHOLDS.few_suspects} suspects, a gain of at least {limits.gain:g}, p at most "
            f"{FEW_P_VALUE:g} but above {limits.p_value:g}"
        )


class IsTooSmall(SmallSetQuestion):
    """Keep few suspects in a small set from being called hard images, because a shortcut may be missed."""

    name = "few suspects"
    asks = "If the suspects look merely hard: are the images and suspects too few to rule out a shortcut?"
    yes = conclusions.MAY_BE_HARD

    def is_known(self, limits: Thresholds) -> bool:
        return limits.few_suspects > 0

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return (
            e.samples < limits.few_images
            and e.suspects < limits.few_suspects
            and not has_insistence(e, limits, limits.insistence)
        )

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        sure = beside(e.insistence, limits.insistence)
        return f"{e.samples:,} images, {e.suspects:,} suspects, confident errors {sure}"

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"fewer than {limits.few_images:,} images, fewer than {limits.few_suspects:,} suspects, "
            f"confident errors below {limits.insistence:g}"
        )

"""The rule of the verdict: one ordered list of questions.

Each question has its wording, what it measures, what it requires, and the conclusions that follow from yes
and no. The first question with a conclusion decides. Everything else about the rule is derived from this
list: the verdict and its text, the steps on the page, the table in the terminal, whether the miner alone
decides, and which views show the shortcut.
"""

from __future__ import annotations

import math

from . import conclusions
from .evidence import Evidence
from .formatting import beside, p_value, percent, percent_beside
from .miner_questions import HasEnoughSuspects, HasLearned, HasLikelyLabels, IsEasy
from .question_kinds import (
    Margin,
    NetworkQuestion,
    Question,
    TableRow,
    has_insistence,
    is_significant,
)
from .thresholds import THRESHOLDS, Thresholds

# With so many suspects, the smallest gain that counts is significant, unless many predictions change.
FEW_SUSPECTS = 100
FEW_P_VALUE = 0.05  # largest p-value of a gain on fewer suspects that is worth a mention


class ShowsGain(NetworkQuestion):
    name = "gain"
    asks = "Is a network clearly better on the suspects than its control network?"
    yes = conclusions.SHORTCUT_BY_GAIN
    null = (
        "If the suspects were only hard, or had wrong labels, no network would gain much on them."
    )

    def threshold(self, e: Evidence, limits: Thresholds) -> float:
        return limits.gain

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return f"a gain of at least {limits.gain:g}, p at most {limits.p_value:g}"


class ShowsReliance(NetworkQuestion):
    name = "reliance"
    chance = 0.5
    asks = "Does the class predicted for the suspects depend on something that a view hides?"
    yes = conclusions.SHORTCUT_BY_RELIANCE
    null = (
        "If the suspects were only hard, or had wrong labels, hiding something would lower the confidence in "
        "a suspect more than in an ordinary image in at most half of all pairs."
    )

    def threshold(self, e: Evidence, limits: Thresholds) -> float:
        return limits.reliance

    def counts(self, e: Evidence, limits: Thresholds) -> bool:
        return has_insistence(e, limits, limits.resting)

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        share = f"; confident errors {beside(e.insistence, limits.resting)} ({e.full:,} suspects)"
        return super().measured(e, limits) + (share if e.reliance else "")

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"reliance of at least {limits.reliance:g}, p at most {limits.p_value:g}, confident errors of at "
            f"least {limits.resting:g} ({limits.fewest_full} suspects or more)"
        )


class ShowsBorder(Question):
    name = "border"
    asks = "Does the border alone predict the class, and does the centre sometimes contradict it?"
    yes = conclusions.SHORTCUT_IN_BORDER

    def is_known(self, limits: Thresholds) -> bool:
        return math.isfinite(limits.border_error)

    def is_asked(self, e: Evidence) -> bool:
        return e.border is not None

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        seen = e.border
        if seen is None or seen.separation is None or seen.error > limits.border_error:
            return False
        many = seen.full >= limits.fewest_full and seen.insistence >= limits.border_insistence
        least = limits.border_separation(seen.insistence)
        return many and is_significant(seen.separation, least, limits)

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        seen = e.border
        if seen is None:
            return ""
        right = f"right on {percent(1 - seen.error)} from the border alone"
        if seen.separation is None:
            return right
        doubt = f"separation {seen.separation.value:.2f}, {p_value(seen.separation.p_value)}"
        return f"{right}; confident errors {seen.insistence:.2f} ({seen.full:,} suspects); {doubt}"

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"at least {percent(1 - limits.border_error)} right, confident errors of at least "
            f"{limits.border_insistence:g}, confident errors + separation of at least "
            f"{limits.border_together:g}, p at most {limits.p_value:g}"
        )

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        if not (seen := e.border) or seen.separation is None:
            return []
        enough, least = limits.border_insistence, limits.border_separation(seen.insistence)
        doubt = f"{beside(seen.separation.value, least)}, {p_value(seen.separation.p_value)}"
        return [
            ("confident errors, border alone", beside(seen.insistence, enough), f"{enough:.2f}"),
            ("separation, border alone", doubt, f"{least:.2f}"),
        ]


class MayBeHard(Question):
    """Keep hard images of a small set from being called a shortcut.

    A network learns little from so few images, and then hard images look like images that contradict a
    shortcut. With a shortcut, however, it learns that, and gets few images wrong.
    """

    name = "few images"
    asks = "Is there a sign of a shortcut that hard images may also give, because there are so few images?"
    yes = conclusions.TOO_FEW_IMAGES

    def is_known(self, limits: Thresholds) -> bool:
        return limits.few_images > 0

    def is_asked(self, e: Evidence) -> bool:
        return super().is_asked(e) and e.samples < THRESHOLDS.few_images

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
        if e.gain is None or e.suspects >= FEW_SUSPECTS or not self.is_known(limits):
            return False
        gain = e.gain[1]
        return gain.value >= limits.gain and limits.p_value < gain.p_value <= FEW_P_VALUE

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        return f"{ShowsGain().measured(e, limits)}; {e.suspects:,} suspects" if e.networks else ""

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"fewer than {FEW_SUSPECTS} suspects, a gain of at least {limits.gain:g}, p at most "
            f"{FEW_P_VALUE:g} but above {limits.p_value:g}"
        )


class HasInsistence(Question):
    name = "insistence"
    asks = "Is a network trained without the suspects fully confident of another class?"
    no = conclusions.MERELY_HARD

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return has_insistence(e, limits, limits.insistence)

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        value = beside(e.insistence, limits.insistence)
        return f"confident errors {value} ({e.full:,} suspects)" if e.networks else ""

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        if e.full < limits.fewest_full:
            return None
        return Margin("confident errors", e.insistence, limits.insistence)

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return f"confident errors of at least {limits.insistence:g} ({limits.fewest_full} suspects or more)"

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        value = beside(e.insistence, limits.insistence)
        return [("confident errors", value, f"{limits.insistence:.2f}")]


class ShowsSeparation(NetworkQuestion):
    name = "separation"
    chance = 0.5
    asks = "Does another network clearly doubt that class?"
    yes = conclusions.SHORTCUT_BY_SEPARATION
    null = (
        "If the labels of these suspects were wrong at random, other networks would doubt a suspect more "
        "than an ordinary image in half of all pairs."
    )

    def threshold(self, e: Evidence, limits: Thresholds) -> float:
        return limits.separation(e.insistence)

    def counts(self, e: Evidence, limits: Thresholds) -> bool:
        return has_insistence(e, limits, limits.doubted)

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return (
            f"confident errors + separation of at least {limits.together:g}, separation of at least "
            f"{limits.mixed:g}, p at most {limits.p_value:g}, confident errors of at least "
            f"{limits.doubted:g} ({limits.fewest_full} suspects or more)"
        )


class HasDoubt(Question):
    name = "doubt"
    asks = "Does another network doubt that class at all?"
    yes = conclusions.WEAK_DOUBT
    no = conclusions.WRONG_LABELS

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return e.separation is not None and e.separation[1].value >= limits.mixed

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        if e.separation is None:
            return ShowsSeparation().measured(e, limits)
        name, number = e.separation
        return (
            f"separation {beside(number.value, limits.mixed)} ({name}), {p_value(number.p_value)}"
        )

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        if e.separation is None:
            return None
        return Margin("separation", e.separation[1].value, limits.mixed, ShowsSeparation.chance)

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return f"separation of at least {limits.mixed:g}; below that the labels look wrong"


SHOWING = (ShowsGain(), ShowsReliance(), ShowsSeparation())
QUESTIONS: tuple[Question, ...] = (
    HasLearned(),
    HasLikelyLabels(),
    IsEasy(),
    HasEnoughSuspects(),
    MayBeHard(),
    *SHOWING,
    ShowsBorder(),
    HasTooFewForGain(),
    HasInsistence(),
    HasDoubt(),
)


def network_questions() -> tuple[NetworkQuestion, ...]:
    """Return the questions about numbers of single networks, in their order."""
    return SHOWING

"""The questions of the verdict whose answer yes shows a shortcut."""

from __future__ import annotations

import math

from . import conclusions
from .evidence import Evidence
from .formatting import beside, p_value, percent
from .question_kinds import NetworkQuestion, Question, TableRow, has_insistence, is_significant
from .thresholds import Thresholds


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


SHOWING = (ShowsGain(), ShowsReliance(), ShowsSeparation())

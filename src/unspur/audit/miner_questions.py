"""The questions of the verdict that the mistakes of the miner answer alone."""

from __future__ import annotations

import math

from . import conclusions
from .evidence import Evidence
from .formatting import percent, percent_beside
from .question_kinds import Margin, Question, TableRow
from .thresholds import THRESHOLDS, Thresholds


class HasLearned(Question):
    name = "learned"
    asks = "Did a network that learns easy features first learn anything?"
    no = conclusions.LEARNED_NOTHING
    miner_only = True

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return e.error <= limits.learned * e.blind

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        error = percent_beside(e.error, limits.learned * e.blind)
        return f"wrong on {error} of the images it was not trained on"

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        return Margin("error of the miner", e.error, limits.learned * e.blind, e.blind)

    def required(self, e: Evidence, limits: Thresholds) -> str:
        most = percent(limits.learned * e.blind)
        return f"at most {most}; always predicting the largest class gives {percent(e.blind)}"

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        limit = f"> {percent(limits.learned * e.blind)}: nothing learned"
        return [("error of the miner", percent_beside(e.error, limits.learned * e.blind), limit)]


class HasLikelyLabels(Question):
    name = "labels"
    asks = "If most images are hard: are the labels of the most confident mistakes likely classes?"
    no = conclusions.WRONG_LABELS_AMONG_HARD
    miner_only = True

    def is_known(self, limits: Thresholds) -> bool:
        return math.isfinite(limits.wrong_labels)

    def is_asked(self, e: Evidence) -> bool:
        return e.far_labels is not None and e.error > THRESHOLDS.error

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        far = e.far_labels
        return far is None or e.error <= limits.error or far.lower < limits.wrong_labels

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        far = e.far_labels
        return f"{far.far:,} of {far.mistakes:,} are unlikely classes" if far else ""

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return f"fewer unlikely classes than if {percent(limits.wrong_labels, 0)} of the labels were wrong"


class IsEasy(Question):
    name = "easy"
    asks = "Does an easy feature predict the class in nearly all images?"
    no = conclusions.NOTHING_EASY
    miner_only = True

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return e.error <= limits.error

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        right = percent_beside(1 - e.error, 1 - limits.error)
        return f"right on {right} of the images it was not trained on"

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        return Margin("error of the miner", e.error, limits.error)

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return f"at least {percent(1 - limits.error)}"

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        limit = f"> {percent(limits.error)}: nothing easy"
        return [("error of the miner", percent_beside(e.error, limits.error), limit)]


class HasEnoughSuspects(Question):
    name = "enough"
    asks = "Do enough images contradict it for a verdict?"
    no = conclusions.TOO_FEW_SUSPECTS
    miner_only = True

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        return e.suspects >= limits.fewest

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        return f"{e.suspects:,} suspects, the images it gets wrong"

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        return Margin("suspects", e.suspects, limits.fewest)

    def required(self, e: Evidence, limits: Thresholds) -> str:
        return f"at least {limits.fewest}"

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        limit = f"< {limits.fewest}: too few"
        return [("suspects: the miner's mistakes", f"{e.suspects:,}", limit)]

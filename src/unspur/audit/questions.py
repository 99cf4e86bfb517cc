"""The rule of the verdict: one ordered list of questions.

Each question has its wording, what it measures, what it requires, and the conclusions that follow from yes
and no. The first question with a conclusion decides. Everything else about the rule is derived from this
list: the verdict and its text, the steps on the page, the table in the terminal, whether the miner alone
decides, and which views show the shortcut.
"""

from __future__ import annotations

from . import conclusions
from .evidence import Evidence
from .formatting import beside, p_value
from .miner_questions import HasEnoughSuspects, HasLearned, HasLikelyLabels, IsEasy
from .question_kinds import Margin, NetworkQuestion, Question, TableRow, has_insistence
from .shortcut_questions import SHOWING, ShowsBorder, ShowsSeparation
from .small_set_questions import HasTooFewForGain, IsTooSmall, MayBeHard
from .thresholds import Thresholds


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


QUESTIONS: tuple[Question, ...] = (
    HasLearned(),
    HasLikelyLabels(),
    IsEasy(),
    HasEnoughSuspects(),
    MayBeHard(),
    *SHOWING,
    ShowsBorder(),
    HasTooFewForGain(),
    IsTooSmall(),
    HasInsistence(),
    HasDoubt(),
)


def network_questions() -> tuple[NetworkQuestion, ...]:
    """Return the questions about numbers of single networks, in their order."""
    return SHOWING

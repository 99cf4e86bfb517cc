"""Derive the verdict, the steps that lead to it, and its consequences from the answers to the questions."""

from __future__ import annotations

from dataclasses import dataclass

from . import audit_networks
from .conclusions import SHORTCUT_IN_BORDER, Conclusion, VerdictCode
from .evidence import Evidence
from .question_kinds import Answer, Margin, Question, TableRow, has_insistence
from .questions import QUESTIONS, network_questions
from .thresholds import THRESHOLDS, Thresholds


@dataclass(frozen=True)
class Finding:
    """A verdict: its code, its text, and the number that nearly led to another verdict, if there is one."""

    code: VerdictCode
    text: str
    close: str = ""

    @property
    def full_text(self) -> str:
        """Return the text of the verdict, which mentions a close call."""
        return with_close_call(self.text, self.close)


@dataclass(frozen=True)
class Step:
    """A question with its answer; the deciding step has a conclusion."""

    name: str
    question: str
    measured: str
    required: str
    answer: Answer
    conclusion: Conclusion | None


def with_close_call(text: str, close: str) -> str:
    """Return the text of a verdict with the number that nearly led to another, if there is one."""
    if not close:
        return text
    headline, colon, reason = text.partition(": ")
    return f"{headline}, a close call{colon}{reason} It is a close call: {close}."


def judge(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> Finding:
    """Return the verdict and its reason."""
    conclusion = conclude(e, thresholds=thresholds)
    close = close_call(e, thresholds=thresholds)
    return Finding(conclusion.verdict, conclusion.text(e), str(close) if close else "")


def conclude(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> Conclusion:
    """Return the conclusion of the first question that has one."""
    found = (question.conclusion(e, thresholds) for question in QUESTIONS)
    return next(conclusion for conclusion in found if conclusion)


def close_call(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> Margin | None:
    """Return the first number so close to its threshold that it nearly led to another verdict, if any."""
    actual = conclude(e, thresholds=thresholds)
    for place, question in enumerate(QUESTIONS):
        margin = question.margin(e, thresholds) if question.is_asked(e) else None
        if margin and margin.is_close:
            other = question.other_conclusion(e, thresholds) or _next(place, e, thresholds)
            if other is None or other.verdict != actual.verdict:
                return margin
        if question.conclusion(e, thresholds):
            break
    return None


def _next(place: int, e: Evidence, limits: Thresholds) -> Conclusion | None:
    """Return the conclusion of the questions after one; None if they were not asked."""
    for question in QUESTIONS[place + 1 :]:
        if not question.is_asked(e):
            return None
        if found := question.conclusion(e, limits):
            return found
    return None


def is_settled(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> bool:
    """Return whether the miner alone decides, so that no other network can change the verdict."""
    return any(q.conclusion(e, thresholds) for q in QUESTIONS if q.miner_only)


def is_open(e: Evidence, phase: int, *, thresholds: Thresholds = THRESHOLDS) -> bool:
    """Return whether the networks of a later phase can change the verdict.

    Networks of the third phase matter only if there are enough confident errors to measure reliance.
    """
    if is_settled(e, thresholds=thresholds):
        return False
    return phase == 2 or (
        conclude(e, thresholds=thresholds).verdict != "shortcut"
        and has_insistence(e, thresholds, thresholds.resting)
    )


def wants_border(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> bool:
    """Return whether networks that see only the border can change the verdict."""
    settled = is_settled(e, thresholds=thresholds)
    return not settled and conclude(e, thresholds=thresholds).verdict != "shortcut"


def rests_on_border(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> bool:
    """Return whether the verdict comes from networks that see only the border."""
    return conclude(e, thresholds=thresholds) is SHORTCUT_IN_BORDER


def steps(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> list[Step]:
    """Return all questions with their answers; only the first that decides has a conclusion.

    Questions that the version of the audit did not ask are left out.
    """
    decided, found = False, []
    for question in (each for each in QUESTIONS if each.is_known(thresholds)):
        step = _step(question, e, thresholds, decided=decided)
        decided = decided or step.conclusion is not None
        found.append(step)
    return found


def _step(question: Question, e: Evidence, limits: Thresholds, *, decided: bool) -> Step:
    return Step(
        question.name,
        question.asks,
        question.measured(e, limits),
        question.required(e, limits),
        question.answer(e, limits),
        None if decided else question.conclusion(e, limits),
    )


def table_rows(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> list[TableRow]:
    """Return every number that was measured, with its threshold."""
    return [row for q in QUESTIONS if q.is_asked(e) for row in q.rows(e, thresholds)]


def revealing_views(e: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> list[str]:
    """Return the views that show the shortcut, so that what they hide is part of it.

    Ordered by the question that they pass (gain, reliance, separation), then by p-value. Empty if the
    verdict is not a shortcut.
    """
    if conclude(e, thresholds=thresholds).verdict != "shortcut":
        return []
    passed: dict[str, tuple[int, float]] = {}
    for rank, question in enumerate(network_questions()):
        for name, number in question.shown_by(e, thresholds).items():
            passed.setdefault(name, (rank, number.p_value))
    views = [network.name for network in audit_networks.viewed() if network.name in passed]
    return sorted(views, key=lambda name: passed[name])

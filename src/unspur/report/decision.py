"""The rule behind the verdict of an audit, step by step: what was asked, measured, and where it turns.

The same rule as `judging.judge`, told so that a person can follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..audit.evidence import Evidence
from ..audit.thresholds import Thresholds
from ..audit.verdict import Code, insisted, passes
from .words import percent, signed, unbroken


@dataclass(frozen=True)
class Step:
    """A question, and what its answer leads to: a verdict, or the next question."""

    name: str
    question: str
    measured: str
    rule: str
    answer: Literal["yes", "no", "not asked"]
    verdict: Code | None = None


def steps(e: Evidence, limits: Thresholds) -> list[Step]:
    """All questions in their order; one of them, the deciding one, has the verdict."""
    found: list[Step] = []
    for ask in QUESTIONS:
        step = ask(e, limits)
        decided = any(earlier.verdict for earlier in found)
        found.append(replace(step, verdict=None) if decided else step)
    return found


def deciding(e: Evidence, limits: Thresholds) -> Step:
    """The step that the verdict comes from."""
    return next(step for step in steps(e, limits) if step.verdict)


def p_value(value: float) -> str:
    """A p-value, rounded."""
    return unbroken(f"p = {value:.1g}" if value > 0 else "p < 1e-300")


def relies(e: Evidence, limits: Thresholds) -> bool:
    """Whether the answer that suspects are given rests on what a view hides."""
    found = e.reliance
    return (
        found is not None
        and insisted(e, limits, limits.resting)
        and passes(found[1], limits.reliance, limits)
    )


def _learned(e: Evidence, limits: Thresholds) -> Step:
    most = limits.learned * e.blind
    missed = e.error > most
    return Step(
        "learned",
        "Did a network that learns what is easy learn anything?",
        f"wrong on {percent(e.error)} of the images it was not trained on",
        f"at most {percent(most)}; without looking it would be {percent(e.blind)}",
        "no" if missed else "yes",
        "unclear" if missed else None,
    )


def _easy(e: Evidence, limits: Thresholds) -> Step:
    missed = e.error > limits.error
    return Step(
        "easy",
        "Does something easy give the class away in nearly all images?",
        f"right on {percent(1 - e.error)} of the images it was not trained on",
        f"at least {percent(1 - limits.error)}",
        "no" if missed else "yes",
        "nothing" if missed else None,
    )


def _enough(e: Evidence, limits: Thresholds) -> Step:
    few = e.suspects < limits.fewest
    return Step(
        "enough",
        "Do enough images contradict it to judge by?",
        f"{e.suspects:,} suspects, the images it gets wrong",
        f"at least {limits.fewest}",
        "no" if few else "yes",
        "unclear" if few else None,
    )


def _gained(e: Evidence, limits: Thresholds) -> Step:
    asked = Step(
        "gain",
        "Does a network that should do worse on the suspects do better?",
        "",
        f"a gain of at least {limits.gain:g}, p at most {limits.p_value:g}",
        "not asked",
    )
    if e.gain is None:
        return asked
    name, gain = e.gain
    told = replace(asked, measured=f"gain {signed(gain.value)} ({name}), {p_value(gain.p_value)}")
    if passes(gain, limits.gain, limits):
        return replace(told, answer="yes", verdict="shortcut")
    return replace(told, answer="no")


def _reliant(e: Evidence, limits: Thresholds) -> Step:
    asked = Step(
        "reliance",
        "Does the class they are taken for rest on something that can be hidden?",
        "",
        f"reliance of at least {limits.reliance:g}, p at most {limits.p_value:g}, insistence of at least "
        f"{limits.resting:g} on at least {limits.fewest_full} suspects",
        "not asked",
    )
    if e.reliance is None:
        nothing = "nothing to compare" if e.networks else ""
        return replace(asked, measured=nothing, answer="no" if e.networks else "not asked")
    name, found = e.reliance
    measured = f"reliance {found.value:.2f} ({name}), {p_value(found.p_value)}"
    told = replace(asked, measured=f"{measured}; insistence {e.insistence:.2f}, on {e.full:,}")
    if relies(e, limits):
        return replace(told, answer="yes", verdict="shortcut")
    return replace(told, answer="no")


def _insisting(e: Evidence, limits: Thresholds) -> Step:
    asked = Step(
        "insistence",
        "Does a network that has not seen them insist on another class?",
        "",
        f"insistence of at least {limits.insistence:g}, on at least {limits.fewest_full} suspects",
        "not asked",
    )
    if not e.networks:
        return asked
    told = replace(asked, measured=f"insistence {e.insistence:.2f}, on {e.full:,} suspects")
    if insisted(e, limits, limits.insistence):
        return replace(told, answer="yes")
    return replace(told, answer="no", verdict="nothing")


def _separated(e: Evidence, limits: Thresholds) -> Step:
    asked = Step(
        "separation",
        "Does another network doubt that class?",
        "",
        f"separation of at least {limits.separation(e.insistence):.2f} with this insistence, p at most "
        f"{limits.p_value:g}; below {limits.mixed:g} the labels look wrong",
        "not asked",
    )
    if not e.networks:
        return asked
    if e.separation is None:
        return replace(asked, measured="nothing to compare them with", answer="no", verdict="noise")
    name, told = e.separation
    measured = f"separation {told.value:.2f} ({name}), {p_value(told.p_value)}"
    if passes(told, limits.separation(e.insistence), limits):
        return replace(asked, measured=measured, answer="yes", verdict="shortcut")
    verdict: Code = "unclear" if told.value >= limits.mixed else "noise"
    return replace(asked, measured=measured, answer="no", verdict=verdict)


QUESTIONS: tuple[Callable[[Evidence, Thresholds], Step], ...] = (
    _learned,
    _easy,
    _enough,
    _gained,
    _reliant,
    _insisting,
    _separated,
)

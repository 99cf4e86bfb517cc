"""Is there a shortcut? The verdict of an audit, from its numbers, and why, in words.

The numbers are those of evidence.py; thresholds.py says where they turn. Asked in this order: whether the
miner has found something easy, and enough suspects; whether gain, reliance or separation shows a shortcut;
whether the suspects are insisted on all the same, as wrong labels are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .evidence import Evidence, Shown
from .thresholds import THRESHOLDS, Thresholds
from .views import HIDDEN

Code = Literal["shortcut", "nothing", "noise", "unclear"]


@dataclass(frozen=True)
class Finding:
    """A verdict: its code, and in words."""

    code: Code
    text: str


def settled(mined: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> bool:
    """Whether the miner alone decides, so that no other network need be asked."""
    return mined.suspects < thresholds.fewest or mined.error > thresholds.error


def judge(evidence: Evidence, *, thresholds: Thresholds = THRESHOLDS) -> Finding:
    """The verdict, and why."""
    e, limits = evidence, thresholds
    found = (
        f"{e.suspects} of {e.samples} images ({e.error:.2%}) contradict what a network learns first"
    )
    if e.error > limits.learned * e.blind:
        return Finding(
            "unclear",
            f"Cannot tell: a network that learns what is easy gets {e.error:.0%} of unseen images wrong, "
            "about as many as without looking. Give it more steps, or another network.",
        )
    if e.error > limits.error:
        return Finding(
            "nothing",
            "No sign of a shortcut: nothing easy gives the class away. A network that looks for it gets "
            f"{e.error:.0%} of unseen images wrong.",
        )
    if e.suspects < limits.fewest:
        return Finding(
            "unclear",
            f"Cannot tell: {found}, too few to judge by. There is no shortcut, or one that all images "
            "follow; only images from elsewhere can show which.",
        )
    if text := _gained(e, limits) or _reliant(e, limits) or _separated(e, limits):
        return Finding("shortcut", f"A shortcut is likely: {found}. {text}")
    if insisted(e, limits, limits.insistence):
        return _insisted_alone(e, limits, found)
    return Finding(
        "nothing",
        f"No sign of a shortcut: {found}, but they are merely hard. A network that has not seen them fully "
        f"agrees on {e.full}, and seeing them more often does not help with others like them.",
    )


def _insisted_alone(e: Evidence, limits: Thresholds, found: str) -> Finding:
    """The verdict on suspects that a network insists on, where no other network makes much of them."""
    agreed = f"{found}. A network that has not seen them fully agrees on {e.full}"
    doubt = e.separation[1].value if e.separation else 0.5
    if doubt >= limits.mixed:
        return Finding(
            "unclear",
            f"Cannot tell: {agreed}; others doubt that answer, but not clearly (separation {doubt:.2f}, by "
            "chance 0.50). They may be hard, mislabelled, or exceptions to a weak shortcut: look at them.",
        )
    return Finding(
        "noise",
        f"The labels look noisy: {agreed}, and no other network sees what should be different about these "
        "images. If it is a shortcut all the same, it has too few exceptions to tell.",
    )


# What the networks have that their like has not.
SPOKEN = {
    "taught": "that is shown others like them more often",
    "grey": "that sees no colours",
    "centre": "that sees the centre alone",
    "detail": "that sees detail alone",
}
HINTS = {
    "grey": " Look at the colours first.",
    "centre": " Look around the centre first.",
    "detail": " Look at light, shade and the colour of large areas first.",
}


def _gained(e: Evidence, limits: Thresholds) -> str:
    """Why the suspects are exceptions to a shortcut, if a network that should be worse is better."""
    if e.gain is None:
        return ""
    name, gain = e.gain
    if not passes(gain, limits.gain, limits):
        return ""
    seen = e.networks[name]
    return (
        f"A network {SPOKEN[name]} gets {seen.right:.0%} of them right, another {seen.before:.0%} "
        f"(gain {gain.value:.2f}, p = {gain.p_value:.1g}).{HINTS.get(name, '')}"
    )


def _reliant(e: Evidence, limits: Thresholds) -> str:
    """Why they are, if the answer they are given rests on what a network does not see."""
    if e.reliance is None or not insisted(e, limits, limits.resting):
        return ""
    name, told = e.reliance
    if not passes(told, limits.reliance, limits):
        return ""
    return (
        f"A network that has not seen them fully agrees on {e.full}. Hiding {HIDDEN[name]} takes more of "
        f"that answer from them than from ordinary images (reliance {told.value:.2f}, by chance 0.50; "
        f"p = {told.p_value:.1g}).{HINTS[name]}"
    )


def _separated(e: Evidence, limits: Thresholds) -> str:
    """Why they are, if a network doubts what another insists on."""
    if e.separation is None or not insisted(e, limits, limits.insistence):
        return ""
    name, told = e.separation
    if not passes(told, limits.separation(e.insistence), limits):
        return ""
    return (
        f"A network that has not seen them fully agrees on {e.full}, one {SPOKEN[name]} doubts that answer "
        f"(separation {told.value:.2f}, by chance 0.50; p = {told.p_value:.1g}).{HINTS.get(name, '')}"
    )


def insisted(e: Evidence, limits: Thresholds, least: float) -> bool:
    """Whether suspects are insisted on, enough of them and a large enough share."""
    return e.full >= limits.fewest_full and e.insistence >= least


def passes(shown: Shown, turn: float, limits: Thresholds) -> bool:
    """Whether a number is large enough, and no chance."""
    return shown.value >= turn and shown.p_value <= limits.p_value

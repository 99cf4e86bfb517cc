"""Sentences of an audit page: what to do next, how certain the verdict is, what it cannot decide."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..audit import audit_networks
from ..audit.conclusions import Command, Conclusion
from ..audit.evidence import Evidence
from ..audit.formatting import percent, signed
from ..audit.question_kinds import NetworkQuestion
from ..audit.questions import network_questions
from ..audit.thresholds import Thresholds
from ..audit.verdict import rests_on_border, steps


@dataclass(frozen=True)
class Next:
    """What to do next, and the command for it."""

    text: str
    command: str


def next_step(conclusion: Conclusion, *, out: str, source: str = "", steps: int = 0) -> Next:
    """Return what to do next.

    `source` is the data argument of the command line, empty for an audit from Python. `steps` is the number
    of steps of the audit's trainings.
    """
    commands = _shell(out, source, 2 * steps) if source else _python(out, 2 * steps)
    return Next(conclusion.advice, commands[conclusion.command])


def _shell(out: str, source: str, steps: int) -> dict[Command, str]:
    paths = (source, out, f"{out}/suspects.csv", f"{out}/debiased")
    data, here, suspects, debiased = map(shlex.quote, paths)
    return {
        "debias": f"unspur debias {data} --suspects {suspects} --out {debiased}",
        "debias anyway": f"unspur debias {data} --suspects {suspects} --anyway --out {debiased}",
        "debias anyway without suspects": f"unspur debias {data} --anyway --out {debiased}",
        "again": f"unspur audit {data} --out {here}",
        "longer": f"unspur audit {data} --steps {steps} --out {here}",
    }


def _python(out: str, steps: int) -> dict[Command, str]:
    suspects, debiased = f"suspects={f'{out}/suspects.csv'!r}", f"out={f'{out}/debiased'!r}"
    longer = {"mine.steps": steps, "pretrain.steps": steps}
    return {
        "debias": f"unspur.debias(data, model=model, {suspects}, {debiased})",
        "debias anyway": f"unspur.debias(data, model=model, {suspects}, anyway=True, {debiased})",
        "debias anyway without suspects": f"unspur.debias(data, model=model, anyway=True, {debiased})",
        "again": f"unspur.audit(data, out={out!r})",
        "longer": f"unspur.audit(data, settings={longer!r}, out={out!r})",
    }


# -- how certain the verdict is -----------------------------------------------------------------------


def odds(p_value: float) -> str:
    """Return a p-value in words, to follow "this happens by chance"."""
    if p_value >= 0.05:
        return f"in {percent(p_value, 0)} of such data sets"
    if p_value < 1e-9:
        return "less than once in a billion such data sets"
    times = 1 / p_value
    digits = 10 ** (len(str(int(times))) - 1)
    return f"about once in {round(times / digits) * digits:,} such data sets"


def certainty(e: Evidence, limits: Thresholds) -> list[str]:
    """Say for each number that the verdict uses how likely it is by chance."""
    if rests_on_border(e, thresholds=limits):
        return _border_certainty(e)
    counted = [q for q in network_questions() if e.numbers(q.name) and q.counts(e, limits)]
    sentences = [f"{question.null} {_by_chance(question, e)}" for question in counted]
    if sentences:
        sentences.append(
            f"A verdict needs more than statistical significance (p at most {limits.p_value:g}): the number "
            "must also be large. Small but significant gains also occur in data without a shortcut."
        )
    return sentences


def _border_certainty(e: Evidence) -> list[str]:
    """Say how likely the separation of the networks that see only the border is by chance."""
    found = e.border.separation if e.border else None
    assert found is not None, "the verdict rests on it"
    return [
        "If the labels of these suspects were wrong at random, a network that sees only the centre would be "
        "less confident for a suspect than for an ordinary image in half of all pairs. Here this holds for "
        f"{percent(found.value, 0)} of all pairs. This happens by chance {odds(found.p_value)}."
    ]


def _by_chance(question: NetworkQuestion, e: Evidence) -> str:
    """Say how often the strongest number of a question would occur by chance."""
    best = getattr(e, question.name)
    assert best is not None, "the caller checks that there are such numbers"
    name, number = best
    if question.name != "gain":
        share = f"Here it is {percent(number.value, 0)} of all pairs (network {name})"
        return f"{share}. This happens by chance {odds(number.p_value)}."
    if number.value <= 0:
        return f"No network gains here (network {name}: {signed(number.value)})."
    return (
        f"Here the gain is {signed(number.value)} (network {name}). This happens by chance "
        f"{odds(number.p_value)}, corrected for the number of networks ({len(e.networks)})."
    )


# -- conflicting images, or wrong labels --------------------------------------------------------------


def conflicting_or_wrong_labels(e: Evidence, limits: Thresholds, classes: int) -> list[str]:
    """Say whether conflicting images can be distinguished from wrong labels here, and if not, why."""
    decision_steps = steps(e, thresholds=limits)
    deciding = next(step for step in decision_steps if step.conclusion)
    answers = {step.name: step.answer for step in decision_steps}
    verdict = deciding.conclusion.verdict if deciding.conclusion else None
    sentences = [
        _labels_by_miner(deciding.name, e) or _labels_by_networks(answers, e, limits, verdict)
    ]
    if verdict == "shortcut":
        sentences.append(
            "This holds for the suspects as a whole. A single suspect may still have a wrong label or be a "
            "hard image: look at the suspects before you use the flags."
        )
    if classes == 2 and e.networks:
        sentences.append(
            "With two classes, a wrong label and an error of the network look the same, so they are harder "
            "to distinguish than with more classes."
        )
    return sentences


def _labels_by_miner(deciding: str, e: Evidence) -> str:
    """Say what is known about the labels if the miner or the border decided the verdict; otherwise "".

    `deciding` is the name of the question that gave the verdict.
    """
    if deciding in ("learned", "easy"):
        return (
            f"Not here. The miner gets {percent(e.error)} of the images wrong, so wrong labels cannot be "
            "distinguished from hard images. This audit gives no information about the labels."
        )
    if deciding == "labels":
        return (
            "Not for single images, because most images are hard. For all images together, yes: the most "
            "confident errors have labels that are rare for hard images, and no easy feature was found "
            "that could be a shortcut."
        )
    if deciding == "border":
        return (
            "Yes. A network that sees only the border is as confident of another class as it would be with "
            "wrong labels. A network that sees only the centre is not: border and centre contradict each "
            "other."
        )
    if deciding == "enough":
        return f"Not here: {e.suspects} suspects are too few to find out why they are suspects."
    return ""


def _labels_by_networks(
    answers: Mapping[str, str], e: Evidence, limits: Thresholds, verdict: str | None
) -> str:
    """Say what the predictions of the networks show about the labels.

    `answers` are the answers to the questions of the audit, by their names.
    """
    if answers["reliance"] == "yes" and e.reliance:
        name, number = e.reliance
        return (
            "Yes. Wrong labels do not depend on what a network sees. Here the class that is predicted for "
            f"suspects depends on {audit_networks.find(name).hidden} (reliance {number.value:.2f}, by chance "
            "0.50)."
        )
    if answers["insistence"] != "yes":
        return (
            f"Few suspects look like wrong labels. A network that was not trained on them would be fully "
            f"confident of another class, as it is for ordinary images. This holds for {e.full:,} of them."
        )
    if answers["doubt"] == "yes" and e.separation:
        return _labels_by_separation(
            answers, e.separation[1].value, limits.separation(e.insistence), limits
        )
    if verdict == "shortcut":
        return (
            "Not clearly. There is a shortcut, but where one network is fully confident of another class, no "
            "other network is less confident. Wrong labels would look the same, and some suspects may have "
            "wrong labels."
        )
    return (
        "As far as possible: only the labels of these images are unusual. A shortcut with too few "
        "conflicting images to learn from would look the same."
    )


def _labels_by_separation(
    answers: Mapping[str, str], separation: float, threshold: float, limits: Thresholds
) -> str:
    doubt = f"separation {separation:.2f}, by chance 0.50"
    if answers["separation"] == "yes":
        return (
            "Yes. One network is as confident of another class as it would be with wrong labels, but other "
            f"networks are not ({doubt}): the images differ in more than their labels."
        )
    return (
        f"Not clearly. One network is fully confident of another class, and others are less confident "
        f"({doubt}). This is less than a shortcut requires ({threshold:.2f}) and more than wrong labels give "
        f"({limits.mixed:g}), so the two cannot be distinguished here."
    )


def calibration(about: Mapping[str, Any], *, usual: bool) -> str:
    """Say for which network and settings the thresholds were chosen, and whether this audit has them."""
    if usual:
        return (
            "The thresholds were chosen once, on data with planted shortcuts and on data without shortcuts, "
            "for the built-in network and these settings. The documentation of the audit says how often its "
            "verdict is right."
        )
    return (
        f"The thresholds were chosen for the built-in network and its settings. This audit used others "
        f"({about['network']['name']}); how often its verdict is right with them was not measured."
    )

"""An audit in words: how to go on, how sure the verdict is, and what it cannot tell."""

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
from ..audit.verdict import steps


@dataclass(frozen=True)
class Next:
    """What to do now, and the command for it."""

    text: str
    command: str


def next_step(conclusion: Conclusion, *, out: str, source: str = "", steps: int = 0) -> Next:
    """Return how to go on; `source` is the data as named on the command line, empty in Python.

    `steps` is the length of the audit's trainings.
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


# -- how sure the verdict is --------------------------------------------------------------------------


def odds(p_value: float) -> str:
    """Return a p-value in words."""
    if p_value >= 0.05:
        return f"in {percent(p_value, 0)} of such sets"
    if p_value < 1e-9:
        return "less than once in a billion such sets"
    times = 1 / p_value
    digits = 10 ** (len(str(int(times))) - 1)
    return f"about once in {round(times / digits) * digits:,} such sets"


def sureness(e: Evidence, limits: Thresholds) -> list[str]:
    """Say for each number that counts how likely it is to come about by chance."""
    counted = [q for q in network_questions() if e.numbers(q.name) and q.counts(e, limits)]
    sentences = [f"{question.null} {_by_chance(question, e)}" for question in counted]
    if sentences:
        sentences.append(
            f"For a verdict it is not enough that chance is ruled out (p at most {limits.p_value:g}); the "
            "number must be large, too. Small gains that were no chance have been seen without a shortcut."
        )
    return sentences


def _by_chance(question: NetworkQuestion, e: Evidence) -> str:
    """Say how often chance would give the strongest number of a question."""
    best = getattr(e, question.name)
    assert best is not None, "there are such numbers"
    name, number = best
    if question.name != "gain":
        share = f"It is {percent(number.value, 0)} of them ({name})"
        return f"{share}, which comes about by chance {odds(number.p_value)}."
    if number.value <= 0:
        return f"None does here ({name}, {signed(number.value)})."
    return (
        f"The gain of {signed(number.value)} ({name}) comes about by chance {odds(number.p_value)}, allowing "
        f"for the choice among {len(e.networks)} networks."
    )


# -- exceptions to a shortcut, or wrong labels --------------------------------------------------------


def exceptions_or_wrong_labels(e: Evidence, limits: Thresholds, classes: int) -> list[str]:
    """Say whether exceptions to a shortcut can be distinguished from wrong labels here, and if not, why."""
    decision_steps = steps(e, thresholds=limits)
    deciding = next(step for step in decision_steps if step.conclusion)
    answers = {step.name: step.answer for step in decision_steps}
    verdict = deciding.conclusion.verdict if deciding.conclusion else None
    sentences = [_of_miner(deciding.name, e) or _of_networks(answers, e, limits, verdict)]
    if verdict == "shortcut":
        sentences.append(
            "That is said of the suspects as a whole. A single one may still have a wrong label, or be hard: "
            "look at them before you use the flags."
        )
    if classes == 2 and e.networks:
        sentences.append(
            "With two classes a wrong label and a mistake between the two look the same, so this is harder "
            "to tell than with more."
        )
    return sentences


def _of_miner(deciding: str, e: Evidence) -> str:
    """Say what is known of the labels where the miner or the border settled it; empty elsewhere."""
    if deciding in ("learned", "easy"):
        return (
            f"Not here. Where {percent(e.error)} of the images are got wrong, wrong labels drown among hard "
            "images: this audit says nothing of the labels."
        )
    if deciding == "labels":
        return (
            "Of single images not here, since most are hard. Of all together yes: the surest mistakes have "
            "labels that hard images rarely have, and nothing easy was found that a shortcut could be."
        )
    if deciding == "border":
        return (
            "Yes. A network that sees the border alone is as sure of another class as it would be with wrong "
            "labels, but one that sees the centre alone doubts it: border and centre contradict each other."
        )
    if deciding == "enough":
        return f"Not here: {e.suspects} suspects are too few to say why they are suspects."
    return ""


def _of_networks(
    answers: Mapping[str, str], e: Evidence, limits: Thresholds, verdict: str | None
) -> str:
    """Say what the answers of the networks tell of the labels."""
    if answers["reliance"] == "yes" and e.reliance:
        name, number = e.reliance
        return (
            "Yes. Wrong labels do not depend on what a network sees. Here the class that suspects are taken "
            f"for rests on {audit_networks.find(name).hidden} (reliance {number.value:.2f}, by chance 0.50)."
        )
    if answers["insistence"] != "yes":
        return (
            f"Few suspects look like wrong labels: only on {e.full:,} is a network that has not seen them as "
            "sure of another class as it is of ordinary images. Images with wrong labels are ordinary ones."
        )
    if answers["doubt"] == "yes" and e.separation:
        return _of_doubt(answers, e.separation[1].value, limits.separation(e.insistence), limits)
    if verdict == "shortcut":
        return (
            "Not clearly. There is a shortcut, but no network doubts the class that those insisted on are "
            "given: wrong labels would look the same, and may be among them."
        )
    return (
        "As far as possible: nothing but the label is odd about these images. A shortcut with too few "
        "exceptions to learn from would look the same."
    )


def _of_doubt(
    answers: Mapping[str, str], separation: float, threshold: float, limits: Thresholds
) -> str:
    doubt = f"separation {separation:.2f}, by chance 0.50"
    if answers["separation"] == "yes":
        return (
            "Yes. A network is as sure of another class as it would be with wrong labels, but others doubt "
            f"it ({doubt}): the images differ in more than their label."
        )
    return (
        f"Not clearly. Other networks doubt what one insists on ({doubt}), but less than it takes for a "
        f"shortcut ({threshold:.2f}) and more than for wrong labels ({limits.mixed:g}): the two cannot be "
        "told apart here."
    )


def calibration(about: Mapping[str, Any], *, usual: bool) -> str:
    """Say what the thresholds were chosen for, and whether this audit is of that kind."""
    if usual:
        return (
            "The thresholds were chosen once, on planted shortcuts and on sets without any, for the built-in "
            "network and these settings; the documentation of the audit tells how often it is right."
        )
    return (
        f"The thresholds were chosen for the built-in network and its settings. This audit used others "
        f"({about['network']['name']}): how often it is right with them, nobody has measured."
    )

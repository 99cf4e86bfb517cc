"""An audit in words: what its verdict means, how to go on, how sure it is, and what it cannot tell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..audit.evidence import Evidence
from ..audit.thresholds import Thresholds
from ..audit.verdict import insisted, passes
from ..audit.views import HIDDEN
from .decision import Step, deciding, relies
from .words import percent, signed

HEADLINES = {
    "shortcut": "A shortcut is likely",
    "nothing": "No sign of a shortcut",
    "noise": "The labels look noisy",
    "unclear": "Cannot tell",
}
# The networks that are compared with their like, what a suspect is that one gets right.
NETWORKS = {
    "taught": "shown the like more often",
    "grey": "sees no colours",
    "centre": "sees no border",
    "detail": "sees nothing coarse",
}
SET_RIGHT = {
    "taught": "right when taught",
    "grey": "right without colours",
    "centre": "right without the border",
    "detail": "right from detail alone",
}

WHO = {
    "miner": "learns what is easy first; what it gets wrong are the suspects",
    "deprived": "has not seen the suspects of its half",
    "grey": "the same, and sees no colours; its like is deprived",
    "centre": "the same, and sees no border; its like is deprived",
    "detail": "the same, and sees no light, shade or colour of large areas; its like is deprived",
    "taught": "has seen the suspects of its half more often; its like is matched",
    "matched": "has seen as many other images of each class more often",
}

# What a verdict means, by the step that it comes from.
MEANING = {
    (
        "unclear",
        "learned",
    ): "The network learned next to nothing, so nothing follows from its mistakes.",
    (
        "nothing",
        "easy",
    ): "No easy thing gives the class away. A shortcut that nearly all images follow would "
    "have left fewer mistakes.",
    (
        "unclear",
        "enough",
    ): "Nearly all images agree with what is learned first. Either that is what makes "
    "the class, or they all share a shortcut: images of the same kind cannot show which.",
    (
        "nothing",
        "insistence",
    ): "What a network gets wrong at first are hard images, not exceptions to "
    "something easy. As far as this can tell, the images can be trained on as they are.",
    (
        "noise",
        "separation",
    ): "A network is sure that these labels are wrong, and nothing about the images "
    "speaks for the labels. A classifier trained on them learns the mistakes, too.",
    (
        "unclear",
        "separation",
    ): "Some images stand out, but not so that exceptions to a shortcut, wrong "
    "labels and hard images could be told apart.",
}
SHORTCUT = (
    "Something easy gives the class away in nearly all of these images, and some images contradict it. A "
    "classifier trained on them is likely to go by it, and to fail where it does not hold."
)


def meaning(step: Step) -> str:
    """What the verdict of the deciding step means for someone who trains on these images."""
    return SHORTCUT if step.verdict == "shortcut" else MEANING[step.verdict or "", step.name]


@dataclass(frozen=True)
class Next:
    """What to do now, and the command for it."""

    text: str
    command: str


# What to do, by the step that the verdict comes from, and which of the commands.
DEBIAS = ("Look through the suspects, correct their flags, then debias with them:", "debias")
NOTHING = ("There is nothing to remove. To debias all the same:", "plain")
GO_ON = {
    ("unclear", "learned"): ("Ask again with longer training:", "longer"),
    ("nothing", "easy"): NOTHING,
    ("unclear", "enough"): (
        "Add images from elsewhere (other places, cameras, times) and ask again:",
        "again",
    ),
    ("shortcut", "gain"): DEBIAS,
    ("shortcut", "reliance"): DEBIAS,
    ("nothing", "insistence"): NOTHING,
    ("shortcut", "separation"): DEBIAS,
    ("noise", "separation"): (
        'Repair the labels that are wrong, or flag these suspects "exclude" and go on with:',
        "debias",
    ),
    ("unclear", "separation"): (
        "Look through the suspects. If they have something in common, debias with them; if their labels are "
        'wrong, flag them "exclude" first:',
        "debias",
    ),
}


def next_step(step: Step, *, out: str, source: str = "", steps: int = 0) -> Next:
    """How to go on; `source` is the data as they were named on the command line, empty in Python.

    `steps` is the length of the trainings there were.
    """
    text, which = GO_ON[step.verdict or "", step.name]
    commands = _shell(out, source, 2 * steps) if source else _python(out, 2 * steps)
    return Next(text, commands[which])


def _shell(out: str, source: str, steps: int) -> dict[str, str]:
    paths = (source, out, f"{out}/suspects.csv", f"{out}/debiased")
    data, here, suspects, debiased = map(shlex.quote, paths)
    return {
        "debias": f"unspur debias {data} --suspects {suspects} --out {debiased}",
        "plain": f"unspur debias {data} --out {debiased}",
        "again": f"unspur audit {data} --out {here}",
        "longer": f"unspur audit {data} --steps {steps} --out {here}",
    }


def _python(out: str, steps: int) -> dict[str, str]:
    suspects, debiased = f"{out}/suspects.csv", f"{out}/debiased"
    longer = {"mine.steps": steps, "pretrain.steps": steps}
    return {
        "debias": f"unspur.debias(model, data, suspects={suspects!r}, out={debiased!r})",
        "plain": f"unspur.debias(model, data, out={debiased!r})",
        "again": f"unspur.audit(data, out={out!r})",
        "longer": f"unspur.audit(data, settings={longer!r}, out={out!r})",
    }


def often(p_value: float) -> str:
    """A p-value in words."""
    if p_value >= 0.05:
        return f"in {percent(p_value, 0)} of such sets"
    if p_value < 1e-9:
        return "less than once in a billion such sets"
    times = 1 / p_value
    digits = 10 ** (len(str(int(times))) - 1)
    return f"about once in {round(times / digits) * digits:,} such sets"


def sureness(e: Evidence, limits: Thresholds) -> list[str]:
    """How likely chance is to have done it, for each number that was asked for."""
    told = []
    if e.gain:
        name, gain = e.gain
        null = "If the suspects were merely hard, or had wrong labels, no network would gain much on them. "
        if gain.value > 0:
            told.append(
                f"{null}The gain of {signed(gain.value)} ({name}) comes about by chance "
                f"{often(gain.p_value)}, allowing for the choice among {len(e.networks)} networks."
            )
        else:
            told.append(f"{null}None does here ({name}, {signed(gain.value)}).")
    if e.reliance and insisted(e, limits, limits.resting):
        name, found = e.reliance
        told.append(
            "Hiding something takes no more from the answers to hard or mislabelled suspects than from those "
            "to ordinary images: more from a suspect in at most half of all pairs. It is "
            f"{percent(found.value, 0)} of them ({name}), which comes about by chance "
            f"{often(found.p_value)}."
        )
    if e.separation and insisted(e, limits, limits.insistence):
        name, found = e.separation
        told.append(
            "If the labels of those it insists on were wrong at random, other networks would doubt them no "
            "more than ordinary images: a suspect more than an ordinary image in half of all pairs. It is "
            f"{percent(found.value, 0)} of them ({name}), which comes about by chance "
            f"{often(found.p_value)}."
        )
    if told:
        told.append(
            f"For a verdict it is not enough that chance is ruled out (p at most {limits.p_value:g}); the "
            "number must be large, too. Small gains that were no chance have been seen without a shortcut."
        )
    return told


def told_apart(e: Evidence, limits: Thresholds, classes: int) -> list[str]:
    """Whether images that contradict a shortcut are told from those with wrong labels, and if not, why."""
    step = deciding(e, limits)
    told = [_apart(e, limits, step)]
    if step.verdict == "shortcut":
        told.append(
            "That is said of the suspects as a whole. A single one may still have a wrong label, or be hard: "
            "look at them before you use the flags."
        )
    if classes == 2 and e.networks:
        told.append(
            "With two classes a wrong label and a mistake between the two look the same, so this is harder "
            "to tell than with more."
        )
    return told


def _apart(e: Evidence, limits: Thresholds, step: Step) -> str:
    if step.name in ("learned", "easy"):
        return (
            f"Not here. Where {percent(e.error)} of the images are got wrong, wrong labels drown among hard "
            "images: this audit says nothing of the labels."
        )
    if step.name == "enough":
        return f"Not here: {e.suspects} suspects are too few to say why they are suspects."
    if relies(e, limits) and e.reliance:
        name, found = e.reliance
        return (
            "Yes. Wrong labels do not depend on what a network sees. Here the class that suspects are taken "
            f"for rests on {HIDDEN[name]} (reliance {found.value:.2f}, by chance 0.50)."
        )
    if not insisted(e, limits, limits.insistence):
        return (
            f"Few suspects look like wrong labels: only on {e.full:,} is a network that has not seen them as "
            "sure of another class as it is of ordinary images. Images with wrong labels are ordinary ones."
        )
    if e.separation and e.separation[1].value >= limits.mixed:
        turn = limits.separation(e.insistence)
        doubt = f"separation {e.separation[1].value:.2f}, by chance 0.50"
        if passes(e.separation[1], turn, limits):
            return (
                "Yes. A network is as sure of another class as it would be with wrong labels, but others "
                f"doubt it ({doubt}): the images differ in more than their label."
            )
        return (
            f"Not clearly. Other networks doubt what one insists on ({doubt}), but less than it takes for a "
            f"shortcut ({turn:.2f}) and more than for wrong labels ({limits.mixed:g}): the two cannot be "
            "told apart here."
        )
    if step.verdict == "shortcut":
        return (
            "Not clearly. There is a shortcut, but no network doubts the class that those insisted on are "
            "given: wrong labels would look the same, and may be among them."
        )
    return (
        "As far as possible: nothing but the label is odd about these images. A shortcut with too few "
        "exceptions to learn from would look the same."
    )


def limits_of(about: Mapping[str, Any], *, usual: bool) -> str:
    """What the thresholds were chosen for, and whether this audit is of that kind."""
    if usual:
        return (
            "The thresholds were chosen once, on planted shortcuts and on sets without any, for the built-in "
            "network and these settings; the documentation of the audit tells how often it is right."
        )
    return (
        f"The thresholds were chosen for the built-in network and its settings. This audit used others "
        f"({about['network']['name']}): how often it is right with them, nobody has measured."
    )

"""The conclusions of an audit: the verdict, its reason, what it means, and what to do next.

questions.py defines which answer leads to which conclusion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import audit_networks
from .evidence import Evidence, NumberName
from .formatting import percent
from .statistics import strongest
from .thresholds import THRESHOLDS

VerdictCode = Literal["shortcut", "nothing", "noise", "unclear"]
# The command that a user should run next; the page and the terminal print it in full.
Command = Literal["debias", "debias anyway", "debias anyway without suspects", "again", "longer"]


@dataclass(frozen=True)
class VerdictKind:
    """A verdict: its headline, and the reason against debiasing, if there is one."""

    headline: str
    against_debiasing: str = ""


VERDICTS: dict[VerdictCode, VerdictKind] = {
    "shortcut": VerdictKind("A shortcut is likely"),
    "nothing": VerdictKind(
        "No sign of a shortcut",
        "Debiasing cuts weights that carry a shortcut; without one it can only cost accuracy.",
    ),
    "noise": VerdictKind(
        "The labels look noisy",
        "Debiasing would train on the suspects, and on their wrong labels, more often.",
    ),
    "unclear": VerdictKind(
        "Cannot tell",
        "Without a clear sign of a shortcut, debiasing may only cost accuracy.",
    ),
}


@dataclass(frozen=True)
class Conclusion:
    """A verdict, its reason, what it means for training on these images, and what to do next."""

    verdict: VerdictCode
    why: Callable[[Evidence], str]
    meaning: str
    advice: str
    command: Command

    def text(self, e: Evidence) -> str:
        """Return the verdict and its reason as sentences."""
        return f"{VERDICTS[self.verdict].headline}: {self.why(e)}"


def _suspects(e: Evidence) -> str:
    share = f"{e.suspects} of {e.samples} images ({percent(e.error, 2)})"
    return f"{share} contradict what a network learns first"


def _agreement(e: Evidence) -> str:
    return (
        f"A second network, trained without them, gives {e.full} of them the same class as the first "
        "network, with full confidence"
    )


def _better(e: Evidence, name: str) -> str:
    return (
        f"A network {audit_networks.find(name).difference} gets {percent(e.networks[name].right, 0)} of them "
        f"right, its control network {percent(e.networks[name].before, 0)}"
    )


def _small(e: Evidence) -> str:
    """Return a sentence if the set is small, otherwise nothing."""
    if e.samples >= THRESHOLDS.few_images:
        return ""
    return f" From only {e.samples:,} images it may have learned too little to find one."


LEARNED_NOTHING = Conclusion(
    "unclear",
    lambda e: (
        f"a network that learns easy features first gets {percent(e.error, 0)} of unseen images wrong, about "
        "as many as by always predicting the largest class. Train it longer, or use another network."
    ),
    meaning="The network learned almost nothing, so its mistakes show nothing.",
    advice="Run the audit again with longer training:",
    command="longer",
)

NOTHING_EASY = Conclusion(
    "nothing",
    lambda e: (
        "no easy feature predicts the class. A network that learns easy features first gets "
        f"{percent(e.error, 0)} of unseen images wrong.{_small(e)}"
    ),
    meaning="No easy feature predicts the class. With a shortcut that nearly all images follow, the network "
    "would have made fewer mistakes.",
    advice="There is nothing to remove. To debias anyway:",
    command="debias anyway without suspects",
)

TOO_FEW_SUSPECTS = Conclusion(
    "unclear",
    lambda e: (
        f"{_suspects(e)}, too few for a verdict. Either there is no shortcut, or all images follow it, or a "
        "network learns the classes in spite of it. Only images from another source can show which."
    ),
    meaning="Nearly all images agree with what a network learns first. Either that defines the class, or "
    "all images share a shortcut: images from the same source cannot show which.",
    advice="Add images from another source (other places, cameras, times) and run the audit again:",
    command="again",
)


LOOKS_ALIKE = "a network learns little from so few images, and then hard images look the same."
TOO_FEW_IMAGES = Conclusion(
    "unclear",
    lambda e: f"{_suspects(e)}. They look as if they contradict a shortcut. But {LOOKS_ALIKE}",
    meaning="There are signs of a shortcut, but the network learned too little from so few images to tell "
    "images that contradict it from images that are only hard.",
    advice="Add images and run the audit again; or look through the suspects, and if they have something in "
    "common, debias with them:",
    command="debias anyway",
)


def _few(e: Evidence) -> str:
    assert e.gain is not None, "a gain was measured"
    name, gain = e.gain
    chance = (
        f"For so few images this may be chance (gain {gain.value:.2f}, p = {gain.p_value:.1g})."
    )
    return f"{_suspects(e)}. {_better(e, name)}. {chance} {audit_networks.find(name).hint}".strip()


TOO_FEW_FOR_GAIN = Conclusion(
    "unclear",
    _few,
    meaning="There are signs of a shortcut, but too few images contradict it to rule out chance.",
    advice="Add images and run the audit again; or look through the suspects, and if they have something in "
    "common, debias with them:",
    command="debias anyway",
)

MAY_BE_HARD = Conclusion(
    "unclear",
    lambda e: (
        f"{_suspects(e)}. {_agreement(e)}, and training on them more often does not help with similar "
        "images. So they may only be hard. But from so few images a network learns too little to rule out a "
        "shortcut."
    ),
    meaning="There is no sign of a shortcut, but in so few images the audit often misses one.",
    advice="Add images and run the audit again; or look through the suspects, and if they have something in "
    "common, debias with them:",
    command="debias anyway",
)

MERELY_HARD = Conclusion(
    "nothing",
    lambda e: (
        f"{_suspects(e)}, but these images are only hard. {_agreement(e)}, and training on them more often "
        "does not help with similar images."
    ),
    meaning="The images that a network gets wrong at first are hard; they do not contradict a shortcut. As "
    "far as the audit can tell, you can train on these images without changes.",
    advice="There is nothing to remove. To debias anyway:",
    command="debias anyway without suspects",
)

WRONG_LABELS = Conclusion(
    "noise",
    lambda e: (
        f"{_suspects(e)}. {_agreement(e)}, and no other network finds anything unusual about these images. "
        "If there is a shortcut after all, too few images contradict it to tell."
    ),
    meaning="A network is sure that these labels are wrong, and nothing in the images supports the labels. "
    "A classifier trained on them learns the wrong labels, too.",
    advice='Correct the labels that are wrong, or flag these suspects "exclude", and continue with:',
    command="debias anyway",
)


def _weak_doubt(e: Evidence) -> str:
    value = e.separation[1].value if e.separation else 0.5
    return (
        f"{_suspects(e)}. {_agreement(e)}. Other networks doubt that class, but not clearly "
        f"(separation {value:.2f}, by chance 0.50). These images may be hard, have wrong labels, or "
        "contradict a weak shortcut: look at them."
    )


def _far(e: Evidence) -> str:
    far = e.far_labels
    assert far is not None, "the labels were counted"
    return (
        f"no easy feature predicts the class. Of the {far.mistakes} most confident mistakes of a network, "
        f"{far.far} have a label from the half of the classes that it finds less likely. That is as many as "
        f"if {percent(far.share, 0)} of them had wrong labels; among hard images there are far fewer."
    )


WRONG_LABELS_AMONG_HARD = Conclusion(
    "noise",
    _far,
    meaning="Some labels look wrong. As most images are hard, the audit cannot tell which labels. A "
    "classifier trained on them learns the wrong labels, too.",
    advice="Look through the suspects with the highest scores. Correct the labels that are wrong, or flag "
    'these suspects "exclude", and continue with:',
    command="debias anyway",
)

WEAK_DOUBT = Conclusion(
    "unclear",
    _weak_doubt,
    meaning="Some images stand out, but the audit cannot tell whether they contradict a shortcut, have wrong "
    "labels, or are hard.",
    advice="Look through the suspects. If they have something in common, debias with them. If their labels "
    'are wrong, flag them "exclude" first:',
    command="debias anyway",
)


def _shortcut(number: NumberName, reason: Callable[[Evidence, str], str]) -> Conclusion:
    """Return the conclusion that there is a shortcut, shown by the strongest network in a number."""

    def why(e: Evidence) -> str:
        found = strongest(e.numbers(number))
        assert found is not None, "a number shows the shortcut"
        name, statistic = found
        chance = "" if number == "gain" else " by chance 0.50;"
        size = f"{number} {statistic.value:.2f},{chance} p = {statistic.p_value:.1g}"
        hint = audit_networks.find(name).hint
        return f"{_suspects(e)}. {reason(e, name)} ({size}). {hint}".strip()

    return Conclusion(
        "shortcut",
        why,
        meaning=SHORTCUT_MEANING,
        advice="Look through the suspects, correct their flags, then debias with them:",
        command="debias",
    )


SHORTCUT_MEANING = (
    "An easy feature predicts the class in nearly all of these images, and some images contradict it. A "
    "classifier trained on them is likely to rely on that feature, and to fail where it does not hold."
)


def _border(e: Evidence) -> str:
    seen = e.border
    assert seen is not None, "the border networks were trained"
    assert seen.separation is not None, "some suspects have a full margin"
    return (
        f"a network that sees only the border gets {percent(1 - seen.error)} of unseen images right, and is "
        f"sure of a wrong class for {seen.full} of the {seen.suspects} others. A network that sees only the "
        f"centre doubts that (separation {seen.separation.value:.2f}, by chance 0.50; "
        f"p = {seen.separation.p_value:.1g}). A small network that sees whole images learns something else "
        "first; other networks may learn the border. Look at the border first."
    )


SHORTCUT_IN_BORDER = Conclusion(
    "shortcut",
    _border,
    meaning="The border predicts the class in nearly all of these images, and some images contradict it. A "
    "small network learns something else first; a larger network, or longer training, may rely on the "
    "border.",
    advice="Remove the border from the images; or look through the suspects, correct their flags, then "
    "debias with them:",
    command="debias",
)

SHORTCUT_BY_GAIN = _shortcut("gain", _better)
SHORTCUT_BY_RELIANCE = _shortcut(
    "reliance",
    lambda e, name: (
        f"{_agreement(e)}. Hiding {audit_networks.find(name).hidden} lowers that confidence more than the "
        "confidence in ordinary images"
    ),
)
SHORTCUT_BY_SEPARATION = _shortcut(
    "separation",
    lambda e, name: (
        f"{_agreement(e)}, but a network {audit_networks.find(name).difference} doubts that class"
    ),
)

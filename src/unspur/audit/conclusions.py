"""The conclusions an audit can come to: the verdict, why, what it means, and what to do next.

questions.py says which answer leads to which conclusion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import audit_networks
from .evidence import Evidence, NumberName
from .statistics import strongest

VerdictCode = Literal["shortcut", "nothing", "noise", "unclear"]
# Commands that a user can go on with; the page and the terminal spell them out.
Command = Literal["debias", "debias anyway", "debias anyway without suspects", "again", "longer"]


@dataclass(frozen=True)
class VerdictKind:
    """A verdict: its headline, and why debiasing is not worth while (empty where it is)."""

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
        "Debiasing would train on the suspects more often, and so on their wrong labels.",
    ),
    "unclear": VerdictKind(
        "Cannot tell",
        "Without a clear sign of a shortcut, debiasing may only cost accuracy.",
    ),
}


@dataclass(frozen=True)
class Conclusion:
    """A verdict, why it is given, what it means for training on these images, and what to do next."""

    verdict: VerdictCode
    why: Callable[[Evidence], str]
    meaning: str
    advice: str
    command: Command

    def text(self, e: Evidence) -> str:
        """Return the verdict and its reason as sentences."""
        return f"{VERDICTS[self.verdict].headline}: {self.why(e)}"


def _suspects(e: Evidence) -> str:
    share = f"{e.suspects} of {e.samples} images ({e.error:.2%})"
    return f"{share} contradict what a network learns first"


def _agreement(e: Evidence) -> str:
    return f"A network that has not seen them fully agrees on {e.full}"


LEARNED_NOTHING = Conclusion(
    "unclear",
    lambda e: (
        f"a network that learns what is easy gets {e.error:.0%} of unseen images wrong, about as many as "
        "without looking. Give it more steps, or another network."
    ),
    meaning="The network learned next to nothing, so nothing follows from its mistakes.",
    advice="Ask again with longer training:",
    command="longer",
)

NOTHING_EASY = Conclusion(
    "nothing",
    lambda e: (
        "nothing easy gives the class away. A network that looks for it gets "
        f"{e.error:.0%} of unseen images wrong."
    ),
    meaning="No easy thing gives the class away. A shortcut that nearly all images follow would have left "
    "fewer mistakes.",
    advice="There is nothing to remove. To debias all the same:",
    command="debias anyway without suspects",
)

TOO_FEW_SUSPECTS = Conclusion(
    "unclear",
    lambda e: (
        f"{_suspects(e)}, too few to judge by. There is no shortcut, or one that all images follow; only "
        "images from elsewhere can show which."
    ),
    meaning="Nearly all images agree with what is learned first. Either that is what makes the class, or "
    "they all share a shortcut: images of the same kind cannot show which.",
    advice="Add images from elsewhere (other places, cameras, times) and ask again:",
    command="again",
)

MERELY_HARD = Conclusion(
    "nothing",
    lambda e: (
        f"{_suspects(e)}, but they are merely hard. {_agreement(e)}, and seeing them more often does not "
        "help with others like them."
    ),
    meaning="What a network gets wrong at first are hard images, not exceptions to something easy. As far as "
    "this can tell, the images can be trained on as they are.",
    advice="There is nothing to remove. To debias all the same:",
    command="debias anyway without suspects",
)

WRONG_LABELS = Conclusion(
    "noise",
    lambda e: (
        f"{_suspects(e)}. {_agreement(e)}, and no other network sees what should be different about these "
        "images. If it is a shortcut all the same, it has too few exceptions to tell."
    ),
    meaning="A network is sure that these labels are wrong, and nothing about the images speaks for the "
    "labels. A classifier trained on them learns the mistakes, too.",
    advice='Repair the labels that are wrong, or flag these suspects "exclude" and go on with:',
    command="debias anyway",
)


def _weak_doubt(e: Evidence) -> str:
    value = e.separation[1].value if e.separation else 0.5
    return (
        f"{_suspects(e)}. {_agreement(e)}; others doubt that answer, but not clearly "
        f"(separation {value:.2f}, by chance 0.50). They may be hard, mislabelled, or exceptions to a weak "
        "shortcut: look at them."
    )


def _far(e: Evidence) -> str:
    far = e.far_labels
    assert far is not None, "the labels were counted"
    return (
        f"nothing easy gives the class away. Of the {far.mistakes} mistakes that a network is surest of, "
        f"{far.far} have a label from the half of the classes that it finds less likely. If {far.share:.0%} "
        "of them were wrong labels there would be so many; hard images have far fewer."
    )


WRONG_LABELS_AMONG_HARD = Conclusion(
    "noise",
    _far,
    meaning="Some labels look wrong, though most images are hard, so that it cannot be said of each image. A "
    "classifier trained on them learns the mistakes, too.",
    advice="Look through the suspects with the highest scores, repair the labels that are wrong, or flag "
    'them "exclude" and go on with:',
    command="debias anyway",
)

WEAK_DOUBT = Conclusion(
    "unclear",
    _weak_doubt,
    meaning="Some images stand out, but not so that exceptions to a shortcut, wrong labels and hard images "
    "could be told apart.",
    advice="Look through the suspects. If they have something in common, debias with them; if their labels "
    'are wrong, flag them "exclude" first:',
    command="debias anyway",
)


def _shortcut(number: NumberName, reason: Callable[[Evidence, str], str]) -> Conclusion:
    """Return the conclusion that there is a shortcut, as the strongest network shows it by a number."""

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
    "Something easy gives the class away in nearly all of these images, and some images contradict it. A "
    "classifier trained on them is likely to go by it, and to fail where it does not hold."
)


def _border(e: Evidence) -> str:
    seen = e.border
    assert seen is not None, "the border was looked at"
    assert seen.separation is not None, "some suspects are insisted on"
    return (
        f"a network that sees the border alone gets {1 - seen.error:.1%} of unseen images right, and is sure "
        f"of another class for {seen.full} of the {seen.suspects} others. A network that sees the centre "
        f"alone doubts that (separation {seen.separation.value:.2f}, by chance 0.50; "
        f"p = {seen.separation.p_value:.1g}). A small network that sees everything learns something else "
        "first; others may not. Look at the border first."
    )


SHORTCUT_IN_BORDER = Conclusion(
    "shortcut",
    _border,
    meaning="The border gives the class away in nearly all of these images, and some images contradict it. A "
    "small network learns something else first; a larger one, or longer training, may go by the border.",
    advice="Look through the suspects, correct their flags, then debias with them, or remove the border:",
    command="debias",
)

SHORTCUT_BY_GAIN = _shortcut(
    "gain",
    lambda e, name: (
        f"A network {audit_networks.find(name).difference} gets {e.networks[name].right:.0%} of them right, "
        f"another {e.networks[name].before:.0%}"
    ),
)
SHORTCUT_BY_RELIANCE = _shortcut(
    "reliance",
    lambda e, name: (
        f"{_agreement(e)}. Hiding {audit_networks.find(name).hidden} takes more of that answer from them "
        "than from ordinary images"
    ),
)
SHORTCUT_BY_SEPARATION = _shortcut(
    "separation",
    lambda e, name: (
        f"{_agreement(e)}, one {audit_networks.find(name).difference} doubts that answer"
    ),
)

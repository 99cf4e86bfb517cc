"""Is there a shortcut? What networks say of samples they were not trained on, in numbers.

The training data are cut into two halves, and each network, trained on one, is asked about the other:

    the miner       learns what is easy; what it gets wrong are the suspects
    the deprived    an ordinary network that has not seen the suspects of its half
    grey, centre,   deprived ones that see no colours, no border, or nothing coarse (light and shade, large
      detail        areas)
    the taught      an ordinary network that has seen the suspects more often
    the matched     one that has seen as many samples of each class, taken at random, as much more often

Exceptions to a shortcut, merely hard samples and wrong labels differ in four numbers.

*Gain* of a network over its like (of the taught over the matched, of those that see less over the deprived):
what it gets right more of the suspects, less what it gets wrong more of the others. Of hard samples, one that
has seen the like in plenty trades one mistake for another, and one that sees less makes a few other mistakes.
Of wrong labels, a network can only get right what it gets wrong of others. For both the gain is about 0, the
null of its p-value. It is large if suspects have something in common that its like could not learn, or did
not look at for something easier: a shortcut.

The other three look at the margin of the miner's answer: its logit less the best other, relative to what
ordinary samples of that answer have. They find shortcuts so strong, or with so few exceptions, that nothing
is learned against them.

*Insistence*: of the suspects to which the deprived network clearly gives the miner's answer, the share to
which it gives it with a full margin. Mistakes near a boundary get rarer with the margin, so for hard samples
it is low. It is high for exceptions to a shortcut, as without them the shortcut always holds, and for wrong
labels, as the images are ordinary.

*Separation*: how well a network tells such insisted suspects from ordinary samples of the same answer, as the
chance that the suspect has the smaller margin. Where labels are wrong at random nothing tells them apart: it
is 1/2 for any network, the null of its p-value. Where there is a shortcut, the images differ in all else, and
a network that was taught or cannot see the shortcut notices. Hard samples are separated, too, but insisted
on less: what hard samples and wrong labels reach together is a line, insistence + separation.

*Reliance* on what a view hides: the chance that an insisted suspect loses more of its margin than an ordinary
sample of the same answer does, from the matched network, which sees it, to the one that does not. It is 1/2
for wrong labels, and no more for hard samples: neither network had a part in the choice of the suspects, so
both find them hard. It is larger if the miner's answers rest on what is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .. import noise
from ..stages.suspects import Suspects
from .thresholds import THRESHOLDS

FOLDS = 2
FOLD, MATCH = 700, 701  # streams of random numbers
HALF, FULL = 0.25, 0.75  # relative margins from which an answer is clear, and full


@dataclass(frozen=True, eq=False)
class Opinion:
    """What a network says of samples outside its training: their class, and the margin of another answer."""

    predicted: Tensor
    margin: Tensor

    @staticmethod
    def of(logits: Tensor, answer: Tensor | None = None) -> Opinion:
        """`answer` is the class whose margin is asked for, by default the network's own."""
        predicted = logits.argmax(1)
        column = (predicted if answer is None else answer)[:, None]
        others = logits.scatter(1, column, -math.inf).amax(1)
        return Opinion(predicted, logits.gather(1, column).squeeze(1) - others)

    def tensors(self) -> dict[str, Tensor]:
        return {"predicted": self.predicted, "margin": self.margin}


@dataclass(frozen=True)
class Shown:
    """A number and the p-value of its null."""

    value: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Asked:
    """What a network says, and whom it is compared with."""

    opinion: Opinion
    like: Opinion
    whole: Opinion | None = None  # where it sees less, one that sees everything


def surest(found: Mapping[str, Shown]) -> tuple[str, Shown] | None:
    """The largest number that is no chance, or the surest; p-values allow for the choice."""
    if not found:
        return None
    corrected = {  # Bonferroni
        name: replace(shown, p_value=min(1.0, shown.p_value * len(found)))
        for name, shown in found.items()
    }
    sure = [name for name, shown in corrected.items() if shown.p_value <= THRESHOLDS.p_value]
    if sure:
        name = max(sure, key=lambda name: corrected[name].value)
    else:
        name = min(corrected, key=lambda name: (found[name].p_value, -found[name].value))
    return name, corrected[name]


@dataclass(frozen=True)
class Seen:
    """What one network makes of the suspects."""

    gain: Shown
    separation: Shown | None  # None where nothing is insisted on
    reliance: Shown | None  # on what it does not see; None also where it sees everything
    before: float  # share of the suspects whose label its like gives
    right: float  # share whose label it gives itself


@dataclass(frozen=True)
class Evidence:
    """The numbers behind a verdict."""

    samples: int
    suspects: int
    error: float  # of the miner
    blind: float  # of always saying the largest class
    clear: int = 0  # suspects to which the deprived network clearly gives the miner's answer
    full: int = 0  # of these, with a full margin: the insisted ones
    networks: Mapping[str, Seen] = field(default_factory=dict)  # taught, grey, ...

    @property
    def insistence(self) -> float:
        return self.full / self.clear if self.clear else 0.0

    @property
    def gain(self) -> tuple[str, Shown] | None:
        """The network with the largest gain that is no chance, or with the surest one.

        The p-value allows for the choice among several.
        """
        return surest({name: seen.gain for name, seen in self.networks.items()})

    @property
    def separation(self) -> tuple[str, Shown] | None:
        """The network that separates most, likewise."""
        found = {name: seen.separation for name, seen in self.networks.items()}
        return surest({name: shown for name, shown in found.items() if shown})

    @property
    def reliance(self) -> tuple[str, Shown] | None:
        """The network whose view hides most of what the answers rest on, likewise."""
        found = {name: seen.reliance for name, seen in self.networks.items()}
        return surest({name: shown for name, shown in found.items() if shown})


def folds(targets: Tensor, *, seed: int) -> Tensor:
    """The half of each sample, 0 or 1, each class cut in two as equally as can be."""
    keys = noise.bits(seed, 0, FOLD, (len(targets),))
    fold = torch.zeros(len(targets), dtype=torch.int64)
    before = 0  # so that classes of odd size give their spare sample to the halves in turn
    for label in torch.unique(targets).tolist():
        members = (targets == label).nonzero().squeeze(1)
        order = members[torch.sort(keys[members], stable=True).indices]
        fold[order] = (before + torch.arange(len(order))) % FOLDS
        before += len(order)
    return fold


def matched(conflict: Tensor, groups: Tensor, *, seed: int) -> Tensor:
    """As many samples of each group as there are suspects in it, taken at random."""
    keys = noise.bits(seed, 0, MATCH, (len(groups),))
    drawn = torch.zeros_like(conflict)
    for group in torch.unique(groups[conflict]).tolist():
        members = (groups == group).nonzero().squeeze(1)
        order = members[torch.sort(keys[members], stable=True).indices]
        drawn[order[: int(conflict[members].sum())]] = True
    return drawn


def weigh(
    targets: Tensor,
    suspects: Suspects,
    deprived: Opinion | None = None,
    others: Mapping[str, Asked] | None = None,
) -> Evidence:
    """Everything the verdict depends on; margins are of the miner's answers."""
    conflict, n = suspects.conflict, len(suspects)
    mined = Evidence(
        samples=n,
        suspects=int(conflict.sum()),
        error=float(conflict.double().mean()),
        blind=1 - int(torch.bincount(targets).max()) / n,
    )
    if deprived is None or not conflict.any():
        return mined
    margin = relative(deprived.margin, conflict, suspects.predicted)
    full = margin >= FULL
    return replace(
        mined,
        clear=int((conflict & (margin >= HALF)).sum()),
        full=int((conflict & full).sum()),
        networks={n: _seen(asked, targets, suspects, full) for n, asked in (others or {}).items()},
    )


def _seen(asked: Asked, targets: Tensor, suspects: Suspects, full: Tensor) -> Seen:
    """What a network makes of the suspects; `full` are samples with a full margin in the deprived one."""
    conflict, answer, margin = suspects.conflict, suspects.predicted, asked.opinion.margin
    right, before = asked.opinion.predicted == targets, asked.like.predicted == targets
    reliance = None
    if asked.whole is not None:
        lost = relative(asked.whole.margin, conflict, answer) - relative(margin, conflict, answer)
        reliance = separation(lost, conflict, answer, among=full)
    return Seen(
        gain=gain(before, right, conflict),
        separation=separation(-margin, conflict, answer, among=full),
        reliance=reliance,
        before=_share(before[conflict]),
        right=_share(right[conflict]),
    )


def _share(of: Tensor) -> float:
    return float(of.double().mean())


def gain(before: Tensor, after: Tensor, conflict: Tensor) -> Shown:
    """What is right more of the suspects, less what is wrong more of the others; p is one-sided."""
    change = after.double() - before.double()
    parts = [change[conflict], change[~conflict]]
    total = sum(float(part.mean()) for part in parts if len(part))
    variance = sum(float(part.var(correction=0)) / len(part) for part in parts if len(part))
    if variance == 0:
        return Shown(total, 0.0 if total > 0 else 1.0)
    return Shown(total, _tail(total / math.sqrt(variance)))


def _tail(z: float) -> float:
    """The chance of a normal variable to be larger."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def relative(margin: Tensor, conflict: Tensor, answer: Tensor) -> Tensor:
    """Margins over the median of the ordinary samples with the same answer; 0 where that says nothing."""
    scale = torch.zeros_like(margin)
    for label in torch.unique(answer).tolist():
        here = answer == label
        ordinary = margin[here & ~conflict]
        if len(ordinary):
            scale[here] = ordinary.median()
    return torch.where(scale > 0, margin / scale, 0.0)


def separation(doubt: Tensor, conflict: Tensor, strata: Tensor, *, among: Tensor) -> Shown | None:
    """How often a suspect is doubted more than an ordinary sample of its stratum, and the p-value of that.

    Mann-Whitney's U, summed over strata; p is one-sided, by the normal approximation. None without pairs.
    """
    wins = pairs = variance = 0.0
    for stratum in torch.unique(strata[among & conflict]).tolist():
        here = among & (strata == stratum)
        ones, others = doubt[here & conflict], doubt[here & ~conflict]
        wins += _wins(ones, others)
        pairs += len(ones) * len(others)
        variance += len(ones) * len(others) * (len(ones) + len(others) + 1) / 12
    if not pairs:
        return None
    return Shown(wins / pairs, _tail((wins - pairs / 2) / math.sqrt(variance)))


def _wins(ones: Tensor, others: Tensor) -> float:
    """Pairs in which the first is larger; a tie is half of one."""
    line = torch.sort(others).values
    below, upto = (torch.searchsorted(line, ones, right=right) for right in (False, True))
    return float((below + upto).double().sum()) / 2

"""The evidence of an audit: what networks say of samples they were not trained on, in numbers.

The training data are cut into two halves. Each network is trained on one half and asked about the other:

    miner           learns what is easy; the samples it gets wrong are the suspects
    deprived        an ordinary network that has not seen the suspects of its half
    grey, centre,   as deprived, but they see no colours, no border, nothing coarse (light and shade, large
      detail,       areas), or nothing fine
      coarse
    taught          an ordinary network that has seen the suspects more often
    matched         an ordinary network that has seen as many random samples of each class more often

audit_networks.py has the table of them. Exceptions to a shortcut, hard samples and wrong labels differ in
four numbers.

*Gain* of a network over its control network (of taught over matched, of the views over deprived): the
accuracy gained on suspects plus the change on all other samples. On hard samples it is about 0: a network
that has seen similar samples more often trades one mistake for another, and a network that sees less makes
a few other mistakes. On wrong labels it is about 0, too: a network says a wrong label only where it errs,
and it errs as often on other samples. That is the null of its p-value. The gain is large if suspects have
something in common that the control network could not learn, or ignored for something easier: a shortcut.

The other three numbers look at the margin of the miner's answer: its logit less the best other logit,
relative to the margins of ordinary samples with that answer. They find shortcuts so strong, or with so few
exceptions, that no network learns to contradict them.

*Insistence*: of the suspects to which the deprived network clearly gives the miner's answer, the share to
which it gives that answer with a full margin. Mistakes near a boundary get rarer with the margin, so
insistence is low for hard samples. It is high for exceptions to a shortcut, as without them the shortcut
always holds, and for wrong labels, as those images are ordinary.

*Separation*: the chance that a network gives an insisted suspect a smaller margin than an ordinary sample
with the same answer. Where labels are wrong at random nothing separates the two: it is 1/2 for any network,
the null of its p-value. Where there is a shortcut, the images differ in everything else, and a network that
was taught or cannot see the shortcut notices. Hard samples are separated as well, but have a lower
insistence: what hard samples and wrong labels reach together is a line, insistence + separation.

*Reliance* on what a view hides: the chance that an insisted suspect loses more of its margin than an
ordinary sample with the same answer does, from the matched network, which sees everything, to the one
behind the view. It is 1/2 for wrong labels and no more for hard samples: neither network had a part in the
choice of the suspects, so both find them hard. It is larger if the miner's answers depend on what is
hidden.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from ..stages.suspects import Suspects
from . import statistics
from .border_evidence import BorderEvidence
from .far_labels import FarLabels
from .statistics import Statistic, relative_margin, strongest

CLEAR_MARGIN, FULL_MARGIN = 0.25, 0.75  # relative margins from which an answer is clear, and full

NumberName = Literal["gain", "separation", "reliance"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a network says of samples outside its training: their class, and the margin of an answer."""

    predicted: Tensor
    margin: Tensor

    @staticmethod
    def from_logits(logits: Tensor, answer: Tensor | None = None) -> Predictions:
        """Compute predictions; `answer` is the class whose margin is wanted, by default the one predicted."""
        predicted = logits.argmax(1)
        column = (predicted if answer is None else answer)[:, None]
        others = logits.scatter(1, column, -math.inf).amax(1)
        return Predictions(predicted, logits.gather(1, column).squeeze(1) - others)

    def tensors(self) -> dict[str, Tensor]:
        return {"predicted": self.predicted, "margin": self.margin}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The predictions of a network and of those it is compared with."""

    network: Predictions
    control: Predictions
    sees_all: Predictions | None = None  # for a network behind a view, one without it


@dataclass(frozen=True)
class NetworkEvidence:
    """The numbers that one network gives for the suspects."""

    gain: Statistic
    separation: Statistic | None  # None where no suspect is insisted on
    reliance: Statistic | None  # on what it does not see; None also where it sees everything
    before: float  # accuracy of its control network on the suspects
    right: float  # its own accuracy on the suspects


@dataclass(frozen=True)
class Evidence:
    """The numbers behind a verdict."""

    samples: int
    suspects: int
    error: float  # of the miner
    blind: float  # error of always predicting the largest class
    clear: int = 0  # suspects to which the deprived network clearly gives the miner's answer
    full: int = 0  # of these, with a full margin: the insisted ones
    networks: Mapping[str, NetworkEvidence] = field(default_factory=dict)  # taught, grey, ...
    border: BorderEvidence | None = None  # of a second look, where nothing else was found
    far_labels: FarLabels | None = None  # None where there are too few classes

    @property
    def insistence(self) -> float:
        return self.full / self.clear if self.clear else 0.0

    def numbers(self, name: NumberName) -> dict[str, Statistic]:
        """Return one number of every network that has it."""
        found = {network: getattr(each, name) for network, each in self.networks.items()}
        return {network: number for network, number in found.items() if number}

    @property
    def gain(self) -> tuple[str, Statistic] | None:
        """Return the network with the strongest gain, its p-value corrected for the choice of a network."""
        return strongest(self.numbers("gain"))

    @property
    def separation(self) -> tuple[str, Statistic] | None:
        """Return the network with the strongest separation, likewise."""
        return strongest(self.numbers("separation"))

    @property
    def reliance(self) -> tuple[str, Statistic] | None:
        """Return the network with the strongest reliance on what its view hides, likewise."""
        return strongest(self.numbers("reliance"))


def weigh(
    targets: Tensor,
    suspects: Suspects,
    deprived: Predictions | None = None,
    others: Mapping[str, Comparison] | None = None,
) -> Evidence:
    """Compute everything the verdict depends on; all margins are those of the miner's answers."""
    conflict, n = suspects.conflict, len(suspects)
    of_miner = Evidence(
        samples=n,
        suspects=int(conflict.sum()),
        error=float(conflict.double().mean()),
        blind=1 - int(torch.bincount(targets).max()) / n,
    )
    if deprived is None or not conflict.any():
        return of_miner
    margin = relative_margin(deprived.margin, conflict, suspects.predicted)
    full = margin >= FULL_MARGIN
    return replace(
        of_miner,
        clear=int((conflict & (margin >= CLEAR_MARGIN)).sum()),
        full=int((conflict & full).sum()),
        networks={
            name: _of_network(comparison, targets, suspects, full)
            for name, comparison in (others or {}).items()
        },
    )


def _of_network(
    comparison: Comparison, targets: Tensor, suspects: Suspects, full: Tensor
) -> NetworkEvidence:
    """Compute the numbers of one network; `full` marks samples with a full margin in the deprived one."""
    conflict, answer = suspects.conflict, suspects.predicted
    right = comparison.network.predicted == targets
    before = comparison.control.predicted == targets
    return NetworkEvidence(
        gain=statistics.gain(before, right, conflict),
        separation=statistics.separation(-comparison.network.margin, conflict, answer, among=full),
        reliance=_reliance(comparison, suspects, full),
        before=_share(before[conflict]),
        right=_share(right[conflict]),
    )


def _reliance(comparison: Comparison, suspects: Suspects, full: Tensor) -> Statistic | None:
    """Separate suspects from ordinary samples by the margin lost behind a view; None without a view."""
    if comparison.sees_all is None:
        return None
    conflict, answer = suspects.conflict, suspects.predicted
    whole, view = (
        relative_margin(each.margin, conflict, answer)
        for each in (comparison.sees_all, comparison.network)
    )
    return statistics.separation(whole - view, conflict, answer, among=full)


def _share(of: Tensor) -> float:
    return float(of.double().mean())

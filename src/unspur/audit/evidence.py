"""The evidence of an audit: numbers from the predictions of networks for samples not in their training.

The training data are cut into two halves. Each network is trained on one half and predicts the other:

    miner           learns easy features; the samples it gets wrong are the suspects
    deprived        an ordinary network, trained without the suspects of its half
    grey, centre,   like deprived, but they see no colours, no border, nothing coarse (light and shade, large
      detail,       areas), or nothing fine
      coarse
    taught          an ordinary network, trained on the suspects more often
    matched         an ordinary network, trained on as many random samples of each class more often

audit_networks.py has the table of them. A suspect contradicts a shortcut, is a hard sample, or has a wrong
label. Four numbers distinguish these causes.

*Gain* of a network over its control network (of taught over matched, of the views over deprived): the
accuracy gained on suspects plus the change on all other samples. On hard samples it is about 0: a network
trained on similar samples more often trades one mistake for another, and a network that sees less makes a
few other mistakes. On wrong labels it is about 0, too: a network predicts a wrong label only by mistake, and
it makes as many mistakes on other samples. That is the null hypothesis of its p-value. The gain is large if
suspects have something in common that the control network could not learn, or ignored in favour of
something easier: a shortcut.

The other three numbers use the margin of the miner's answer: its logit minus the best other logit, relative
to the margins of ordinary samples with that answer. They find shortcuts that are so strong, or contradicted
by so few samples, that no network learns to contradict them.

*Confident errors* (`insistence` in the code and in records): of the suspects to which the deprived network
clearly gives the miner's answer, the share to which it gives that answer with a full margin. Each of these
suspects is a *confident error*. Mistakes near a decision boundary get rarer with the margin, so the share is
low for hard samples. It is high for samples that contradict a shortcut, as the shortcut always holds in the
rest of the data, and for wrong labels, as the images themselves are ordinary.

*Separation*: the chance that a network gives a confident error a smaller margin than an ordinary sample with
the same answer. If labels are wrong at random, nothing separates the two: it is 1/2 for any network,
which is the null hypothesis of its p-value. If there is a shortcut, the images differ in everything else, and
a network that was taught, or that cannot see the shortcut, gives them smaller margins. Hard samples are
separated as well, but fewer of them are confident errors: mixtures of hard samples and wrong labels stay
below a limit of the sum of both numbers.

*Reliance* on what a view hides: the chance that a confident error loses more of its margin than an ordinary
sample with the same answer, from the matched network, which sees the whole image, to the network
that sees it through the view. It is 1/2 for wrong labels and at most that for hard samples: neither network
took part in choosing the suspects, so both find them hard. It is larger if the miner's answers depend on
what is hidden.
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
    """The predictions of a network for samples outside its training: classes and margins."""

    predicted: Tensor
    margin: Tensor

    @staticmethod
    def from_logits(logits: Tensor, answer: Tensor | None = None) -> Predictions:
        """Compute predictions; margins are those of the class `answer`, by default the predicted class."""
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
    sees_all: Predictions | None = None  # of the network without a view, if this one has a view


@dataclass(frozen=True)
class NetworkEvidence:
    """The numbers that one network gives for the suspects."""

    gain: Statistic
    separation: Statistic | None  # None if there is no confident error
    reliance: Statistic | None  # on what its view hides; None also if it has no view
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
    full: int = 0  # of these, with a full margin: the confident errors
    networks: Mapping[str, NetworkEvidence] = field(default_factory=dict)  # taught, grey, ...
    border: BorderEvidence | None = None  # None unless no other shortcut was found
    far_labels: FarLabels | None = None  # None if there are too few classes or mistakes

    @property
    def insistence(self) -> float:
        """Return the share of confident errors."""
        return self.full / self.clear if self.clear else 0.0

    def numbers(self, name: NumberName) -> dict[str, Statistic]:
        """Return one number of every network that has it."""
        found = {network: getattr(each, name) for network, each in self.networks.items()}
        return {network: number for network, number in found.items() if number}

    @property
    def gain(self) -> tuple[str, Statistic] | None:
        """Return the network with the strongest gain; the p-value is corrected for the number of networks."""
        return strongest(self.numbers("gain"))

    @property
    def separation(self) -> tuple[str, Statistic] | None:
        """Return the network with the strongest separation, with the corrected p-value."""
        return strongest(self.numbers("separation"))

    @property
    def reliance(self) -> tuple[str, Statistic] | None:
        """Return the network with the strongest reliance, with the corrected p-value."""
        return strongest(self.numbers("reliance"))


def weigh(
    targets: Tensor,
    suspects: Suspects,
    deprived: Predictions | None = None,
    others: Mapping[str, Comparison] | None = None,
) -> Evidence:
    """Compute all numbers that the verdict depends on; all margins are those of the miner's answers."""
    conflict, n = suspects.conflict, len(suspects)
    miner_evidence = Evidence(
        samples=n,
        suspects=int(conflict.sum()),
        error=float(conflict.double().mean()),
        blind=1 - int(torch.bincount(targets).max()) / n,
    )
    if deprived is None or not conflict.any():
        return miner_evidence
    margin = relative_margin(deprived.margin, conflict, suspects.predicted)
    full = margin >= FULL_MARGIN
    return replace(
        miner_evidence,
        clear=int((conflict & (margin >= CLEAR_MARGIN)).sum()),
        full=int((conflict & full).sum()),
        networks={
            name: _network_evidence(comparison, targets, suspects, full)
            for name, comparison in (others or {}).items()
        },
    )


def _network_evidence(
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
    """Separate suspects from ordinary samples by the margin lost through a view; None without a view."""
    if comparison.sees_all is None:
        return None
    conflict, answer = suspects.conflict, suspects.predicted
    whole, view = (
        relative_margin(each.margin, conflict, answer)
        for each in (comparison.sees_all, comparison.network)
    )
    return statistics.separation(whole - view, conflict, answer, among=full)


def _share(selected: Tensor) -> float:
    return float(selected.double().mean())

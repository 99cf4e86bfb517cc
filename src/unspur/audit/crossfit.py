"""Collect the predictions of networks for the half of the data that they were not trained on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..stages.context import Context
from ..stages.suspects import Suspects
from ..store import Artifact
from . import audit_networks
from .audit_networks import DEPRIVED, MINER
from .border_evidence import BorderEvidence
from .evidence import Comparison, Evidence, Predictions, weigh
from .far_labels import FarLabels, count_far_labels
from .halves import HALVES, cut_in_halves, matched_sample
from .preparation import check


@dataclass
class CrossFit:
    """The data of one audit cut into halves, and the artifacts of the networks trained on them so far."""

    context: Context
    artifacts: dict[tuple[str, int], Artifact] = field(default_factory=dict)  # by network and half
    border_only: bool = False  # whether networks without a view see only the border
    border: BorderEvidence | None = None  # evidence of networks that see only the border

    def __post_init__(self) -> None:
        check(self.context)
        self.targets = self.context.splits.train.targets
        seed = self.context.seed("audit/folds")
        self.half_of = cut_in_halves(self.targets, seed=seed, first=self.context.first_copies)

    def held_out(self, name: str, key: str) -> Tensor:
        """Return a stored tensor for all samples, each half from the network trained on the other half."""
        parts = [self.artifacts[name, half].tensors[key] for half in range(HALVES)]
        whole = torch.zeros(len(self.half_of), dtype=parts[0].dtype)
        for half, part in enumerate(parts):
            whole[self.half_of != half] = part
        return whole

    def predictions(self, name: str) -> Predictions:
        return Predictions(self.held_out(name, "predicted"), self.held_out(name, "margin"))

    @property
    def suspects(self) -> Suspects:
        """Return the samples that the miner gets wrong."""
        predicted = self.held_out(MINER, "predicted")
        return Suspects(self.held_out(MINER, "score"), predicted != self.targets, predicted)

    @property
    def matched(self) -> Tensor:
        """Select at random as many samples of each class and half as there are suspects."""
        groups = self.targets * HALVES + self.half_of
        seed = self.context.seed("audit/matched")
        return matched_sample(self.suspects.conflict, groups, seed=seed)

    def flagged(self) -> Suspects:
        """Return the suspects; only those that the deprived network gets wrong as well are flagged."""
        suspects = self.suspects
        if (DEPRIVED, 0) not in self.artifacts:
            return suspects
        confirmed = self.held_out(DEPRIVED, "predicted") != self.targets
        return replace(suspects, conflict=suspects.conflict & confirmed)

    def flagged_in(self, split: str) -> Suspects:
        """Return the suspects of a split; outside training, the two halves judge alternate samples."""
        if split == "train":
            return self.flagged()
        targets = self.context.splits.parts()[split].targets.cpu()
        predicted = self._alternate(MINER, f"{split}.predicted")
        confirmed = self._alternate(DEPRIVED, f"{split}.predicted") != targets
        score = self._alternate(MINER, f"{split}.score")
        return Suspects(score, (predicted != targets) & confirmed, predicted)

    def _alternate(self, name: str, key: str) -> Tensor:
        """Return a tensor whose rows come alternately from the two halves, so that no row depends on both."""
        whole = self.artifacts[name, 0].tensors[key].clone()
        whole[1::HALVES] = self.artifacts[name, 1].tensors[key][1::HALVES]
        return whole

    def evidence(self) -> Evidence:
        """Compute the evidence of the networks trained so far."""
        return replace(self._weigh(), border=self.border, far_labels=self._far_labels())

    def _far_labels(self) -> FarLabels | None:
        """Count labels that the miner finds unlikely; None if an earlier version stored the trainings."""
        miners = [self.artifacts[MINER, half].tensors for half in range(HALVES)]
        if any("far" not in tensors for tensors in miners):
            return None
        far, margin = self.held_out(MINER, "far"), self.held_out(MINER, "margin")
        chances = [float(tensors["far_chance"]) for tensors in miners]
        chance = sum(chances) / HALVES if all(chances) else 0.0
        return count_far_labels(far, margin, self.suspects.conflict, chance)

    def _weigh(self) -> Evidence:
        if (DEPRIVED, 0) not in self.artifacts:
            return weigh(self.targets, self.suspects)
        predictions = {name: self.predictions(name) for name, half in self.artifacts if half == 0}
        comparisons = {
            each.name: Comparison(
                predictions[each.name],
                control=predictions[each.control],
                sees_all=predictions.get(each.sees_all) if each.sees_all else None,
            )
            for each in audit_networks.compared()
            if each.control and each.name in predictions
        }
        return weigh(self.targets, self.suspects, predictions[DEPRIVED], comparisons)

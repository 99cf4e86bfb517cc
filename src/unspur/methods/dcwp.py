"""DCWP: learn which weights to keep, then retrain them; both use the debiasing loss (CVPR 2023)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import masks
from ..data.batches import Batch
from ..models.head import Tap
from ..training import losses
from ..training.method import Method, Player
from .entry import MethodEntry


class Debiased(Method):
    """Minimise ℓ_debias = ℓ_WCE + λ_align ℓ_align; oversampling of suspects replaces the weights of ℓ_WCE.

    With `group_weight` the cross entropy is also weighted by the paper's formula.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        head: str,
        align: float = 0.05,
        positives: losses.Positives = "either",
        temperature: float = 0.07,
        group_weight: float = 0.0,
    ):
        super().__init__()
        self.model = model
        self.tap = Tap(model, head)
        self.align, self.temperature, self.group_weight = align, temperature, group_weight
        self.positives: losses.Positives = positives

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        logits, features = self.tap(batch.x)
        each = losses.cross_entropy(logits, batch.y)
        named = {"cross_entropy": self._weighted(each, batch.conflict)}
        if self.align:
            named["alignment"] = self.align * losses.alignment(
                features,
                batch.y,
                batch.conflict,
                temperature=self.temperature,
                positives=self.positives,
            )
        return named

    def _weighted(self, each: Tensor, conflict: Tensor) -> Tensor:
        if self.group_weight:
            return losses.group_cross_entropy(each, conflict, up=self.group_weight)
        return each.mean()

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits


class MaskSearch(Debiased):
    """Minimise ℓ_debias plus a sparsity loss over the mask logits of a frozen network."""

    def __init__(
        self, model: nn.Module, *, sparsity: float, penalty: losses.Sparsity = "sum", **loss: object
    ):
        super().__init__(model, **loss)  # type: ignore[arg-type]
        self.sparsity = sparsity
        self.penalty: losses.Sparsity = penalty
        model.requires_grad_(False)
        self.masks = tuple(masks.learned(model).values())
        self.logits = tuple(mask.logits for mask in self.masks)
        for mask in self.masks:
            mask.logits.requires_grad_(True)
            mask.keeps_sums = penalty == "sum" and mask.cost is None

    def players(self) -> tuple[Player, ...]:
        return (Player("masks", self.logits),)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        self._forget_sums()  # of a pass outside this step
        debiasing = super().forward(batch, player)
        pressure = self.sparsity * self._penalty()
        self._forget_sums()  # a module with tensors that have gradients cannot be copied
        return {**debiasing, "sparsity": pressure}

    def _penalty(self) -> Tensor:
        """Return the penalty on all logits. Masks whose logits a kernel has added up are not read again."""
        sums = [mask.sums for mask in self.masks if mask.sums is not None]
        others = [mask for mask in self.masks if mask.sums is None]
        terms = [*([torch.cat(sums)] if sums else []), *(mask.logits for mask in others)]
        costs = [*([None] if sums else []), *(mask.cost for mask in others)]
        return losses.sparsity(terms, kind=self.penalty, costs=costs)

    def _forget_sums(self) -> None:
        for mask in self.masks:
            mask.sums = None


STAGES = ("mine", "pretrain", "prune", "finetune")
PAPER = "Park et al., CVPR 2023"
TWO = "2: miner, main"

DCWP = MethodEntry("dcwp", "DCWP", PAPER, TWO, STAGES)
PRESET = MethodEntry(
    "unspur",
    "unspur",
    "our preset, for every data set and for own images",
    "3: miner, ordinary, main",
    stages=("mine", "pretrain", "adapt", "prune", "finetune"),
)
FIRST_PRESET = MethodEntry(
    "unspur-1", "unspur, first preset", "our first preset of DCWP", TWO, STAGES, plan="dcwp"
)
RELEASED = MethodEntry("released-code", "DCWP, released code", PAPER, TWO, STAGES, plan="dcwp")
PAPER_TEXT = MethodEntry("paper-text", "DCWP, paper's text", PAPER, TWO, STAGES, plan="dcwp")
EARLY_STOPPED = MethodEntry(
    "dcwp-erm", "DCWP_ERM", PAPER, "2: stopped early, main", STAGES, plan="dcwp"
)
UNPRUNED = MethodEntry(
    "dcwp-unpruned",
    "DCWP without pruning",
    PAPER,
    TWO,
    stages=("mine", "pretrain", "finetune"),
    plan="unpruned",
)

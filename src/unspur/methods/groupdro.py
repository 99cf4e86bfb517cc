"""GroupDRO: minimise the loss of the worst groups (Sagawa et al., ICLR 2020)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from ..training.method import MethodInputs
from ..training.sections import Beta, MethodSettings, Rate, Weight
from .entry import MethodEntry, OwnStage
from .erm import ERM


class GroupDRO(ERM):
    """Minimise Σ_g q_g ℓ_g, where q puts more weight on groups with a high loss.

    A group is a (target, bias) pair; `counts` (targets, biases) holds the number of training samples of each.
    """

    uses_bias_labels: ClassVar[bool] = True
    share: Tensor
    adjusted: Tensor

    def __init__(
        self, model: nn.Module, *, counts: Tensor, eta: float = 0.01, adjustment: float = 0.0
    ):
        super().__init__(model)
        self.eta, self.biases = eta, counts.shape[1]
        occupied = counts.flatten() > 0
        self.register_buffer("share", occupied.float() / occupied.sum())
        self.register_buffer("adjusted", adjustment / counts.flatten().clamp(min=1).sqrt())

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        assert batch.bias is not None, "declared by uses_bias_labels"
        each = losses.cross_entropy(self.model(batch.x), batch.y)
        return {"worst_groups": self.robust(each, batch.y * self.biases + batch.bias)}

    def robust(self, each: Tensor, groups: Tensor) -> Tensor:
        """Update q in place from the mean losses of the groups; return their sum weighted by q."""
        by_group = group_means(each, groups, len(self.share))
        with torch.no_grad():
            tilted = self.share * torch.exp(self.eta * (by_group + self.adjusted))
            self.share.copy_(tilted / tilted.sum())
        return (self.share.clone() * by_group).sum()


def group_means(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """Return the mean over every group; 0 for an empty one."""
    member = groups[:, None] == torch.arange(count, device=groups.device)
    return torch.where(member, values[:, None], 0.0).sum(0) / member.sum(0).clamp(min=1)


class GroupDROSettings(MethodSettings):
    """Settings of GroupDRO."""

    rate: Rate = 1e-2
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    eta: Weight = 0.01
    adjustment: Weight = 0.0


def build(model: nn.Module, inputs: MethodInputs, settings: GroupDROSettings) -> GroupDRO:
    """Build the method from the group sizes of the training split."""
    options = settings.model_dump(include={"eta", "adjustment"})
    return GroupDRO(model, counts=inputs.group_counts, **options)


ENTRY = MethodEntry(
    "groupdro",
    "GroupDRO",
    "Sagawa et al., ICLR 2020",
    "1",
    stages=("groupdro",),
    supervision="bias labels",
    own_stage=OwnStage(GroupDROSettings, build, GroupDRO, balance_groups=True),
)

"""LC: correct the logits by the prediction from the bias, and mix across groups (Liu et al., ICLR 2023)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from .. import noise
from ..data.batches import Batch
from ..models.head import evaluating
from ..training import losses
from ..training.method import MethodInputs
from ..training.sections import Beta, MethodSettings, Power, Steps, Weight
from .entry import MethodEntry, OwnStage
from .erm import ERM

PARTNER, WEIGHT = 800, 801  # streams of random numbers
TINY = 1e-6


class LC(ERM):
    """Minimise GCE of a biased network, and cross entropy of the main network on corrected logits.

    The prediction b of the biased network stands for the bias. p(y | b) is estimated from running averages
    of how often class y occurs with prediction b, and the loss is CE(f(x) + τ log p(y | b), y). A sample
    that the bias explains then has a small gradient. `mix` blends each image with one of the same class
    from the other group (suspects with other samples), with a weight below one half. The correction is
    blended in the same way.
    """

    mixes_images: ClassVar[bool] = True
    joint: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        biased: nn.Module,
        classes: int,
        tau: float = 1.0,
        q: float = 0.7,
        memory: float = 0.99,
        mix: bool = True,
        seed: int = 0,
    ):
        super().__init__(model)
        self.biased = biased
        self.tau, self.q, self.memory, self.mix, self.seed = tau, q, memory, mix, seed
        self.register_buffer("joint", torch.full((classes, classes), 1 / classes**2))

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        easy = self.biased(batch.x)
        belief = torch.softmax(easy.detach().float(), dim=1)
        prior = self.prior(batch.y, belief)
        x, prior = self.mix_groups(batch, belief.argmax(1) != batch.y, prior)
        logits = self.model(x)
        corrected = logits + self.tau * prior.log().to(logits.dtype)
        return {
            "biased": losses.gce_released(easy, batch.y, q=self.q).mean(),
            "corrected": losses.cross_entropy(corrected, batch.y).mean(),
        }

    @torch.no_grad()
    def prior(self, y: Tensor, belief: Tensor) -> Tensor:
        """Update the running averages in place; return p(class | prediction) for each sample (N, classes)."""
        if self.training:
            classes = torch.arange(len(self.joint), device=y.device)
            seen = (y == classes[:, None]).to(belief.dtype) @ belief / len(y)
            self.joint.mul_(self.memory).add_((1 - self.memory) * seen)
        conditional = (self.joint + TINY) / (self.joint + TINY).sum(0)  # column b: p(y | b)
        return belief @ conditional.mT

    def mix_groups(self, batch: Batch, suspect: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Blend images and priors with a sample of the same class from the other group, if there is one."""
        if not self.mix:
            return batch.x, prior
        n, device = len(batch.y), batch.y.device
        fits = (batch.y[:, None] == batch.y) & (suspect[:, None] != suspect)
        draw = noise.uniform(self.seed, batch.step, PARTNER, (n, n), device)
        best = torch.where(fits, draw, -1.0).max(1)
        weight = noise.uniform(self.seed, batch.step, WEIGHT, (n,), device) / 2
        weight = torch.where(best.values >= 0, weight, 0.0)
        blend = weight[:, None, None, None].to(batch.x.dtype)
        x = torch.lerp(batch.x, batch.x[best.indices], blend)
        return x, torch.lerp(prior, prior[best.indices], weight[:, None].to(prior.dtype))


class LCSettings(MethodSettings):
    """Settings of LC; the defaults are 100 epochs of CMNIST."""

    steps: Steps = 23_500
    tau: Weight = 1.0
    q: Power = 0.7
    memory: Beta = 0.99
    mix: bool = True


def build(model: nn.Module, inputs: MethodInputs, settings: LCSettings) -> LC:
    """Build the method with a second, biased network."""
    return LC(
        model,
        biased=inputs.another_network("biased"),
        classes=_outputs(model, inputs.example),
        seed=inputs.seed("mix"),
        **settings.model_dump(include={"tau", "q", "memory", "mix"}),
    )


@torch.no_grad()
def _outputs(model: nn.Module, example: Tensor) -> int:
    """Return the number of logits of a network; the last classes may have no training sample."""
    with evaluating(model):
        return int(model(example).shape[1])


ENTRY = MethodEntry(
    "lc",
    "LC",
    "Liu et al., ICLR 2023",
    "2, jointly",
    stages=("lc",),
    own_stage=OwnStage(LCSettings, build, LC, cost=2.0),
)

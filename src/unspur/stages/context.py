"""What the stages of one run share: data, network, seeds, and samples kept out of training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from .. import noise
from ..data.batches import Preprocess, Resident, Source
from ..data.splits import Part, Split, Splits, fast_layout
from ..data.streaming import Streaming, fit_on
from ..errors import RecipeError
from ..hashing import digest
from ..methods import own_stages
from ..models import Builder
from ..models.head import check_outputs, find_head
from ..recipes import Recipe
from ..store import Store
from ..training.inputs import Progress
from .corrections import Corrections, check_left


class Advice(Protocol):
    """What a judge says before anything is trained: whether to debias, and why."""

    @property
    def verdict(self) -> str: ...
    @property
    def debias(self) -> bool: ...
    @property
    def text(self) -> str: ...


ModuleT = TypeVar("ModuleT", bound=nn.Module)
Show = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True)
class Context:
    """What the stages of one run share."""

    recipe: Recipe
    splits: Splits
    builder: Builder
    store: Store
    device: torch.device
    show: Show
    corrections: Corrections | None = None  # suspects that a user has looked at
    judge: Callable[[], Advice] | None = None  # asked first; None: the plan is run as it is

    def __post_init__(self) -> None:
        if self.corrections is not None:
            check_left(self.corrections, self.splits.train.targets, self.splits.classes)
        given, channels = len(self.recipe.data.mean), self.splits.train.shape[0]
        if given not in (0, 1, channels):
            raise RecipeError(
                f"data.mean has {given} numbers, the images {channels} channels. Give one for each."
            )

    def ready(self) -> None:
        """Do now what a run would do first: load libraries, bring the data to the device, digest it."""
        for split in self.splits.parts().values():
            self.source(split)
        torch.optim.Adam([nn.Parameter(torch.zeros(1))])  # its first use loads much of torch

    @cached_property
    def initial(self) -> dict[str, Tensor]:
        """The main network before any training."""
        model = self.builder.build(self.seed("model"))
        check_outputs(model, self.probe, len(self.splits.classes))
        return {k: v.clone() for k, v in model.state_dict().items()}

    @cached_property
    def head(self) -> str:
        return self.recipe.model.head or find_head(self.network(), self.probe)

    @property
    def final(self) -> Builder:
        """Builds the network that the plan ends in: the run's own, unless the method says otherwise."""
        entry = own_stages().get(self.recipe.plan)
        if entry is None or entry.own_stage is None or entry.own_stage.final is None:
            return self.builder
        return entry.own_stage.final(self.builder, find_head(self.network(), self.probe))

    def bias(self, split: str = "train") -> Tensor:
        """The bias labels of a split, for the methods that need to be told them."""
        if split not in self.splits.bias:
            spoken = {"train": "training", "valid": "validation"}[split]
            raise RecipeError(
                f'plan = "{self.recipe.plan}" needs bias labels of the {spoken} split; there are none. '
                "`unspur methods` lists the methods that do without."
            )
        return self.splits.bias[split]

    @property
    def probe(self) -> Tensor:
        """Two images as network input, on the CPU."""
        return self.preprocess(
            self.splits.train.take(torch.tensor([0, len(self.splits.train) - 1]))
        )

    @property
    def preprocess(self) -> Preprocess:
        return Preprocess(self.recipe.data.mean, self.recipe.data.std)

    def seed(self, use: str) -> int:
        """A seed of its own for each use of the run's seed."""
        text = f"{self.recipe.seed}/{use}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def network(
        self, weights: Mapping[str, Tensor] | None = None, *, seed: str = "model"
    ) -> nn.Module:
        """A fresh network on the CPU, with the given weights."""
        model = self.builder.build(self.seed(seed))
        if weights is not None:
            model.load_state_dict(dict(weights))
        return model

    def outcome(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """The network a plan ends in, on the CPU, with the given weights."""
        model = self.final.build(self.seed("model"))
        model.load_state_dict(dict(weights))
        return model

    def place(self, module: ModuleT) -> ModuleT:
        """Move a module to the device, in the memory layout that is fast there."""
        if any(p.dim() > 4 for p in module.parameters()):
            return module.to(self.device)
        layout = fast_layout(self.device)
        placed: ModuleT = module.to(self.device, memory_format=layout)  # type: ignore[call-overload]
        return placed

    @cached_property
    def held_out(self) -> Tensor:
        """Training samples to select an iterate by; fixed by (seed, index)."""
        n = len(self.splits.train)
        if self.recipe.select.rule == "last" or self.splits.valid is not None:
            return torch.zeros(n, dtype=torch.bool)
        u = noise.uniform(self.seed("heldout"), 0, noise.HOLD_OUT, (n,))
        held = u < self.recipe.select.share
        targets = self.splits.train.targets.cpu()
        for c in range(len(self.splits.classes)):  # of each class one at least is trained on
            members = (targets == c).nonzero().squeeze(1)
            if len(members):
                held[members[u[members].argmax()]] = False
        return held if self.corrections is None else held & ~self.corrections.excluded

    @property
    def kept_out(self) -> Tensor:
        """Training samples that no stage trains on: those held out, and those a user excludes."""
        return (
            self.held_out if self.corrections is None else self.held_out | self.corrections.excluded
        )

    @cached_property
    def streams(self) -> bool:
        """Whether images come to the device batch by batch, rather than all at once."""
        asked = self.recipe.data.source
        fit = fit_on(self.splits.parts().values(), self.device)
        return not fit if asked == "auto" else asked == "streaming"

    def source(self, split: Part, **kwargs: Any) -> Source:
        kwargs |= {"device": self.device, "preprocess": self.preprocess}
        if isinstance(split, Split) and not self.streams:
            return Resident(split, **kwargs)
        return Streaming(split, workers=self.recipe.data.workers, **kwargs)

    @cached_property
    def train(self) -> Source:
        return self.source(self.splits.train)

    @cached_property
    def valid(self) -> Source | None:
        return None if self.splits.valid is None else self.source(self.splits.valid)

    @cached_property
    def unseen(self) -> tuple[str, Tensor] | None:
        """Samples outside training, as (split, which of it): validation, or those kept out of train."""
        if self.splits.valid is not None:
            return "valid", torch.ones(len(self.splits.valid), dtype=torch.bool)
        return ("train", self.held_out) if bool(self.held_out.any()) else None

    def resident(self, split: str) -> Source:
        """A split as it is."""
        return self.valid if split == "valid" and self.valid is not None else self.train

    @cached_property
    def initial_digest(self) -> str:
        return digest(" ".join(self.initial), *self.initial.values())

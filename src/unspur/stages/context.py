"""What the stages of one run share: data, network, seeds, and the keys under which results are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .. import noise
from ..data.batches import Preprocess, Resident, Source
from ..data.splits import Part, Split, Splits, fast_layout
from ..data.streaming import Streaming, fit_on
from ..errors import RecipeError
from ..hashing import digest
from ..methods import METHODS
from ..models import Builder, builder, paired
from ..models.head import check_outputs, find_head
from ..recipes.settings import PLANS, Recipe, Section
from ..store import Artifact, Store
from ..training.inputs import Progress
from ..training.loop import under
from .corrections import Corrections, check_left

# Raised for a stage whose result would change under the same settings.
VERSIONS: dict[str, int] = {"evaluate": 2, "refit": 2}
# What a stage takes from those before it, as far as the plan has them.
NEEDS: dict[str, tuple[str, ...]] = {
    "prune": ("mine", "pretrain"),
    "control": ("mine", "pretrain", "prune"),
    "finetune": ("mine", "pretrain", "prune", "control"),
    "refit": ("mine", "pretrain"),
}

ModuleT = TypeVar("ModuleT", bound=nn.Module)
Show = Callable[[str], AbstractContextManager[Progress | None]]
Made = dict[str, Artifact]
Result = tuple[dict[str, Tensor], dict[str, Any]]


def weights_of(made: Made, stage: str) -> dict[str, Tensor]:
    """The network that a stage made."""
    tensors = made[stage].tensors
    return dict(tensors) if stage == "pretrain" else under(tensors, "weights.")


def last_stage(made: Made) -> str | None:
    """The last stage that made a network, if there is one yet."""
    return next((stage for stage in reversed(made) if stage != "mine"), None)


def masks_of(made: Made) -> dict[str, Tensor]:
    """The masks in force; none where nothing was pruned."""
    stage = next((stage for stage in ("control", "prune") if stage in made), None)
    return under(made[stage].tensors, "keep.") if stage else {}


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
        self.plan()

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
        """Builds the network a plan ends in: the run's own, or for DisEnt two of it under one head."""
        if self.recipe.plan != "disent":
            return self.builder
        return paired(self.builder, find_head(self.network(), self.probe))

    @property
    def biased(self) -> Builder:
        """Builds ReBias's network that can only see the bias."""
        network = self.recipe.rebias.network
        return builder(network.name, len(self.splits.classes), network.options, init=network.init)

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

    # -- keys ------------------------------------------------------------------------------------

    def ingredients(self, stage: str, keys: Mapping[str, str]) -> dict[str, Any]:
        """What a stage's result depends on, given the keys of its parents."""
        settings: Section = getattr(self.recipe, stage)
        recipe = self.recipe
        made: dict[str, Any] = {
            "stage": stage,
            "version": VERSIONS.get(stage, 1),
            "settings": settings.model_dump(mode="json"),
            "seed": recipe.seed,
            "parents": {name: keys[name] for name in NEEDS.get(stage, ()) if name in keys},
            "device": self.device.type,
            "precision": recipe.precision,
            "deterministic": recipe.deterministic,
            "compile": recipe.compile,
            "data": self.splits.digest,
            "input": recipe.data.model_dump(mode="json", include={"augment", "mean", "std"}),
            "kept_out": digest("", self.kept_out),
            "builder": self.builder.source,
            "initial": self.initial_digest,
        }
        if stage in ("prune", "finetune", "refit", "end", "rebias"):
            made["head"] = self.head
        if stage == "finetune":
            made["select"] = recipe.select.model_dump(mode="json")
        if stage == "mine" and recipe.mine.how == "oracle":
            made["truth"] = self.splits.truth_digest
        if self.corrections is not None and bool(self.corrections.excluded.any()):
            made["held_out"] = digest("", self.held_out)
        if stage == "mine" and self.corrections is not None:
            made["given"] = self.corrections.digest
        if stage == "rebias":
            made["biased"] = self.biased.source
            if recipe.rebias.network.init:
                start = self.biased.build(self.seed("biased")).state_dict()
                made["biased_initial"] = digest(" ".join(start), *start.values())
        if stage in METHODS and METHODS[stage].uses_bias_labels:
            made["bias"] = digest("", self.bias())
        if stage == "refit" and "mine" not in keys:
            self.bias(recipe.refit.on)  # or an error
            conflicting = self.splits.conflicting(recipe.refit.on)
            made["conflicting"] = None if conflicting is None else digest("", conflicting)
        return made

    @cached_property
    def initial_digest(self) -> str:
        return digest(" ".join(self.initial), *self.initial.values())

    def plan(self) -> list[dict[str, Any]]:
        """The ingredients of every stage of the recipe's plan, in order."""
        keys: dict[str, str] = {}
        made = []
        for stage in PLANS[self.recipe.plan]:
            made.append(self.ingredients(stage, keys))
            keys[stage] = self.store.path(made[-1]).name
        return made

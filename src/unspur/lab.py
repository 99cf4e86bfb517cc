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

from . import noise
from .data.source import Preprocess, Resident
from .data.splits import Split, Splits, digest
from .errors import RecipeError
from .features import check_outputs, find_head
from .models import Builder
from .recipe import Recipe, Section
from .store import Artifact, Store
from .train import Progress

VERSIONS = {"mine": 1, "pretrain": 1, "prune": 1, "finetune": 1, "evaluate": 1}
NEEDS: dict[str, tuple[str, ...]] = {
    "mine": (),
    "pretrain": (),
    "prune": ("mine", "pretrain"),
    "finetune": ("mine", "pretrain", "prune"),
}
PLANS: dict[str, tuple[str, ...]] = {
    "erm": ("pretrain",),
    "dcwp": ("mine", "pretrain", "prune", "finetune"),
}

ModuleT = TypeVar("ModuleT", bound=nn.Module)
Show = Callable[[str], AbstractContextManager[Progress | None]]
Made = dict[str, Artifact]
Result = tuple[dict[str, Tensor], dict[str, Any]]


@dataclass(frozen=True)
class Lab:
    """What the stages of one run share."""

    recipe: Recipe
    splits: Splits
    builder: Builder
    store: Store
    device: torch.device
    show: Show

    def __post_init__(self) -> None:
        given, channels = len(self.recipe.data.mean), self.splits.train.images.shape[1]
        if given not in (0, 1, channels):
            raise RecipeError(
                f"data.mean has {given} numbers, the images {channels} channels. Give one for each."
            )

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
    def probe(self) -> Tensor:
        """Two images as network input, on the CPU."""
        return self.preprocess(self.splits.train.images[[0, -1]])

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

    def place(self, module: ModuleT) -> ModuleT:
        """Move a module to the device, in the memory layout that is fast there."""
        flat = all(p.dim() < 5 for p in module.parameters())
        if self.device.type != "cuda" or not flat:
            return module.to(self.device)
        placed: ModuleT = module.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return placed

    @cached_property
    def kept_out(self) -> Tensor:
        """Training samples that no stage trains on, to select an iterate by; fixed by (seed, index)."""
        n = len(self.splits.train)
        if self.recipe.select.rule == "last" or self.splits.valid is not None:
            return torch.zeros(n, dtype=torch.bool)
        u = noise.uniform(self.seed("heldout"), 0, noise.HOLD_OUT, (n,))
        return u < self.recipe.select.share

    def source(self, split: Split, **kwargs: Any) -> Resident:
        return Resident(split, device=self.device, preprocess=self.preprocess, **kwargs)

    @cached_property
    def train(self) -> Resident:
        return self.source(self.splits.train)

    @cached_property
    def valid(self) -> Resident | None:
        return None if self.splits.valid is None else self.source(self.splits.valid)

    @cached_property
    def unseen(self) -> tuple[str, Tensor] | None:
        """Samples outside training, as (split, which of it): validation, or those kept out of train."""
        if self.splits.valid is not None:
            return "valid", torch.ones(len(self.splits.valid), dtype=torch.bool)
        return ("train", self.kept_out) if bool(self.kept_out.any()) else None

    def resident(self, split: str) -> Resident:
        """A split on the device, as it is."""
        return self.valid if split == "valid" and self.valid is not None else self.train

    # -- keys ------------------------------------------------------------------------------------

    def ingredients(self, stage: str, keys: Mapping[str, str]) -> dict[str, Any]:
        """What a stage's result depends on, given the keys of its parents."""
        settings: Section = getattr(self.recipe, stage)
        recipe = self.recipe
        made: dict[str, Any] = {
            "stage": stage,
            "version": VERSIONS[stage],
            "settings": settings.model_dump(mode="json"),
            "seed": recipe.seed,
            "parents": {name: keys[name] for name in NEEDS[stage]},
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
        if stage in ("prune", "finetune"):
            made["head"] = self.head
        if stage == "finetune":
            made["select"] = recipe.select.model_dump(mode="json")
        if stage == "mine" and recipe.mine.how == "oracle":
            made["truth"] = self.splits.truth_digest
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

"""The context that all stages of a run share: data, network, seeds, and samples kept out of training."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from .. import noise
from ..data.batches import Preprocess, Resident, Source
from ..data.copies import first_copies, without_divided
from ..data.splits import Part, Split, Splits, fast_layout
from ..data.streaming import Streaming, fits_on
from ..errors import Interrupted, RecipeError
from ..methods import own_stages
from ..models import Builder
from ..models.head import check_head, check_outputs, find_head
from ..parallel import any_of
from ..recipes import Recipe
from ..store import Store
from ..store.hashing import digest
from ..training.inputs import Progress
from .corrections import Corrections, check_left
from .log_hook import LogHook
from .suspects import Suspects

# The share of suspects that is kept out of training besides held-out ones; a quarter in total.
RESERVED = 1 / 6


class Advice(Protocol):
    """The advice of the judge before training: whether to debias, and why."""

    @property
    def verdict(self) -> str: ...
    @property
    def debias(self) -> bool: ...
    @property
    def text(self) -> str: ...


class Miner(Protocol):
    """Networks that find the suspects of a run and are trained outside of its plan."""

    @property
    def keys(self) -> Mapping[str, str]:
        """The store keys that the suspects depend on."""

    def __call__(self) -> Mapping[str, Suspects]:
        """Return the suspects of every split."""

    def cost(self) -> tuple[int, float]:
        """Return the remaining steps and roughly the seconds that they take."""


ModuleT = TypeVar("ModuleT", bound=nn.Module)
Show = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True)
class Context:
    """The inputs that all stages of a run share."""

    recipe: Recipe
    splits: Splits
    builder: Builder
    store: Store
    device: torch.device
    show: Show
    on_log: LogHook | None = None  # called with losses and scores while they are measured
    corrections: Corrections | None = None  # a user's corrections of the suspects
    judge: Callable[[], Advice] | None = None  # asked before training; None: run the whole plan
    miner: Miner | None = None  # finds the suspects of own images; None: the plan has its own miner
    measures_gain: bool = True  # for own images; False if the ordinary model is the result

    def __post_init__(self) -> None:
        if self.corrections is not None:
            check_left(self.corrections, self.splits.train.targets, self.splits.classes)
        numbers, channels = len(self.recipe.data.mean), self.splits.train.shape[0]
        if numbers not in (0, 1, channels):
            raise RecipeError(
                f"data.mean has {numbers} numbers, but the images have {channels} channels. Give one number "
                "for each channel."
            )

    def ready(self) -> None:
        """Prepare a run in advance: move the data to the device."""
        for split in self.splits.parts().values():
            self.source(split)

    @contextmanager
    def training(self, name: str) -> Iterator[Progress | None]:
        """Show the progress of a training, and add its name to the message if the user stops it."""
        with self.show(name) as progress:
            try:
                yield progress
            except Interrupted as stop:
                raise Interrupted(f"{name}: {stop}") from None

    @cached_property
    def initial(self) -> dict[str, Tensor]:
        """The weights of the main network before any training."""
        model = self.builder.build(self.seed("model"))
        check_outputs(model, self.probe, len(self.splits.classes))
        return {k: v.clone() for k, v in model.state_dict().items()}

    @cached_property
    def head(self) -> str:
        """The name of the layer that computes the logits."""
        if not (name := self.recipe.model.head):
            return find_head(self.network(), self.probe)
        check_head(self.network(), name, self.probe)
        return name

    @property
    def final(self) -> Builder:
        """The builder of the final network of the plan: the main network, unless the method has another."""
        entry = own_stages().get(self.recipe.stages[-1])
        if entry is None or entry.own_stage is None or entry.own_stage.final is None:
            return self.builder
        return entry.own_stage.final(self.builder, find_head(self.network(), self.probe))

    def bias(self, split: str = "train") -> Tensor:
        """Return the bias labels of a split, for methods that need them; raise if there are none."""
        if split not in self.splits.bias:
            name = {"train": "training", "valid": "validation"}[split]
            raise RecipeError(
                f'plan = "{self.recipe.plan}" needs bias labels of the {name} split; there are none. '
                "`unspur methods` lists methods that do not need them."
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
        """The function that turns pixels into network input, with the recipe's mean and std."""
        return Preprocess(self.recipe.data.mean, self.recipe.data.std)

    def seed(self, purpose: str) -> int:
        """Return a different seed for each purpose, all derived from the seed of the run."""
        text = f"{self.recipe.seed}/{purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def network(
        self, weights: Mapping[str, Tensor] | None = None, *, seed: str = "model"
    ) -> nn.Module:
        """Return a new main network on the CPU, with these weights or random ones."""
        if weights is not None:
            return self.builder.build_loaded(weights, self.seed(seed))
        return self.builder.build(self.seed(seed))

    def final_network(self, weights: Mapping[str, Tensor]) -> nn.Module:
        """Return the final network of the plan on the CPU, with these weights."""
        return self.final.build_loaded(weights, self.seed("model"))

    def place(self, module: ModuleT) -> ModuleT:
        """Move a module to the device, in the memory layout that is fast on it."""
        if any(p.dim() > 4 for p in module.parameters()):
            return module.to(self.device)
        layout = fast_layout(self.device)
        placed: ModuleT = module.to(self.device, memory_format=layout)  # type: ignore[call-overload]
        return placed

    @cached_property
    def first_copies(self) -> Tensor | None:
        """The index of the first copy of each training image; None if there are hardly any copies."""
        return first_copies(self.splits.train)

    def _alike_for_copies(self, numbers: Tensor) -> Tensor:
        """Return random numbers of the training samples, the same for all copies of an image."""
        return numbers if self.first_copies is None else numbers[self.first_copies]

    @cached_property
    def held_out(self) -> Tensor:
        """Held-out training samples, which are used for selection only; a function of (seed, index)."""
        n = len(self.splits.train)
        if self.recipe.select.rule == "last" or self.splits.valid is not None:
            return torch.zeros(n, dtype=torch.bool)
        u = self._alike_for_copies(noise.uniform(self.seed("heldout"), 0, noise.HOLD_OUT, (n,)))
        held = u < self.recipe.select.share
        targets = self.splits.train.targets.cpu()
        for c in range(len(self.splits.classes)):  # train on at least one sample of each class
            members = (targets == c).nonzero().squeeze(1)
            if len(members):
                held[members[u[members].argmax()]] = False
        return held if self.corrections is None else held & ~self.corrections.excluded

    @property
    def reserves(self) -> bool:
        """Whether more suspects are kept out of training, as there is no validation split for the gain."""
        if self.miner is None or not self.measures_gain or self.recipe.select.rule == "last":
            return False
        return self.splits.valid is None

    @cached_property
    def reserved(self) -> Tensor:
        """Further suspects kept out of training, which are used for selection and to measure the gain."""
        n = len(self.splits.train)
        if self.miner is None or not self.reserves:
            return torch.zeros(n, dtype=torch.bool)
        conflict = self.miner()["train"].conflict  # corrected flags would change the ordinary model
        u = self._alike_for_copies(noise.uniform(self.seed("reserve"), 0, noise.HOLD_OUT, (n,)))
        chosen = conflict & (u < RESERVED) & ~self._kept_out_before
        reserved = without_divided(chosen, self.first_copies)
        targets = self.splits.train.targets.cpu()
        for c in torch.unique(targets[reserved]).tolist():  # train on one sample of each class
            if bool((reserved | self._kept_out_before)[targets == c].all()):
                reserved &= targets != c
        return reserved

    @property
    def _kept_out_before(self) -> Tensor:
        """Samples kept out of training that are known before mining: held out, or excluded by a user."""
        return (
            self.held_out if self.corrections is None else self.held_out | self.corrections.excluded
        )

    @property
    def kept_out(self) -> Tensor:
        """All training samples that no stage trains on: held out, excluded by a user, or reserved."""
        return self._kept_out_before | self.reserved

    @property
    def kept_out_digest(self) -> str:
        """A hash of the samples kept out of training, which is known before mining."""
        reserve = f"{RESERVED} of {self.miner.keys}" if self.miner and self.reserves else ""
        reserve += " with all copies" if reserve and self.first_copies is not None else ""
        return digest(reserve, self._kept_out_before)

    @cached_property
    def streams(self) -> bool:
        """Whether images are moved to the device batch by batch, rather than all at once."""
        mode = self.recipe.data.source
        if mode != "auto":
            return mode == "streaming"
        return any_of(not fits_on(self.splits.parts().values(), self.device))

    def source(self, split: Part, **kwargs: Any) -> Source:
        """Return the batches of a split on the device; images are resident there or streamed."""
        kwargs |= {"device": self.device, "preprocess": self.preprocess}
        if isinstance(split, Split) and not self.streams:
            return Resident(split, **kwargs)
        return Streaming(split, workers=self.recipe.data.workers, **kwargs)

    @cached_property
    def train(self) -> Source:
        """The training split without augmentation, and with no labels besides the targets."""
        return self.source(self.splits.train)

    @cached_property
    def valid(self) -> Source | None:
        """The validation split without augmentation, if there is one."""
        return None if self.splits.valid is None else self.source(self.splits.valid)

    @cached_property
    def unseen(self) -> tuple[str, Tensor] | None:
        """Samples outside of training, as (split, mask): the validation split, or held-out samples."""
        if self.splits.valid is not None:
            return "valid", torch.ones(len(self.splits.valid), dtype=torch.bool)
        return ("train", self.held_out) if bool(self.held_out.any()) else None

    @property
    def selection_samples(self) -> tuple[str, Tensor] | None:
        """Samples used for selection, as (split, mask): unseen samples and reserved suspects."""
        if self.unseen is None or self.unseen[0] == "valid":
            return self.unseen
        return "train", self.held_out | self.reserved

    def trains_on(self, split: str) -> bool:
        """Return whether a stage trains on a split other than the training split: a refit may."""
        recipe = self.recipe
        return "refit" in recipe.stages and split == recipe.refit.on != "train"

    def resident(self, split: str) -> Source:
        """Return the training or the validation split without augmentation."""
        return self.valid if split == "valid" and self.valid is not None else self.train

    @cached_property
    def initial_digest(self) -> str:
        """A hash of the initial weights."""
        return digest(" ".join(self.initial), *self.initial.values())

"""Every setting of a run and its default.

No default needs knowledge of the bias. Each stage has a table of settings. A method that is a separate stage
has its table in the file of the method; `recipe_class` adds these tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from ..data.benchmarks.registry import dataset_names
from ..deprecation import TRUE_GCE, renamed_value
from ..methods import own_stages, plans
from ..training.fit_options import FitOptions
from ..training.sections import (
    Batch,
    Beta,
    Interval,
    NetworkSettings,
    Power,
    Rate,
    Section,
    SeedNumber,
    Share,
    Since,
    Steps,
    TrainingSettings,
    Weight,
)

Chance = Annotated[float, Field(ge=0, le=1)]  # a probability
Strength = Annotated[float, Field(gt=0, le=1e6)]  # weight of the data term in a regression
Miner = Literal[
    "gce", "early-stopped", "epoch-ensemble", "augmented-ensemble", "oracle", "crossfit"
]


class DataSettings(Section):
    """Which data is used, and how pixels become network input."""

    name: str = "given"
    ratio: str = "1pct"
    seed: int = Field(0, ge=0, lt=2**63)
    size: int = Field(0, ge=0, le=8192)  # of images that can be resized; 0: their own size
    augment: Literal["none", "flip", "crop-flip", "resized-crop-flip"] = "none"
    spectrum: Chance = 0.0  # probability that an image is mixed with the spectrum of another
    style: Chance = 0.0  # probability that an image is mixed with the style of another
    mix: Chance = 0.0  # probability that an image is blended with another of its class
    mean: tuple[Annotated[float, Field(ge=-1e6, le=1e6)], ...] = ()
    std: tuple[Annotated[float, Field(gt=0, le=1e6)], ...] = ()
    source: Literal["auto", "resident", "streaming"] = "auto"
    workers: int = Field(0, ge=0, le=1024)  # processes that decode files; 0: one for each processor

    @field_validator("name")
    @classmethod
    def _known_data(cls, name: str) -> str:
        return _one_of(name, (*dataset_names(), "given"))

    @model_validator(mode="after")
    def _check_mean_and_std(self) -> DataSettings:
        if len(self.mean) != len(self.std):
            raise ValueError("data.mean and data.std must have the same number of values")
        return self


class StartSettings(Section):
    """How training begins. These settings are for networks that start from pretrained weights.

    `pretrained` loads the published weights of the network, from the file model.init if it is set. The
    learning rate rises over `warmup` steps. In pretraining only the head is trained for `head_first` steps.
    """

    pretrained: bool = False
    warmup: Since = 0
    head_first: Since = 0


class MineSettings(TrainingSettings):
    """How suspects are found.

    `crossfit` trains small networks on each half of the images, as in an audit, for `steps` steps each.
    `augmented-ensemble` is the epoch ensemble over augmented images, as the released code scores them.
    """

    how: Miner = "gce"
    q: Power = 0.7
    gce_form: Literal["released", "exact"] = "released"
    eta: Beta = 0.05
    warm_up: int = Field(0, ge=0, le=10_000)  # epochs of cross entropy before the miner's loss
    threshold: Share = 0.8
    steps: Steps = 2000
    batch: Batch = 256
    optimiser: Literal["adam", "sgd"] = "sgd"
    rate: Rate = 0.1
    weight_decay: Weight = 1e-4
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: Since = 600

    @field_validator("gce_form", mode="before")
    @classmethod
    def _renamed_form(cls, form: object) -> object:
        return renamed_value(form, "true", "exact", TRUE_GCE)


class PretrainSettings(TrainingSettings):
    """How the ordinary model is trained."""

    steps: Steps = 10_000
    batch: Batch = 256
    rate: Rate = 1e-2


class AdaptSettings(TrainingSettings):
    """How a network is trained on mixed images, from its initial weights or those of the ordinary model."""

    start: Literal["initial", "trained"] = "trained"
    steps: Steps = 5000
    batch: Batch = 256
    rate: Rate = 1e-3


class DebiasSettings(TrainingSettings):
    """The debiasing loss and how suspects are sampled.

    `up` is how often a suspect is sampled compared with others; with 0, suspects are a `share` of each batch.
    """

    align: Weight = 0.05
    positives: Literal["either", "column", "text"] = "either"
    temperature: float = Field(0.07, ge=1e-4, le=1e4)
    up: Weight = 0.0
    share: Share = 1 / 3
    cap: float = Field(100.0, ge=1, le=1e9)
    graded: float = Field(0.0, ge=0, le=10)  # sample suspects in proportion to this power of -log p
    group_weight: Weight = 0.0
    batch: Batch = 256


class PruneSettings(DebiasSettings):
    """How masks are learned or, for another `how`, computed so that a share `keep` of the weights remains.

    Masks are on single weights or on whole channels (`unit`). For channels, `keep` is a share of the
    multiply–adds; with `cut` = "share" it applies to learned masks too. The sparsity penalty counts weights
    or multiply–adds (`weigh`).
    """

    how: Literal["learned", "magnitude", "random", "grasp"] = "learned"
    unit: Literal["weight", "channel"] = "weight"
    cut: Literal["threshold", "share"] = "threshold"
    keep: Power = 0.1
    spread: Literal["global", "layer"] = "global"  # rank channels over all layers, or in each layer
    weigh: Literal["weights", "macs"] = "weights"
    steps: Steps = 2000
    rate: Rate = 1e-2
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    init: float = Field(1.5, ge=-100, le=100)
    noise: Literal["logit", "probability"] = "probability"
    penalty: Literal["sum", "absolute", "probability"] = "sum"
    sparsity: Weight = 1e-8
    keep_zero: bool = False
    batch_norm_batches: int = Field(50, ge=0, le=100_000)


class ControlSettings(Section):
    """Masks that replace the learned ones and keep the same number of weights, in every layer or overall."""

    how: Literal["random", "magnitude"] = "random"
    spread: Literal["layer", "global"] = "layer"


class FinetuneSettings(DebiasSettings):
    """How the remaining weights are retrained: from their current values, or from the initial ones."""

    start: Literal["trained", "initial"] = "trained"
    steps: Steps = 2000
    rate: Rate = 2e-3
    schedule: Literal["constant", "step", "cosine"] = "cosine"
    drop: Beta = 0.0
    iterates: tuple[Steps, ...] = ()


class RefitSettings(Section):
    """How the last layer is refitted on balanced groups."""

    on: Literal["train", "valid"] = "train"
    strengths: Annotated[tuple[Strength, ...], Field(min_length=1, max_length=1000)] = (
        1.0,
        0.7,
        0.3,
        0.1,
        0.07,
        0.03,
        0.01,
    )
    subsets: int = Field(10, gt=0, le=1000)


class SelectSettings(Section):
    """Which step of a training gives the result; no bias labels are used.

    `heldout` selects the step with the lowest balanced loss on held-out suspects and other samples: those of
    the validation split, or of a `share` of the training split if there is no validation split.
    """

    rule: Literal["last", "heldout"] = "heldout"
    share: Share = 0.1
    minimum: int = Field(10, gt=0, le=1_000_000)
    every: Interval = 100


class Recipe(Section):
    """All settings of a run."""

    name: str = "unspur"
    plan: str = "dcwp"
    seed: SeedNumber = 0
    judge: bool = False  # run an audit first, and return the ordinary model if it finds no shortcut
    precision: Literal["fp32", "tf32", "bf16"] = "tf32"
    deterministic: bool = True
    compile: bool = (
        False  # on a GPU: faster from about 40,000 steps on, or if it was compiled before
    )
    log_every: Interval = 100
    watch_every: Interval = 500
    checkpoint_every: Interval = 1000
    checkpoint_seconds: float = Field(10.0, ge=0, le=1e9)  # the least time between two checkpoints
    data: DataSettings = DataSettings()
    model: NetworkSettings = NetworkSettings()
    start: StartSettings = StartSettings()
    mine: MineSettings = MineSettings()
    pretrain: PretrainSettings = PretrainSettings()
    adapt: AdaptSettings = AdaptSettings()
    prune: PruneSettings = PruneSettings()
    control: ControlSettings = ControlSettings()
    finetune: FinetuneSettings = FinetuneSettings()
    refit: RefitSettings = RefitSettings()
    select: SelectSettings = SelectSettings()

    @field_validator("plan")
    @classmethod
    def _known_plan(cls, name: str) -> str:
        return _one_of(name, tuple(plans()))

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages of the recipe's plan, in order."""
        return plans()[self.plan]

    def table(self, stage: str) -> Section:
        """Return the settings of a stage."""
        found: Section | None = getattr(self, stage, None)
        if found is not None:
            return found
        own = own_stages()[stage].own_stage
        assert own is not None, "own_stages() lists no other methods"
        return own.settings()

    def fit_options(
        self, training: TrainingSettings, *, seed: int, begins: bool = False
    ) -> FitOptions:
        """Return the options of one training; `begins` says that it starts from the initial network."""
        options = training.options(
            precision=self.precision,
            deterministic=self.deterministic,
            compile=self.compile,
            log_every=self.log_every,
            checkpoint_every=self.checkpoint_every,
            checkpoint_seconds=self.checkpoint_seconds,
            seed=seed,
        )
        if not begins:
            return options
        start = self.start
        optimiser = replace(options.optimiser, warmup=start.warmup, head_first=start.head_first)
        return replace(options, optimiser=optimiser)

    def seeded(self, seed: int) -> Recipe:
        """Return the same recipe with another seed."""
        return self.model_copy(update={"seed": seed})


@cache
def recipe_class() -> type[Recipe]:
    """Return the class of recipes, with a table for every method that is a separate stage."""
    tables: dict[str, Any] = {
        name: (entry.own_stage.settings, entry.own_stage.settings())
        for name, entry in own_stages().items()
        if entry.own_stage is not None
    }
    return create_model("Recipe", __base__=Recipe, **tables)


def _one_of(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(f"Input should be {', '.join(map(repr, known))}")
    return name

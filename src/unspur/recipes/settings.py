"""Every setting of a run and its default, in one place.

The defaults are the `unspur` preset: no number in it needs knowledge of the bias. Each stage has a table of
settings. A method that is a stage of its own has its table in its own file; `recipe_class` adds those.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from ..data.benchmarks.registry import dataset_names
from ..methods import own_stages, plans
from ..training.fit_options import FitOptions
from ..training.sections import Beta, NetworkSettings, Section, TrainingSettings


class DataSettings(Section):
    """Which data, and how pixels become network input."""

    name: str = "given"
    ratio: str = "1pct"
    seed: int = 0
    size: int = Field(0, ge=0)  # of images decoded from files; 0: the set's own
    augment: Literal["none", "flip", "crop-flip", "resized-crop-flip"] = "none"
    spectrum: float = Field(0.0, ge=0, le=1)  # how often an image takes the spectrum of another
    style: float = Field(0.0, ge=0, le=1)  # how often an image takes the style of another
    mix: float = Field(0.0, ge=0, le=1)  # how often it is mixed with another of its class
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    source: Literal["auto", "resident", "streaming"] = "auto"
    workers: int = Field(0, ge=0)  # that decode streamed files; 0: one for each processor

    @field_validator("name")
    @classmethod
    def _known_data(cls, name: str) -> str:
        return _one_of(name, (*dataset_names(), "given"))

    @model_validator(mode="after")
    def _both(self) -> DataSettings:
        if len(self.mean) != len(self.std):
            raise ValueError("data.mean and data.std go together: as many numbers in each")
        return self


class MineSettings(TrainingSettings):
    """How samples that contradict the shortcut are found."""

    how: Literal["gce", "early-stopped", "epoch-ensemble", "oracle"] = "gce"
    q: float = Field(0.7, gt=0, le=1)
    gce_form: Literal["released", "exact"] = "released"
    eta: float = Field(0.05, ge=0, lt=1)
    warm_up: int = Field(0, ge=0)  # passes in which the miner learns from all samples alike
    threshold: float = Field(0.8, gt=0, lt=1)
    steps: int = Field(2000, gt=0)
    batch: int = Field(256, gt=0)
    optimiser: Literal["adam", "sgd"] = "sgd"
    rate: float = Field(0.1, gt=0)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: int = Field(600, ge=0)


class PretrainSettings(TrainingSettings):
    """How the ordinary model is trained."""

    steps: int = Field(10_000, gt=0)
    batch: int = Field(256, gt=0)
    rate: float = Field(1e-2, gt=0)


class AdaptSettings(TrainingSettings):
    """How a network is trained on mixed images: from its initial weights, or from the ordinary model's."""

    start: Literal["initial", "trained"] = "trained"
    steps: int = Field(5000, gt=0)
    batch: int = Field(256, gt=0)
    rate: float = Field(1e-3, gt=0)


class DebiasSettings(TrainingSettings):
    """The debiasing loss. `up` = 0 derives the sampling odds from the suspects (a `share` of each batch)."""

    align: float = Field(0.05, ge=0)
    positives: Literal["either", "column"] = "either"
    temperature: float = Field(0.07, gt=0)
    up: float = Field(0.0, ge=0)
    share: float = Field(1 / 3, gt=0, lt=1)
    cap: float = Field(100.0, ge=1)
    group_weight: float = Field(0.0, ge=0)
    batch: int = Field(256, gt=0)


class PruneSettings(DebiasSettings):
    """How masks are learned; those that are not learned (`how`) keep a share of the weights, `keep`.

    A mask is on single weights or on whole channels (`unit`). Of channels, `keep` is a share of the
    multiply–adds, and learned masks are cut to it too with `cut` = "share". The pressure to be sparse counts
    weights or multiply–adds (`weigh`).
    """

    how: Literal["learned", "magnitude", "random", "grasp"] = "learned"
    unit: Literal["weight", "channel"] = "weight"
    cut: Literal["threshold", "share"] = "threshold"
    keep: float = Field(0.1, gt=0, le=1)
    spread: Literal["global", "layer"] = "global"  # of the channels kept by a share
    weigh: Literal["weights", "macs"] = "weights"
    steps: int = Field(2000, gt=0)
    rate: float = Field(1e-2, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    init: float = 1.5
    noise: Literal["logit", "probability"] = "probability"
    penalty: Literal["sum", "absolute", "probability"] = "sum"
    sparsity: float = Field(1e-8, ge=0)
    keep_zero: bool = False
    batch_norm_batches: int = Field(50, ge=0)


class ControlSettings(Section):
    """Other masks in place of the learned ones, keeping as many weights: in every layer, or overall."""

    how: Literal["random", "magnitude"] = "random"
    spread: Literal["layer", "global"] = "layer"


class FinetuneSettings(DebiasSettings):
    """How the surviving weights are retrained: as they are, or from the network's initial weights."""

    start: Literal["trained", "initial"] = "trained"
    steps: int = Field(2000, gt=0)
    rate: float = Field(2e-3, gt=0)
    schedule: Literal["constant", "step", "cosine"] = "cosine"
    drop: float = Field(0.0, ge=0, lt=1)
    iterates: tuple[int, ...] = ()


class RefitSettings(Section):
    """How the last layer is refitted to balanced groups."""

    on: Literal["train", "valid"] = "train"
    strengths: tuple[float, ...] = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
    subsets: int = Field(10, gt=0)


class SelectSettings(Section):
    """Which iterate of fine-tuning is kept, without labels of the bias.

    `heldout` follows the balanced loss on suspects and other samples that were kept out of training: the
    validation split where there is one, otherwise a `share` of the training split.
    """

    rule: Literal["last", "heldout"] = "heldout"
    share: float = Field(0.1, gt=0, lt=1)
    minimum: int = Field(10, gt=0)
    every: int = Field(100, gt=0)


class Recipe(Section):
    """All settings of a run."""

    name: str = "unspur"
    plan: str = "dcwp"
    seed: int = 0
    judge: bool = (
        False  # ask an audit first: without a sign of a shortcut, end with the ordinary model
    )
    precision: Literal["fp32", "tf32", "bf16"] = "tf32"
    deterministic: bool = True
    compile: bool = (
        False  # on a GPU: pays from some 40,000 steps on, or where it was compiled before
    )
    log_every: int = Field(100, gt=0)
    watch_every: int = Field(500, gt=0)
    checkpoint_every: int = Field(1000, gt=0)
    checkpoint_seconds: float = Field(10.0, ge=0)  # and not sooner after the last one
    data: DataSettings = DataSettings()
    model: NetworkSettings = NetworkSettings()
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
        """The stages of the recipe's plan, in order."""
        return plans()[self.plan]

    def table(self, stage: str) -> Section:
        """Return the settings of a stage."""
        found: Section | None = getattr(self, stage, None)
        if found is not None:
            return found
        own = own_stages()[stage].own_stage
        assert own is not None, "own_stages() lists no other methods"
        return own.settings()

    def fit_options(self, training: TrainingSettings, *, seed: int) -> FitOptions:
        """How one of its trainings goes."""
        return training.options(
            precision=self.precision,
            deterministic=self.deterministic,
            compile=self.compile,
            log_every=self.log_every,
            checkpoint_every=self.checkpoint_every,
            checkpoint_seconds=self.checkpoint_seconds,
            seed=seed,
        )

    def seeded(self, seed: int) -> Recipe:
        """The same recipe with another seed."""
        return self.model_copy(update={"seed": seed})


@cache
def recipe_class() -> type[Recipe]:
    """Return Recipe with a table for every method that is a stage of its own."""
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

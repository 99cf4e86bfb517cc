"""Every setting and its default, in one place.

The defaults are the `unspur` preset: no number in it needs knowledge of the bias. Each stage has a table of
settings, and a plan is the list of its stages.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..training.inputs import FitOptions, Optimiser

# fmt: off
PlanName = Literal[
    "erm", "dcwp", "unpruned", "control", "mrm", "grasp", "jtt",
    "lff", "disent", "end", "rebias", "groupdro", "dfr", "dfr-mined",
]
# fmt: on
DataName = Literal[
    "cmnist", "cifar10c", "cifar10", "mnist", "bffhq", "celeba", "demo", "folder", "given"
]
# The stages of every plan, in order; each stage has its table of settings below.
PLANS: dict[str, tuple[str, ...]] = {
    "erm": ("pretrain",),
    "dcwp": ("mine", "pretrain", "prune", "finetune"),
    "unpruned": ("mine", "pretrain", "finetune"),
    "control": ("mine", "pretrain", "prune", "control", "finetune"),
    "mrm": ("pretrain", "prune", "finetune"),
    "grasp": ("prune", "finetune"),
    "jtt": ("mine", "finetune"),
    "lff": ("lff",),
    "disent": ("disent",),
    "end": ("end",),
    "rebias": ("rebias",),
    "groupdro": ("groupdro",),
    "dfr": ("pretrain", "refit"),
    "dfr-mined": ("mine", "pretrain", "refit"),
}

Positive = Field(gt=0)
Beta = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A strict, frozen table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Data(Section):
    """Which data, and how pixels become network input."""

    name: DataName = "given"
    ratio: str = "1pct"
    seed: int = 0
    size: int = Field(0, ge=0)  # of images decoded from files; 0: the set's own
    augment: Literal["none", "flip", "crop-flip", "resized-crop-flip"] = "none"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    source: Literal["auto", "resident", "streaming"] = "auto"
    workers: int = Field(0, ge=0)  # that decode streamed files; 0: one for each processor

    @model_validator(mode="after")
    def _both(self) -> Data:
        if len(self.mean) != len(self.std):
            raise ValueError("data.mean and data.std go together: as many numbers in each")
        return self


class Model(Section):
    """Which network: a built-in name, `file.py:builder` or `timm:NAME`; `head` is found unless named.

    `init` is a file of weights to start from (.safetensors, or .pth with plain tensors).
    """

    name: str = "convnet"
    options: dict[str, int | float | str | bool | list[int]] = Field(default_factory=dict)
    head: str = ""
    init: str = ""


class TrainingSettings(Section):
    """How long and with which optimiser a stage trains."""

    steps: int = Positive
    batch: int = Positive
    optimiser: Literal["adam", "sgd"] = "adam"
    rate: float = Positive
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    momentum: float = Field(0.9, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "constant"
    decay_every: int = Field(0, ge=0)
    decay_from: int = Field(0, ge=0)
    decay_by: float = Field(0.1, gt=0)

    def options(self, **how: Any) -> FitOptions:
        """The same for the training loop."""
        optimiser = Optimiser(
            name=self.optimiser,
            rate=self.rate,
            betas=self.betas,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            decay_every=self.decay_every,
            decay_from=self.decay_from,
            decay_by=self.decay_by,
        )
        return FitOptions(steps=self.steps, optimiser=optimiser, **how)


class Mine(TrainingSettings):
    """How samples that contradict the shortcut are found."""

    how: Literal["gce", "early-stopped", "epoch-ensemble", "oracle"] = "gce"
    q: float = Field(0.7, gt=0, le=1)
    gce_form: Literal["released", "exact"] = "released"
    eta: float = Field(0.05, ge=0, lt=1)
    threshold: float = Field(0.8, gt=0, lt=1)
    steps: int = Field(2000, gt=0)
    batch: int = Field(256, gt=0)
    optimiser: Literal["adam", "sgd"] = "sgd"
    rate: float = Field(0.1, gt=0)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: int = Field(600, ge=0)


class Pretrain(TrainingSettings):
    """How the ordinary model is trained."""

    steps: int = Field(10_000, gt=0)
    batch: int = Field(256, gt=0)
    rate: float = Field(1e-2, gt=0)


class Debias(TrainingSettings):
    """The debiasing loss. `up` = 0 derives the sampling odds from the suspects (a `share` of each batch)."""

    align: float = Field(0.05, ge=0)
    positives: Literal["either", "column"] = "either"
    temperature: float = Field(0.07, gt=0)
    up: float = Field(0.0, ge=0)
    share: float = Field(1 / 3, gt=0, lt=1)
    cap: float = Field(100.0, ge=1)
    group_weight: float = Field(0.0, ge=0)
    batch: int = Field(256, gt=0)


class Prune(Debias):
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


class Control(Section):
    """Other masks in place of the learned ones, keeping as many weights: in every layer, or overall."""

    how: Literal["random", "magnitude"] = "random"
    spread: Literal["layer", "global"] = "layer"


class Finetune(Debias):
    """How the surviving weights are retrained: as they are, or from the network's initial weights."""

    start: Literal["trained", "initial"] = "trained"
    steps: int = Field(2000, gt=0)
    rate: float = Field(2e-3, gt=0)
    schedule: Literal["constant", "step", "cosine"] = "cosine"
    drop: float = Field(0.0, ge=0, lt=1)
    iterates: tuple[int, ...] = ()


class MethodSettings(TrainingSettings):
    """A method that is one stage of its own; by default as long as the ordinary model trains."""

    steps: int = Field(10_000, gt=0)
    batch: int = Field(256, gt=0)
    rate: float = Field(1e-3, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    iterates: tuple[int, ...] = ()


class LfF(MethodSettings):
    """Learning from failure."""

    steps: int = Field(23_500, gt=0)
    q: float = Field(0.7, gt=0, le=1)
    memory: float = Field(0.7, ge=0, lt=1)


class DisEnt(MethodSettings):
    """Disentangled feature augmentation."""

    steps: int = Field(50_000, gt=0)
    rate: float = Field(1e-2, gt=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    # Halved at 20,000, 30,000 and 40,000.
    decay_every: int = Field(10_000, ge=0)
    decay_from: int = Field(10_000, ge=0)
    decay_by: float = Field(0.5, gt=0)
    biased_weight: float = Field(10.0, ge=0)
    swap_weight: float = Field(1.0, ge=0)
    swap_biased_weight: float = Field(10.0, ge=0)
    swap_start: int = Field(10_000, ge=0)
    q: float = Field(0.7, gt=0, le=1)
    memory: float = Field(0.7, ge=0, lt=1)


class EnD(MethodSettings):
    """Entangling and disentangling; it is told the bias of every training sample."""

    steps: int = Field(17_200, gt=0)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: int = Field(4_300, ge=0)
    disentangle: float = Field(1.0, ge=0)
    entangle: float = Field(1.0, ge=0)
    pairs: Literal["all", "released"] = "all"


class ReBias(MethodSettings):
    """Independence of a biased network, which is told by `network`: one that can only see the bias."""

    steps: int = Field(17_200, gt=0)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: int = Field(4_300, ge=0)
    weight: float = Field(1.0, ge=0)
    biased_weight: float = Field(1.0, ge=0)
    radius: float = Field(1.0, gt=0)
    network: Model = Model(name="convnet", options={"kernel": 1})


class GroupDRO(MethodSettings):
    """Distributionally robust optimisation; it is told the group of every training sample."""

    rate: float = Field(1e-2, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    eta: float = Field(0.01, ge=0)
    adjustment: float = Field(0.0, ge=0)


class Refit(Section):
    """How the last layer is refitted to balanced groups."""

    on: Literal["train", "valid"] = "train"
    strengths: tuple[float, ...] = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
    subsets: int = Field(10, gt=0)


class Select(Section):
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
    plan: PlanName = "dcwp"
    seed: int = 0
    precision: Literal["fp32", "tf32", "bf16"] = "tf32"
    deterministic: bool = True
    compile: bool = (
        False  # on a GPU: pays from some 40,000 steps on, or where it was compiled before
    )
    log_every: int = Field(100, gt=0)
    watch_every: int = Field(500, gt=0)
    checkpoint_every: int = Field(1000, gt=0)
    checkpoint_seconds: float = Field(10.0, ge=0)  # and not sooner after the last one
    data: Data = Data()
    model: Model = Model()
    mine: Mine = Mine()
    pretrain: Pretrain = Pretrain()
    prune: Prune = Prune()
    control: Control = Control()
    finetune: Finetune = Finetune()
    refit: Refit = Refit()
    lff: LfF = LfF()
    disent: DisEnt = DisEnt()
    end: EnD = EnD()
    rebias: ReBias = ReBias()
    groupdro: GroupDRO = GroupDRO()
    select: Select = Select()

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

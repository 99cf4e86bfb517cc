"""Tables of settings: the base of all tables, a network, a training, a method that is one stage."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .fit_options import FitOptions, Optimiser

# No sensible setting reaches these bounds. Values beyond them are typing errors, which would take forever or
# give results that are not finite.
Steps = Annotated[int, Field(gt=0, le=100_000_000)]
Interval = Annotated[int, Field(gt=0, le=100_000_000)]  # in steps
Since = Annotated[int, Field(ge=0, le=100_000_000)]  # a step; 0 by default
Batch = Annotated[int, Field(gt=0, le=131_072)]
Rate = Annotated[float, Field(gt=0, le=1000)]
Weight = Annotated[float, Field(ge=0, le=1e6)]  # of a term of a loss
Power = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]
SeedNumber = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # as JSON files hold it


class Section(BaseModel):
    """A strict, frozen table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class NetworkSettings(Section):
    """Which network: a built-in name, `file.py:builder` or `timm:NAME`; `head` is found if not given.

    `init` is a file of weights to start from (.safetensors, or .pth with plain tensors).
    """

    name: str = "convnet"
    options: dict[str, int | float | str | bool | list[int]] = Field(default_factory=dict)
    head: str = ""
    init: str = ""


class TrainingSettings(Section):
    """How long and with which optimiser a stage trains."""

    steps: Steps
    batch: Batch
    optimiser: Literal["adam", "sgd"] = "adam"
    rate: Rate
    betas: tuple[Beta, Beta] = (0.9, 0.99)
    momentum: Beta = 0.9
    weight_decay: Weight = 0.0
    schedule: Literal["constant", "step", "cosine"] = "constant"
    decay_every: Since = 0
    decay_from: Since = 0
    decay_by: Power = 0.1

    def options(self, **further: Any) -> FitOptions:
        """Return these settings as options of the training loop, with `further` options."""
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
        return FitOptions(steps=self.steps, optimiser=optimiser, **further)


class MethodSettings(TrainingSettings):
    """Settings of a method that is one stage; by default it trains as long as the ordinary model."""

    steps: Steps = 10_000
    batch: Batch = 256
    rate: Rate = 1e-3
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    iterates: tuple[Steps, ...] = ()

"""Tables of settings: what all tables share, a network, a training, a method that is a stage of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .fit_options import FitOptions, Optimiser

Positive = Field(gt=0)
Beta = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A strict, frozen table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class NetworkSettings(Section):
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
        """Return the same settings for the training loop."""
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


class MethodSettings(TrainingSettings):
    """Settings of a method that is a stage of its own; by default as long as the ordinary model's."""

    steps: int = Field(10_000, gt=0)
    batch: int = Field(256, gt=0)
    rate: float = Field(1e-3, gt=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    iterates: tuple[int, ...] = ()

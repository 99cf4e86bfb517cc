"""A method as the catalogue, the recipes and `unspur methods` know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from ..models import Builder
from ..training.method import Method, MethodInputs
from ..training.sections import MethodSettings, NetworkSettings

Supervision = Literal["nothing", "bias labels", "what kind of bias"]


def no_networks(settings: Any) -> Mapping[str, NetworkSettings]:
    """Ask for no network beside the run's own."""
    return {}


@dataclass(frozen=True)
class OwnStage:
    """A method that is one stage of its own: its settings, and how it is built from them.

    `build(model, inputs, settings)` returns the Method. A step costs about `cost` plain steps, and `copies`
    networks are stored. `uses_head` and `extra_networks` say what else the result depends on;
    `balance_groups` draws every (target, bias) group equally often; `final` builds the network that training
    ends in, where that is not the run's own.
    """

    settings: type[MethodSettings]
    build: Callable[[nn.Module, MethodInputs, Any], Method]
    loss: type[Method]
    cost: float = 1.0
    copies: int = 1
    uses_head: bool = False
    balance_groups: bool = False
    extra_networks: Callable[[Any], Mapping[str, NetworkSettings]] = no_networks
    final: Callable[[Builder, str], Builder] | None = None


@dataclass(frozen=True)
class MethodEntry:
    """A whole method: its plan (the stages it runs, under a name), what it must be told, who wrote it."""

    name: str
    title: str
    source: str
    networks: str
    stages: tuple[str, ...]
    plan: str = ""  # the plan's name in a recipe; the method's own by default
    supervision: Supervision = "nothing"
    own_stage: OwnStage | None = None

    @property
    def plan_name(self) -> str:
        return self.plan or self.name

"""The record of a method, which the catalogue, the recipes and `unspur methods` read."""

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
    """Return no networks besides the main one."""
    return {}


@dataclass(frozen=True)
class OwnStage:
    """The stage of a method that consists of one training: its settings, and how to build the method.

    `build(model, inputs, settings)` returns the Method, an instance of `loss`. A step takes about as long as
    `cost` ordinary steps, and `copies` networks are stored. `uses_head` and `extra_networks` say what else
    the result depends on. `balance_groups` samples every (target, bias) group equally often. `final` returns
    the builder of the resulting network, if that is not the main network.
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
    """A method: its plan (the stages that it runs), the supervision it needs, its source.

    `title` is its name in tables, `source` its publication, `networks` how many networks it trains. On a
    user's own images its stages are `stages_for_users`, if there are any: a run on these needs the ordinary
    model, to compare with and as its result if there is no shortcut.
    """

    name: str
    title: str
    source: str
    networks: str
    stages: tuple[str, ...]
    plan: str = ""  # the name of its plan in a recipe; the name of the method by default
    supervision: Supervision = "nothing"
    own_stage: OwnStage | None = None
    stages_for_users: tuple[str, ...] = ()

    @property
    def plan_name(self) -> str:
        """The name of its plan in a recipe."""
        return self.plan or self.name

    @property
    def plan_for_users(self) -> str:
        """The name of its plan for a user's own images."""
        return f"{self.plan_name}-own" if self.stages_for_users else self.plan_name

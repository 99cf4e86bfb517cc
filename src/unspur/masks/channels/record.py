"""The record of one traced forward pass: the channels of a network and how parameters use them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .numbering import ChannelNumbers

Dimension = tuple[str, int]  # the name of a parameter or buffer, and one of its dimensions


@dataclass(frozen=True)
class Reading:
    """The values that a weight reads: minimum and maximum of each channel, and whether zeros are padded."""

    weight: str
    dim: int
    low: Tensor
    high: Tensor
    padded: bool


@dataclass
class ParameterPart:
    """A parameter, a buffer, or a part of one: `index` holds flat positions in the whole."""

    name: str
    shape: torch.Size
    index: Tensor

    def along(self, dim: int) -> Tensor:
        """Return the position of every entry along a dimension of the whole parameter."""
        after = math.prod(self.shape[dim + 1 :])
        return (self.index // after) % self.shape[dim]


@dataclass
class ChannelTrace:
    """The channels along every dimension of every parameter, and how the parameters use them."""

    numbers: ChannelNumbers = field(default_factory=ChannelNumbers)
    along: dict[Dimension, Tensor] = field(default_factory=dict)
    outputs: dict[Dimension, Tensor] = field(default_factory=dict)  # the channels that it makes
    batch_norms: dict[str, str] = field(default_factory=dict)  # by the weight right before it
    readings: list[Reading] = field(default_factory=list)
    heads: dict[str, Tensor] = field(default_factory=dict)  # by the name of the attention module

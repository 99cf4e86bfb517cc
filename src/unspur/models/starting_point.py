"""Where training starts: a network, by name or as a module, and its initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import nn

from .expected_input import ExpectedInput, stated_input
from .published_weights import PublishedWeights, published


@dataclass(frozen=True)
class StartingPoint:
    """A network, a file of initial weights, and whether it starts from its published weights."""

    model: nn.Module | str
    init: str = ""
    pretrained: bool = False
    by_default: bool = False  # whether the user did not choose this network

    @property
    def is_default(self) -> bool:
        """Return whether the user chose neither network nor weights, so that we may choose a network."""
        return self.by_default and not self.init and not self.pretrained

    @property
    def name(self) -> str | None:
        """Return the name of the network, or None for a module."""
        return self.model if isinstance(self.model, str) else None

    @cached_property
    def published(self) -> PublishedWeights | None:
        """Return the published weights to start from; None if not requested, or for a module."""
        return published(self.name) if self.pretrained and self.name is not None else None

    @cached_property
    def expected(self) -> ExpectedInput:
        """Return the input that the published weights expect, or else the one that the network states."""
        known = self.published
        if known is None:
            return stated_input(self.model)
        return ExpectedInput(known.size, known.mean, known.std)

    @property
    def pixels(self) -> int:
        """Return the image size that the network expects; 0 if it is not known."""
        return self.expected.size

    @property
    def normalisation(self) -> dict[str, tuple[float, ...]]:
        """Return the mean and standard deviation of pixels that the network expects, if known."""
        known = {"mean": self.expected.mean, "std": self.expected.std}
        return known if all(known.values()) else {}

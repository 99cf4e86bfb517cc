"""Where training starts: a network, by name or as a module, and its initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import nn

from .published_weights import PublishedWeights, published


@dataclass(frozen=True)
class StartingPoint:
    """A network, a file of initial weights, and whether it starts from its published weights."""

    model: nn.Module | str
    init: str = ""
    pretrained: bool = False
    by_default: bool = False  # whether the user did not choose this network

    @property
    def is_usual(self) -> bool:
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

    @property
    def pixels(self) -> int:
        """Return the image size that the weights expect; 0 if it is not known."""
        return self.published.size if self.published else 0

    @property
    def normalisation(self) -> dict[str, tuple[float, ...]]:
        """Return the mean and standard deviation of pixels that the weights expect, if they are known."""
        if self.published is None:
            return {}
        return {"mean": self.published.mean, "std": self.published.std}

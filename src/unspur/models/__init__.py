"""Networks: how they are built, the weights they start from, and where their head is.

May import: errors, extras.
"""

from .builder import BUILTIN, Builder, builder, copies_of, paired
from .published_weights import PublishedWeights, published
from .starting_point import StartingPoint

__all__ = [
    "BUILTIN",
    "Builder",
    "PublishedWeights",
    "StartingPoint",
    "builder",
    "copies_of",
    "paired",
    "published",
]

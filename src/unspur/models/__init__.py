"""Networks: builders, initial weights, and access to the classifier head.

May import: boundary, errors, extras, parallel.
"""

from .builder import BUILTIN, Builder, builder, copies_of, in_file, paired
from .libraries import TIMM
from .published_weights import PublishedWeights, published
from .starting_point import StartingPoint
from .weight_limit import limit_weights

__all__ = [
    "BUILTIN",
    "TIMM",
    "Builder",
    "PublishedWeights",
    "StartingPoint",
    "builder",
    "copies_of",
    "in_file",
    "limit_weights",
    "paired",
    "published",
]

"""Networks: builders, initial weights, and access to the classifier head.

May import: boundary, errors, extras, parallel.
"""

from .builder import BUILTIN, Builder, builder, copy_builder, in_file, paired
from .libraries import TIMM
from .logits_output import build_with_logits, find_logits, restore_output, return_logits
from .starting_point import StartingPoint
from .weight_files import describe_differences
from .weight_limit import limit_weights

__all__ = [
    "BUILTIN",
    "TIMM",
    "Builder",
    "StartingPoint",
    "build_with_logits",
    "builder",
    "copy_builder",
    "describe_differences",
    "find_logits",
    "in_file",
    "limit_weights",
    "paired",
    "restore_output",
    "return_logits",
]

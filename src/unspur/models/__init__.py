"""Networks: how they are built, the weights they start from, and where their head is.

May import: boundary, errors, extras.
"""

from .builder import BUILTIN, TIMM, Builder, builder, copies_of, in_file, paired

__all__ = ["BUILTIN", "TIMM", "Builder", "builder", "copies_of", "in_file", "paired"]

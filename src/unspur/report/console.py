"""The consoles for standard output and standard error, and sizes of files as text.

Text is printed as it is: in names of classes and files, `[old]` is not a style and `:cat:` is not an emoji.
"""

from __future__ import annotations

from rich.console import Console

out = Console(markup=False, emoji=False)
err = Console(stderr=True, markup=False, emoji=False)


def size(count: float) -> str:
    """Format a number of bytes, such as "12 MB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"

"""The consoles for standard output and standard error, and sizes of files as text."""

from __future__ import annotations

from rich.console import Console

out = Console()
err = Console(stderr=True)


def size(count: float) -> str:
    """Format a number of bytes, such as "12 MB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"

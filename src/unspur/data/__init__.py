"""Data sets by name. Adding one is one file with a loader, and one line in `DATASETS`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import DataError
from . import cmnist, embedded, idx, layout
from .splits import Split, Splits

# Each loader takes (the folder of real data or None, the ratio, the data seed).
Loader = Callable[[Path | None, str, int], Splits]


def _cmnist(root: Path | None, ratio: str, seed: int) -> Splits:
    found = idx.find_root(root)
    if (found / "cmnist" / ratio).is_dir():
        return layout.read(found / "cmnist", ratio)
    return cmnist.make(idx.mnist(found), ratio, seed=seed)  # type: ignore[arg-type]


def _demo(root: Path | None, ratio: str, seed: int) -> Splits:
    counts = {"1pct": 90, "2pct": 180, "5pct": 450}
    if ratio not in counts:
        raise DataError(f"the demo has no ratio {ratio!r}. Choose one of {', '.join(counts)}.")
    return cmnist.generate(
        embedded.digits(), conflicting=counts[ratio], valid=1000, seed=seed, name=f"demo/{ratio}"
    )


def _folder(root: Path | None, ratio: str, seed: int) -> Splits:
    if root is None:
        raise DataError("give the folder in the public layout with --data-root.")
    return layout.read(root, ratio)


DATASETS: dict[str, Loader] = {"cmnist": _cmnist, "demo": _demo, "folder": _folder}

__all__ = ["DATASETS", "Split", "Splits", "load"]


def load(name: str, *, root: Path | None = None, ratio: str = "1pct", seed: int = 0) -> Splits:
    """A data set by name; `root` is the folder of real data (UNSPUR_DATA or ./data by default)."""
    if name not in DATASETS:
        raise DataError(f"there is no data set {name!r}. Choose one of {', '.join(DATASETS)}.")
    return DATASETS[name](root, ratio, seed)

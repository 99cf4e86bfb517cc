"""The benchmark data sets by name. Adding one is one file with a loader, and one line in `DATASETS`.

A package adds a data set with an entry point in the group `unspur.datasets` that names a loader: a function
from a `Request` to `Splits`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import DataError
from ...extras import registered
from ..splits import Splits
from . import bffhq, celeba, cifar10, cifar10c, cmnist, embedded, layout, mnist


@dataclass(frozen=True)
class Request:
    """What is wanted of a set: where real data is, which of its ratios, its seed and size (0: its own)."""

    root: Path | None
    ratio: str
    seed: int
    size: int

    @property
    def data_root(self) -> Path:
        return mnist.find_root(self.root)

    @property
    def cache(self) -> Path:
        return cache_folder(self.data_root)


Loader = Callable[[Request], Splits]


def _cmnist(wanted: Request) -> Splits:
    if (wanted.data_root / "cmnist" / wanted.ratio).is_dir():
        return layout.read(wanted.data_root / "cmnist", wanted.ratio)
    return cmnist.make(mnist.mnist(wanted.data_root), wanted.ratio, seed=wanted.seed)  # type: ignore[arg-type]


def _cifar10c(wanted: Request) -> Splits:
    return cifar10c.load(wanted.data_root, wanted.ratio, seed=wanted.seed, cache=wanted.cache)


def _cifar10(wanted: Request) -> Splits:
    return cifar10.load_plain(wanted.data_root, wanted.seed)


def _mnist(wanted: Request) -> Splits:
    return mnist.load_plain(wanted.data_root, wanted.seed)


def _bffhq(wanted: Request) -> Splits:
    size = wanted.size or bffhq.SIZE
    return bffhq.load(wanted.data_root, wanted.ratio, size=size, cache=wanted.cache)


def _celeba(wanted: Request) -> Splits:
    size = wanted.size or celeba.SIZE
    return celeba.load(
        wanted.data_root, wanted.ratio, seed=wanted.seed, size=size, cache=wanted.cache
    )


def _demo(wanted: Request) -> Splits:
    counts = {"1pct": 90, "2pct": 180, "5pct": 450}
    if wanted.ratio not in counts:
        raise DataError(
            f"the demo has no ratio {wanted.ratio!r}. Choose one of {', '.join(counts)}."
        )
    return cmnist.generate(
        embedded.digits(),
        conflicting=counts[wanted.ratio],
        valid=1000,
        seed=wanted.seed,
        name=f"demo/{wanted.ratio}",
    )


def _folder(wanted: Request) -> Splits:
    if wanted.root is None:
        raise DataError("give the folder in the public layout with --data-root.")
    return layout.read(wanted.root, wanted.ratio)


DATASETS: dict[str, Loader] = {
    "cmnist": _cmnist,
    "cifar10c": _cifar10c,
    "cifar10": _cifar10,
    "mnist": _mnist,
    "bffhq": _bffhq,
    "celeba": _celeba,
    "demo": _demo,
    "folder": _folder,
}
SIZED = ("bffhq", "celeba")  # whose images are decoded to a size of choice


@cache
def loaders() -> dict[str, Loader]:
    """Return the loader of every data set by name: ours, and those of installed packages."""
    return {**registered("unspur.datasets", callable), **DATASETS}


def dataset_names() -> tuple[str, ...]:
    """Return the names of all data sets, ours first."""
    return tuple(dict.fromkeys((*DATASETS, *loaders())))


def load(
    name: str, *, root: Path | None = None, ratio: str = "1pct", seed: int = 0, size: int = 0
) -> Splits:
    """Load a data set by name; `root` is the folder of real data (UNSPUR_DATA or ./data by default)."""
    if name not in dataset_names():
        raise DataError(
            f"there is no data set {name!r}. Choose one of {', '.join(dataset_names())}."
        )
    if size and name not in SIZED:
        raise DataError(
            f"the images of {name} have one size; {size} cannot be asked for. Leave data.size at 0."
        )
    return loaders()[name](Request(root, ratio, seed, size))


def cache_folder(root: Path) -> Path:
    """Return the folder for decoded pixels: beside the data, or the user's cache if not writable."""
    beside = root / ".cache"
    if os.access(beside if beside.exists() else root, os.W_OK):
        return beside
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "unspur"

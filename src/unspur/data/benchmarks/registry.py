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
    """A request for a set: the folder of real data, the ratio, the seed and the size (0: the set's own)."""

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


def _cmnist(request: Request) -> Splits:
    if (request.data_root / "cmnist" / request.ratio).is_dir():
        return layout.read(request.data_root / "cmnist", request.ratio)
    return cmnist.make(mnist.mnist(request.data_root), request.ratio, seed=request.seed)  # type: ignore[arg-type]


def _cifar10c(request: Request) -> Splits:
    return cifar10c.load(request.data_root, request.ratio, seed=request.seed, cache=request.cache)


def _cifar10(request: Request) -> Splits:
    return cifar10.load_plain(request.data_root, request.seed)


def _mnist(request: Request) -> Splits:
    return mnist.load_plain(request.data_root, request.seed)


def _bffhq(request: Request) -> Splits:
    size = request.size or bffhq.SIZE
    return bffhq.load(request.data_root, request.ratio, size=size, cache=request.cache)


def _celeba(request: Request) -> Splits:
    size = request.size or celeba.SIZE
    return celeba.load(
        request.data_root, request.ratio, seed=request.seed, size=size, cache=request.cache
    )


def _demo(request: Request) -> Splits:
    counts = {"1pct": 90, "2pct": 180, "5pct": 450}
    if request.ratio not in counts:
        raise DataError(
            f"the demo has no ratio {request.ratio!r}. Choose one of {', '.join(counts)}."
        )
    return cmnist.generate(
        embedded.digits(),
        conflicting=counts[request.ratio],
        valid=1000,
        seed=request.seed,
        name=f"demo/{request.ratio}",
    )


def _folder(request: Request) -> Splits:
    if request.root is None:
        raise DataError("give the folder in the public layout with --data-root.")
    return layout.read(request.root, request.ratio)


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

"""The benchmark data sets by name. To add one, write a file with a loader and add a line to `DATASETS`.

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
from ...extras import load_entry_points
from ..image_sizes import resize
from ..splits import Splits
from . import bffhq, celeba, cifar10, cifar10c, cmnist, embedded, frost, layout, mnist


@dataclass(frozen=True)
class Request:
    """Which data to load: the data folder, the ratio, the seed, and the image size (0: that of the set)."""

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
    root = request.data_root
    splits = cifar10c.load(root, request.ratio, seed=request.seed, cache=request.cache)
    return _resize_to(splits, request.size)


def _cmnist_dev(request: Request) -> Splits:
    return cmnist.make_development(
        mnist.mnist(request.data_root),
        request.ratio,  # type: ignore[arg-type]
        seed=request.seed,
    )


def _cifar10c_dev(request: Request) -> Splits:
    return cifar10c.make_development(
        cifar10.read(request.data_root),
        request.ratio,
        seed=request.seed,
        textures=frost.find(request.data_root),
        cache=request.cache,
    )


def _cifar10(request: Request) -> Splits:
    return _resize_to(cifar10.load_plain(request.data_root, request.seed), request.size)


def _resize_to(splits: Splits, size: int) -> Splits:
    """Resize the images to squares of `size` pixels; 0 leaves them unchanged."""
    return resize(splits, (size, size)) if size else splits


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
    "cmnist-dev": _cmnist_dev,  # for choosing settings without the test split
    "cifar10c-dev": _cifar10c_dev,
    "cifar10": _cifar10,
    "mnist": _mnist,
    "bffhq": _bffhq,
    "celeba": _celeba,
    "demo": _demo,
    "folder": _folder,
}
SIZED = ("bffhq", "celeba", "cifar10c", "cifar10")  # sets whose image size can be chosen


@cache
def loaders() -> dict[str, Loader]:
    """Return the loader of every data set by name, the built-in ones first."""
    return DATASETS | load_entry_points("unspur.datasets", _problem)


def _problem(name: str, loader: object) -> str:
    """Return why an installed package cannot add this data set, or "" if it can."""
    if name in (*DATASETS, "given"):  # a recipe uses "given" for data without a name
        return f"there is a built-in data set {name!r}"
    return "" if callable(loader) else f"it is {type(loader).__name__}, not a function of a Request"


def dataset_names() -> tuple[str, ...]:
    """Return the names of all data sets, the built-in ones first."""
    return tuple(loaders())


def load(
    name: str, *, root: Path | None = None, ratio: str = "1pct", seed: int = 0, size: int = 0
) -> Splits:
    """Load a data set by name; `root` is the data folder (by default UNSPUR_DATA or ./data)."""
    if name not in dataset_names():
        raise DataError(
            f"there is no data set {name!r}. Choose one of {', '.join(dataset_names())}."
        )
    if size and name in DATASETS and name not in SIZED:
        raise DataError(
            f"the images of {name} have a fixed size, so data.size = {size} is not possible. Leave it at 0."
        )
    splits = loaders()[name](Request(root, ratio, seed, size))
    if not isinstance(splits, Splits):
        raise DataError(f"the loader of {name} returned {type(splits).__name__}, not Splits.")
    return splits


def cache_folder(root: Path) -> Path:
    """Return the folder for decoded pixels: in the data folder, or in the user's cache if it is read-only."""
    local = root / ".cache"
    if os.access(local if local.exists() else root, os.W_OK):
        return local
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "unspur"

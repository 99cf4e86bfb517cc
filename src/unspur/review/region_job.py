"""Hide a region in a sample of images, and compare the predictions: in a thread, one test at a time.

Nothing is written to disk. Only the last result is kept.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from ..data.decoding.pixels import CROPS
from ..errors import UnspurError, UsageError
from ..probe.cues import Region
from ..probe.findings import Flip, Probe
from ..probe.image_changes import hide
from ..probe.measuring import measure
from ..runs.classifier import Classifier
from ..stages.place import pick_device
from .image_sources import ImageSource
from .network_views import NetworkViews
from .region_answer import corners_of, describe_answer
from .region_sample import MOST, RowSample, read_sample

MOST_PIXELS = 10**6  # of a side of a region
CHUNK = 32  # images of a forward pass; a test can be stopped before each
PASSES = 4  # forward passes of a model for an image: unchanged, hidden, and two exchanges
PATIENCE = 30.0  # seconds to wait until a stopped test has ended


class _StopTest(Exception):  # noqa: N818  (no error)
    """Raised in the thread of a test that was stopped."""


@dataclass
class RegionTest:
    """A test of one region: how far it is, and its result."""

    number: int
    region: Region
    sample: RowSample
    stopped: threading.Event = field(default_factory=threading.Event)
    steps: int = 1
    done: int = 0
    problem: str = ""
    found: Probe | None = None

    def follow(self, count: int) -> None:
        """Count finished steps; raise if the test was stopped."""
        if self.stopped.is_set():
            raise _StopTest
        self.done += count

    def state(self) -> dict[str, Any]:
        """Return the state for the page, with the answer of a finished test."""
        about = {"number": self.number, "region": corners_of(self.region)}
        if self.found is not None:
            answer = describe_answer(self.found, self.sample.total)
            return {"state": "done", **about, "answer": answer}
        if self.problem:
            return {"state": "failed", **about, "problem": self.problem}
        if self.stopped.is_set():
            return {"state": "stopped", **about}
        return {"state": "running", **about, "progress": min(1.0, self.done / self.steps)}


class RegionJob:
    """Tests regions with the networks of a run, one at a time."""

    def __init__(self, views: NetworkViews):
        self._views = views
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._thread: threading.Thread | None = None
        self._test: RegionTest | None = None

    def about(self) -> dict[str, Any]:
        """Return the size of the images that the networks see; `missing` is the reason if there are none."""
        if not self._views.networks():
            return {"missing": self._views.missing}
        model = self.model()
        _, high, wide = model.shape
        return {"high": high, "wide": wide, "share": CROPS[model.crop], "most": MOST}

    def model(self) -> Classifier:
        """Return the first network; raises UsageError if there is none."""
        networks = self._views.networks()
        if not networks:
            raise UsageError(self._views.missing)
        return next(iter(networks.values()))

    def start(self, region: Region, sample: RowSample, images: ImageSource) -> None:
        """Start a test in a thread; raises UsageError while another one is running."""
        with self._lock:
            self._wait_for_the_last()
            test = RegionTest(next(self._numbers), region, sample)
            self._test = test
            self._thread = threading.Thread(target=self._run, args=(test, images), daemon=True)
            self._thread.start()

    def _wait_for_the_last(self) -> None:
        """Wait until a stopped test has ended."""
        if self._thread is None or self._test is None:
            return
        if self._test.stopped.is_set():
            self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise UsageError("A region is already being tested. Wait until it is done, or stop it.")

    def stop(self) -> None:
        """Stop the test; it ends before its next images are classified."""
        if self._test is not None:
            self._test.stopped.set()

    def state(self) -> dict[str, Any]:
        """Return the state of the last test, with its answer if it is done."""
        return {"state": "none"} if self._test is None else self._test.state()

    def flip(self, number: int, place: int) -> Flip:
        """Return an image of a test whose prediction changes."""
        test = self._test
        flips = test.found.changes[0].flips if test and test.found and test.number == number else ()
        if place >= len(flips):
            raise UsageError("There is no such picture. Test the region again.")
        return flips[place]

    def _run(self, test: RegionTest, images: ImageSource) -> None:
        try:
            test.found = _measure(test, self._views.load_again(), images)
        except _StopTest:
            pass
        except UnspurError as error:
            test.problem = str(error)
        except Exception as error:  # of a user's network; the page shows the error
            test.problem = f"The networks cannot be tested: {error}"


def _measure(test: RegionTest, networks: dict[str, Classifier], images: ImageSource) -> Probe:
    test.steps = len(test.sample.rows) * (1 + PASSES * len(networks))
    probed = read_sample(test.sample, images, next(iter(networks.values())), test.follow)
    watched = {name: WatchedModel(model, test.follow) for name, model in networks.items()}
    return measure(watched, probed, [test.region], pick_device(None))


class WatchedModel(nn.Module):
    """A model that classifies a few images at a time, and calls `follow` with their number before."""

    def __init__(self, model: nn.Module, follow: Callable[[int], None]):
        super().__init__()
        self.model, self.follow = model, follow

    def forward(self, images: Tensor) -> Tensor:
        parts = []
        for some in torch.split(images, CHUNK):
            self.follow(len(some))
            parts.append(self.model(some))
        return torch.cat(parts)


def parse_region(value: object, shape: tuple[int, int, int]) -> Region:
    """Return the region [left, top, width, height] within images (channels, height, width)."""
    if not _is_region(value):
        raise UsageError(
            "A region must be four whole numbers: left, top, width and height in pixels, not "
            f"{ascii(value)[:80]}. Draw the rectangle again."
        )
    left, top, width, height = value
    region = hide(f"region {left},{top},{width},{height}")
    assert isinstance(region, Region)
    region.area(torch.empty(1, *shape))  # raises if the region is not within the images
    return replace(region, title="this region")


def _is_region(value: object) -> TypeGuard[list[int]]:
    if not isinstance(value, list) or len(value) != 4:
        return False
    return all(type(each) is int and 0 <= each < MOST_PIXELS for each in value)

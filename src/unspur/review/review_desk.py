"""The objects that all requests share: the review, images, networks, the debias command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .debias_job import DebiasJob
from .image_sources import ImageSource
from .network_views import NetworkViews
from .picture_cache import PictureCache
from .region_job import RegionJob
from .review_folder import Review
from .row_queries import Selections, describe_row
from .suspect_table import SuspectTable

Answer = dict[str, Any]
MOST_CHANGES = 2000  # largest number of rows in an answer about changes


@dataclass
class ReviewDesk:
    """The objects that all requests share."""

    review: Review
    images: ImageSource
    views: NetworkViews
    job: DebiasJob
    classes: list[str]
    title: str
    # Finds the images of a table that replaces this one.
    find_images: Callable[[SuspectTable], ImageSource] | None = None
    pictures: PictureCache = field(default_factory=PictureCache)
    selections: Selections = field(default_factory=Selections)
    regions: RegionJob = field(init=False)

    def __post_init__(self) -> None:
        self.regions = RegionJob(self.views)

    @property
    def table_name(self) -> str:
        """Return a short name of the table, which a request contains if it refers to rows."""
        return self.review.replay.table.identity[:16]

    def reload(self) -> None:
        """Read the table again; if another run has replaced it, find the images of its rows."""
        before = self.table_name
        self.review.reload()
        if self.table_name == before or self.find_images is None:
            return
        self.images = self.find_images(self.review.replay.table)
        self.views.replace_images(self.images)
        self.pictures, self.selections = PictureCache(), Selections()

    def progress(self) -> Answer:
        """Return the progress of the review."""
        replay = self.review.replay
        problem = self.review.table_problem
        return {"seq": replay.seq, "counts": replay.counts(), "problem": problem}

    def describe(self, rows: list[int]) -> list[Answer]:
        """Return rows in the form that the page uses."""
        return [describe_row(self.review.replay, row) for row in rows]

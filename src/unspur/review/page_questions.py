"""Requests of the page that only read: rows, images, results of networks, the files of the page itself."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

from ..errors import UnspurError, UsageError
from .image_sources import to_picture
from .picture_cache import LARGE, THUMBNAIL, EncodedPicture, encode
from .region_answer import probe_command
from .review_desk import MOST_CHANGES, Answer, ReviewDesk
from .row_queries import MOST_ROWS, RowQuery, describe_row, select, typical_rows

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SCRIPTS = ("review", "server", "single", "grid", "list", "chooser", "debias", "region", "elements")
ASSETS = {
    "": ("review.html", "text/html"),
    "review.css": ("review.css", "text/css"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    **{f"{name}.js": (f"{name}.js", "text/javascript") for name in SCRIPTS},
}
TYPICAL, NEIGHBOURS = 6, 6
# The report is a separate page: it may run its script, but it cannot send requests to this server.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:"
)


def start(desk: ReviewDesk, request: Request) -> Answer:
    """Return what the page needs first; read the table again if another run has replaced it."""
    review = desk.review
    with review.lock:
        if review.is_stale():
            desk.reload()
        predicted = sorted(set(review.replay.table.predicted) - {""})
        return {
            "title": desk.title,
            "folder": str(review.folder),
            "classes": desk.classes,
            "predicted": predicted,
            "read_only": review.read_only,
            "table": desk.table_name,
            "no_networks": desk.views.missing,
            **desk.progress(),
        }


def make_selection(desk: ReviewDesk, request: Request) -> Answer:
    """Select rows, and keep the selection for `list_rows`."""
    desk.review.refresh()
    query = RowQuery.of(request.query_params)
    with desk.review.lock:
        rows = select(desk.review.replay, query)
    return {"selection": desk.selections.add(rows), "total": len(rows), **desk.progress()}


def list_rows(desk: ReviewDesk, request: Request) -> Answer:
    """Return some rows of a selection."""
    values = request.query_params
    rows = desk.selections.rows(values.get("selection", ""))
    begin = _whole(values.get("from", "0"))
    end = min(_whole(values.get("to", "0")), begin + MOST_ROWS)
    return {"rows": desk.describe(list(rows[begin:end]))}


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise UsageError(f"{text!r} is not a position in a list. Give a whole number.")
    return int(text)


def list_changes(desk: ReviewDesk, request: Request) -> Answer:
    """Return the rows that changed after a decision, on this or any other page."""
    desk.review.refresh()
    since = _whole(request.query_params.get("since", "0"))
    with desk.review.lock:
        replay = desk.review.replay
        rows = [row for row, seq in replay.changed.items() if seq > since]
        if len(rows) > MOST_CHANGES:
            return {"reload": True, **desk.progress()}
        return {"rows": desk.describe(rows), **desk.progress()}


def _row(desk: ReviewDesk, request: Request) -> int:
    row = int(request.path_params["row"])
    if row >= len(desk.review.replay.table):
        raise UsageError(f"There is no row {row}.")
    return row


def describe_detail(desk: ReviewDesk, request: Request) -> Answer:
    """Return typical images of the label and of the predicted class of a row, and all predictions."""
    row, replay = _row(desk, request), desk.review.replay
    label, predicted = replay.table.labels[row], replay.table.predicted[row]
    try:
        predictions, problem = desk.views.predictions(row), desk.views.missing
    except UnspurError as error:
        predictions, problem = [], str(error)
    return {
        "row": describe_row(replay, row),
        "typical": _cards(desk, typical_rows(replay, label, TYPICAL + 1), row),
        "taken_for": _cards(desk, typical_rows(replay, predicted, TYPICAL), row)
        if predicted != label
        else [],
        "networks": predictions,
        "no_networks": problem,
    }


def _cards(desk: ReviewDesk, rows: list[int], without: int) -> list[Answer]:
    return desk.describe([row for row in rows if row != without][:TYPICAL])


def find_neighbours(desk: ReviewDesk, request: Request) -> Answer:
    """Return the rows that are most similar for the network, or the progress of the search."""
    row, replay = _row(desk, request), desk.review.replay
    found = desk.views.neighbours(row, range(len(replay.table)), NEIGHBOURS)
    cards = [
        {**describe_row(replay, each["row"]), "similarity": each["similarity"]}
        for each in found.get("rows", [])
    ]
    return {**found, "rows": cards}


def show_image(desk: ReviewDesk, request: Request) -> Response:
    """Return an image in large size."""
    return _picture(desk, _row(desk, request), LARGE)


def show_thumbnail(desk: ReviewDesk, request: Request) -> Response:
    """Return a thumbnail of an image."""
    return _picture(desk, _row(desk, request), THUMBNAIL)


def _picture(desk: ReviewDesk, row: int, side: int) -> Response:
    make = functools.partial(desk.images.show, row, side)
    return _send(desk.pictures.get((row, side), make))


def show_look(desk: ReviewDesk, request: Request) -> Response:
    """Return the saliency map of a network for an image."""
    row, network = _row(desk, request), str(request.path_params["network"])
    if network not in desk.views.networks():
        raise UsageError(desk.views.missing or f"There is no network {network!r}.")
    return _send(desk.pictures.get((row, network), lambda: desk.views.look(row, network)))


def _send(picture: EncodedPicture) -> Response:
    from starlette.responses import Response

    headers = {"cache-control": "private, max-age=3600"}
    return Response(picture.data, media_type=picture.kind, headers=headers)


def send_asset(desk: ReviewDesk, request: Request) -> Response:
    """Return a file of the page; no other file is served."""
    from starlette.responses import Response

    name = request.path_params.get("name", "")
    if name not in ASSETS:
        raise UsageError("There is no such page.")
    file, kind = ASSETS[name]
    content = resources.files(__package__).joinpath(f"assets/{file}").read_bytes()
    return Response(content, media_type=kind)


def preview_debias(desk: ReviewDesk, request: Request) -> Answer:
    """Return the debias command, and its state if it was started."""
    return {**desk.job.preview(), "job": desk.job.state()}


def show_report(desk: ReviewDesk, request: Request) -> Response:
    """Return the report of the debias command, in a separate sandbox."""
    from starlette.responses import Response

    page = desk.job.report()
    if page is None:
        raise UsageError("There is no report yet. Wait until the debias command has finished.")
    policy = {"content-security-policy": REPORT_POLICY}
    return Response(page.read_bytes(), media_type="text/html", headers=policy)


def describe_region(desk: ReviewDesk, request: Request) -> Answer:
    """Return the size of the images that the networks see, and the state of the test of a region."""
    job = desk.regions.state()
    if "region" in job:
        job["command"] = probe_command(desk.review.folder, job["region"])
    return {**desk.regions.about(), "job": job}


def show_flip(desk: ReviewDesk, request: Request) -> Response:
    """Return an image whose prediction changes if a region is hidden, before or after the change."""
    values = request.path_params
    flip = desk.regions.flip(int(values["test"]), int(values["place"]))
    if values["side"] not in ("before", "after"):
        raise UsageError("There is no such picture.")
    pixels = flip.picture if values["side"] == "before" else flip.changed
    return _send(encode(to_picture(pixels)))

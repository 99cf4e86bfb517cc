"""Start the server of a review on 127.0.0.1; its URL has a random token."""

from __future__ import annotations

import functools
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UnspurError, UsageError
from ..runs import audit_folder
from ..runs.finished import is_audit, open_run
from ..store import read_json
from .debias_job import DebiasJob
from .image_sources import find_images
from .network_views import open_views
from .review_desk import ReviewDesk
from .review_folder import Review
from .web_app import build_app
from .web_guard import WebGuard

if TYPE_CHECKING:
    import uvicorn

HOST = "127.0.0.1"
USUAL_PORT = 8471  # always the same, so that an open page finds a restarted server
INSTALL = "pip install 'unspur[review]'"


@dataclass(frozen=True)
class ReviewServer:
    """A server that is ready to run: its URL, its socket and its application."""

    url: str
    socket: socket.socket
    app: Any

    def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until the user stops the server; `started` is called before the first request is served."""
        server = self.prepare()
        started()
        server.run(sockets=[self.socket])

    def prepare(self) -> uvicorn.Server:
        """Return a server of uvicorn that can be run with the socket."""
        import uvicorn

        config = uvicorn.Config(
            self.app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            # A browser may hold a connection open on which it never asks anything.
            timeout_graceful_shutdown=2,
        )
        return uvicorn.Server(config)


def open_desk(
    folder: Path,
    *,
    images: str | None = None,
    model: str | None = None,
    trust: bool = False,
    read_only: bool = False,
) -> ReviewDesk:
    """Open the review of a run's or an audit's folder, with its images and networks."""
    audited = is_audit(folder)
    if audited:
        audit_folder.read(folder)
    else:
        open_run(folder)  # raises if the folder is incomplete
    review = Review(folder, read_only=read_only)
    table = review.replay.table
    source = find_images(folder, table, images)
    views = open_views(folder, source, model=model, trust=trust)
    record = read_json(folder / (audit_folder.RECORD if audited else "run.json"))
    name = (record.get("data") or {}).get("name", "")
    classes = table.classes()
    if not audited:
        classes = [str(each) for each in read_json(folder / "model.json").get("classes", classes)]
    find = functools.partial(find_images, folder, data_path=images)
    return ReviewDesk(review, source, views, DebiasJob(folder, images), classes, str(name), find)


def open_server(desk: ReviewDesk, port: int = 0) -> ReviewServer:
    """Bind the server to a port; 0 is the usual port if it is free, otherwise any free port."""
    need_server()
    listening = _bind(port)
    number = int(listening.getsockname()[1])
    token = secrets.token_urlsafe(24)
    app = WebGuard(build_app(desk), token, number)
    return ReviewServer(f"http://{HOST}:{number}/{token}/", listening, app)


def need_server() -> None:
    """Raise if the packages of the server are not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise UnspurError(
            f"the review needs {error.name}, which is not installed. Run: {INSTALL}"
        ) from error


def _bind(port: int) -> socket.socket:
    try:
        return _listen(port or USUAL_PORT)
    except OSError as error:
        if port:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}). Choose another --port, or leave it out."
            ) from None
        return _listen(0)


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # on other systems two servers could share a port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)  # a browser that is opened immediately can wait in this queue
    except OSError:
        listening.close()
        raise
    return listening

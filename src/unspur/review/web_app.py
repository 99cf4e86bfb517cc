"""The routes of the server, and how requests become responses.

Questions (GET) only read; orders (POST) change something. To add a tool to the page, write a function in
`page_questions` or `page_orders`, add a line to one of the tables here, and listen to the event
`review:shown` in the page.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import UnspurError, UsageError
from . import page_orders, page_questions
from .review_desk import Answer, ReviewDesk
from .review_folder import NotSavedError
from .row_queries import ForgottenSelection

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Question = Callable[[ReviewDesk, "Request"], "Response | Answer"]
Order = Callable[[ReviewDesk, Answer], Answer]
QUESTIONS: dict[str, Question] = {
    "/api/start": page_questions.start,
    "/api/select": page_questions.make_selection,
    "/api/rows": page_questions.list_rows,
    "/api/changes": page_questions.list_changes,
    "/api/detail/{row:int}": page_questions.describe_detail,
    "/api/neighbours/{row:int}": page_questions.find_neighbours,
    "/api/debias": page_questions.preview_debias,
    "/api/region": page_questions.describe_region,
    "/flip/{test:int}/{place:int}/{side}": page_questions.show_flip,
    "/image/{row:int}": page_questions.show_image,
    "/thumbnail/{row:int}": page_questions.show_thumbnail,
    "/look/{network}/{row:int}": page_questions.show_look,
    "/report": page_questions.show_report,
    "/{name}": page_questions.send_asset,
    "/": page_questions.send_asset,
}
ORDERS: dict[str, Order] = {
    "/api/decide": page_orders.decide,
    "/api/undo": page_orders.undo,
    "/api/debias/start": page_orders.start_debias,
    "/api/debias/stop": page_orders.stop_debias,
    "/api/region/start": page_orders.start_region,
    "/api/region/stop": page_orders.stop_region,
}
FULL = (28, 122, 27)  # no space left, quota exceeded, file too large


def build_app(desk: ReviewDesk) -> Starlette:
    """Return the application, which must be wrapped in a `WebGuard`."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    orders = [Route(path, _order(desk, each), methods=["POST"]) for path, each in ORDERS.items()]
    questions = [Route(path, _question(desk, each)) for path, each in QUESTIONS.items()]
    return Starlette(routes=[*orders, *questions])


def _question(desk: ReviewDesk, read: Question) -> Callable[[Request], Response]:
    """Return the endpoint of a question, which Starlette calls in a thread."""

    @functools.wraps(read)
    def endpoint(request: Request) -> Response:
        return _answer(lambda: read(desk, request))

    return endpoint


def _order(desk: ReviewDesk, carry_out: Order) -> Any:
    """Return the endpoint of an order, which reads a JSON object first."""

    async def endpoint(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        body = await request.body()
        return await run_in_threadpool(_answer, lambda: carry_out(desk, _parse(body)))

    return endpoint


def _parse(body: bytes) -> Answer:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("The request is not JSON. Reload the page.") from None
    if not isinstance(content, dict):
        raise UsageError("The request is not a JSON object. Reload the page.")
    return content


def _answer(work: Callable[[], Response | Answer]) -> Response:
    """Return the response, or an error message: 507 for a disk error, 410 for a forgotten selection."""
    from starlette.responses import JSONResponse

    try:
        found = work()
    except OSError as error:
        return JSONResponse({"error": _disk_message(error)}, 507)
    except NotSavedError as error:
        return JSONResponse({"error": f"{error} This page keeps the decision."}, 507)
    except ForgottenSelection as error:
        return JSONResponse({"error": str(error)}, 410)
    except UnspurError as error:
        return JSONResponse({"error": str(error)}, 400 if isinstance(error, UsageError) else 409)
    return JSONResponse(found) if isinstance(found, dict) else found


def _disk_message(error: OSError) -> str:
    if error.errno in FULL:
        return (
            "The disk is full. Nothing is lost: this page keeps the decision and tries again. Free some disk "
            "space."
        )
    return f"The decision cannot be written ({error.strerror}). This page keeps it and tries again."

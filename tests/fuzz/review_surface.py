"""Requests to the server of a review: a valid answer, or a refusal with a message and an unchanged table."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from urllib.parse import quote

from unspur.errors import UsageError
from unspur.review.decision_log import KINDS
from unspur.review.review_desk import ReviewDesk
from unspur.review.review_folder import Review
from unspur.review.review_server import open_desk
from unspur.review.web_app import ORDERS, QUESTIONS, build_app
from unspur.review.web_guard import WebGuard

from .desk import Desk
from .mutators import ODD_TEXT, ODD_VALUES, damage_json
from .oracle import Case

TOKEN, PORT = "token", 8471
HEADERS = {"host": f"127.0.0.1:{PORT}", "origin": f"http://127.0.0.1:{PORT}"}
FIELDS = ("kind", "rows", "ranges", "selection", "label", "note", "key", "page", "table", "region")
WORDS = (*KINDS, "1", "²", "-1", "9" * 5000, "\ud800", "nan", "score", "all", "lies", "debiased")
NAMES = ("selection", "from", "to", "since", "shown", "sort", "low", "high", "text", "label")
SHAPES = ([[0, 2]], [[None, None]], [[2**70, 0]], [0, 0, 9, 9], {"note": []}, "\ud800", "\0\r\n")
PATHS = {"row": "{row:int}", "network": "{network}", "test": "{test:int}", "place": "{place:int}"}
DECISIONS = ("confirm", "clear", "relabel", "exclude", "skip", "note")


@cache
def _desk(desk: Desk) -> ReviewDesk:
    """Return the review of a copy of the run, whose networks are loaded once."""
    copy = desk.root / "reviewed"
    shutil.copytree(desk.run, copy)
    return open_desk(copy)


def make(rng: random.Random, desk: Desk) -> Case:
    """Return a random order or a random question."""
    review = _desk(desk)
    return _order(rng, review) if rng.random() < 0.7 else _question(rng, review)


def _order(rng: random.Random, review: ReviewDesk) -> Case:
    path = rng.choice(list(ORDERS))
    body = _body(rng, review)
    data = json.dumps(body).encode()
    if rng.random() < 0.3:
        data = damage_json(rng, data)
    return _case(review, "POST", path, data)


def _body(rng: random.Random, review: ReviewDesk) -> dict[str, Any]:
    """Return a valid decision in which some fields are replaced by odd values."""
    rows, label = [rng.randrange(20)], rng.choice(review.classes)
    body = {"kind": rng.choice(DECISIONS), "rows": rows, "label": label, "region": [0, 0, 4, 4]}
    for name in rng.sample(FIELDS, rng.randrange(4)):
        body[name] = rng.choice(rng.choice([ODD_VALUES, ODD_TEXT, WORDS, SHAPES]))
    return body


def _question(rng: random.Random, review: ReviewDesk) -> Case:
    path = rng.choice(list(QUESTIONS))
    for place in PATHS.values():
        path = path.replace(place, quote(rng.choice(WORDS).encode("utf-8", "replace"), safe=""))
    path = path.replace("{side}", "before").replace("{name}", "review.js")
    names = (rng.choice(NAMES) for _ in range(rng.randrange(4)))
    query = "&".join(f"{name}={quote(_word(rng))}" for name in names)
    return _case(review, "GET", path, b"", query)


def _word(rng: random.Random) -> str:
    return rng.choice(rng.choice([WORDS, ODD_TEXT])).encode("utf-8", "replace").decode()


def _case(review: ReviewDesk, method: str, path: str, body: bytes, query: str = "") -> Case:
    folder = review.review.folder
    before = (folder / "suspects.csv").read_bytes()

    def call() -> bytes:
        status, answer = _send(review, method, path, body, query)
        if status == 200:
            return answer
        if status in (307, 404, 405):  # of the routes, which change nothing
            return b"{}"
        assert 400 <= status < 500, f"status {status}"
        assert (folder / "suspects.csv").read_bytes() == before, (
            "a refused request changed the table"
        )
        raise UsageError(json.loads(answer)["error"] or "no message")

    def right(found: bytes, warned: list[str]) -> bool:
        if path not in ("/api/decide", "/api/undo"):
            return (folder / "suspects.csv").read_bytes() == before
        stored = Review(folder).replay
        return stored.states == review.review.replay.states and not review.review.table_problem

    def undo() -> None:
        for name in ("review.jsonl", "suspects-before-review.csv"):
            (folder / name).unlink(missing_ok=True)
        (folder / "suspects.csv").write_bytes(before)
        review.review.reload()

    return Case(f"{method} {path[:60]}?{query[:80]} {body[:200]!r}", call, right, undo=undo)


def _send(review: ReviewDesk, method: str, path: str, body: bytes, query: str) -> tuple[int, bytes]:
    """Send a request from a thread of its own, as this one may have an event loop."""
    with ThreadPoolExecutor(1) as pool:
        request = _request(review, method, path, body, query)
        return pool.submit(asyncio.run, request).result()


async def _request(
    review: ReviewDesk, method: str, path: str, body: bytes, query: str
) -> tuple[int, bytes]:
    """Send a request to the application without a network; errors of its functions are raised."""
    sent: list[dict[str, Any]] = []
    headers = {**HEADERS, "content-type": "application/json", "content-length": str(len(body))}
    scope = {
        "type": "http",
        "method": method,
        "path": f"/{TOKEN}{path}",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    await WebGuard(build_app(review), TOKEN, PORT)(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])

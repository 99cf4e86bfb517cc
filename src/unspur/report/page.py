"""The page people look at: one HTML file about a run, made from what the run left behind.

It needs nothing else, neither network nor files; it trains nothing and runs no network.
"""

from __future__ import annotations

import base64
import hashlib
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from torch import Tensor

from ..store import Artifact, write_bytes
from ..theory.checks import need
from . import curves, gallery, triptych, words
from .intervals import Intervals, bootstrap
from .reading import Finished, open_run

UNTRAINED = ("inspect", "evaluate")  # stages without a course to show


def write(folder: Path, store: Path | None = None, *, out: Path | None = None) -> Path:
    """Write the report of a run, by default as report.html in its folder."""
    need("jinja2")
    path = out or folder / "report.html"
    write_bytes(path, render(open_run(folder, store)).encode())
    return path


def render(run: Finished) -> str:
    """The page as text."""
    jinja2 = need("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = _asset("report.js")
    text: str = environment.from_string(_asset("report.html.j2")).render(
        **content(run),
        style=_asset("report.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text


def content(run: Finished) -> dict[str, Any]:
    """Everything the page shows, by the names its template uses."""
    settings = tomllib.loads(run.recipe)
    names = words.spoken(run.scores, settings["plan"])
    intervals = _intervals(run.stages.get("evaluate"))
    inspected = run.stages.get("inspect")
    facts, tensors = (inspected.facts, inspected.tensors) if inspected else ({}, {})
    biases = facts.get("bias_classes", [])
    return {
        "run": run,
        "settings": settings,
        "networks": names,
        "verdict": words.verdict(run.scores, settings["plan"]),
        "change": words.change(run.scores, intervals),
        "accuracies": words.accuracies(run.scores, names, intervals),
        "unseen": words.unseen(run.scores, names),
        "matrices": words.matrices(run.scores, names, run.classes, biases),
        "shelves": gallery.shelves(facts, tensors) if facts.get("gallery") else [],
        "looks": gallery.looks(facts, tensors) if facts.get("looks") else [],
        **_maps(tensors, names, run.classes, biases),
        "charts": _charts(run),
        "layers": run.scores["density"]["layers"],
        "facts": facts,
        "percent": words.percent,
        "scored_on": words.scored_on(run.scores),
    }


def _intervals(evaluated: Artifact | None) -> Intervals | None:
    """None where the predictions are no longer stored."""
    return bootstrap(evaluated.tensors) if evaluated and "targets" in evaluated.tensors else None


def _maps(
    tensors: dict[str, Tensor], names: dict[str, str], classes: list[str], biases: list[str]
) -> dict[str, Any]:
    """The maps, or why there are none."""
    try:
        maps = triptych.rows(tensors, names, classes, biases)
    except ModuleNotFoundError as error:
        return {"maps": [], "no_maps": str(error)}
    return {"maps": maps, "no_maps": ""}


def _charts(run: Finished) -> dict[str, list[curves.Chart]]:
    """The course of every stage that trained; the step kept is marked in the last of them."""
    trained = {name: stage for name, stage in run.stages.items() if name not in UNTRAINED}
    chosen = run.scores["selection"].get("step")
    last = next(reversed(trained), None)
    found = {
        name: curves.charts_of(name, stage.log, chosen=chosen if name == last else None)
        for name, stage in trained.items()
    }
    return {name: drawn for name, drawn in found.items() if drawn}


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(f"assets/{name}").read_text("utf-8")

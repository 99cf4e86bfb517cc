"""The theory report: a page, its figures and every number, from `unspur.theory`.

theory.html   a self-contained page with text, figures and tables
*.svg         each figure as a file
theory.json   all numbers, with settings, versions and times
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from ..errors import StoreError, UnspurError
from ..extras import need
from ..store import write_bytes
from ..theory import corners, studies
from ..theory.studies import QUICK, Settings
from ..version import VERSION
from . import theory_figures as figures
from .theory_words import describe, tables

Numbers = dict[str, Any]
Say = Callable[[str], None]

PACKAGES = ("torch", "numpy", "scipy", "matplotlib", "jinja2")


def write(out: Path, *, quick: bool = False, progress: Say | None = None) -> Numbers:
    """Compute all numbers; write figures, numbers and the page into a folder; return the numbers."""
    numbers, svgs = write_figures(out, quick=quick, progress=progress)
    write_bytes(out / "theory.json", _json(numbers))
    write_bytes(out / "theory.html", page(numbers, svgs, quick=quick).encode())
    return numbers


def write_figures(
    out: Path, *, quick: bool = False, progress: Say | None = None
) -> tuple[Numbers, dict[str, str]]:
    """Compute all numbers and write the figures into a folder; return the numbers and the figures."""
    _check_extras()
    _make_folder(out)
    say = progress or (lambda line: None)
    numbers = compute(QUICK if quick else Settings(), say)
    say("drawing figures")
    svgs = {name: figures.draw(name, numbers[name]) for name in figures.FIGURES}
    for name, svg in svgs.items():
        write_bytes(out / f"{name}.svg", figures.on_white(svg).encode())
    return numbers, svgs


def compute(settings: Settings, say: Say) -> Numbers:
    """Compute every number of the report."""
    parts: Numbers = {}
    seconds: dict[str, float] = {}
    for name, study in (
        ("bounds", studies.bounds),
        ("mixtures", studies.mixtures),
        ("corners", corners.corners),
        ("flows", studies.flows),
        ("cosines", studies.cosines),
    ):
        with _time_study(name, seconds, say):
            parts[name] = study(settings)
    with _time_study("simulation", seconds, say):
        parts["simulation"], weights = studies.simulate(settings, _epochs(say))
    with _time_study("pruning", seconds, say):
        biased = weights[0, settings.ps.index(settings.p)]
        parts["pruning"] = studies.prune(settings, biased)
    return {"about": _about(seconds), "settings": asdict(settings), **parts}


def page(numbers: Numbers, svgs: dict[str, str], *, quick: bool) -> str:
    """Render the HTML page."""
    jinja2 = need("jinja2")
    template = resources.files(__package__).joinpath("assets/theory.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    inline_figures = {name: figures.inline(svg, name) for name, svg in svgs.items()}
    inline_formulas = {
        name: figures.inline(figures.formula(name), f"formula-{name}")
        for name in ("model", "ties", "conserved")
    }
    text: str = environment.from_string(template).render(
        n=numbers,
        figures=inline_figures,
        formulas=inline_formulas,
        words=describe(numbers),
        tables=tables(numbers),
        quick=quick,
    )
    return text


@contextmanager
def _time_study(name: str, seconds: dict[str, float], say: Say) -> Iterator[None]:
    say(name)
    began = time.perf_counter()
    yield
    seconds[name] = round(time.perf_counter() - began, 2)


def _epochs(say: Say) -> Callable[[int, int], None]:
    def update(epoch: int, epochs: int) -> None:
        if epoch % 100 == 0 and epoch < epochs:
            say(f"simulation: epoch {epoch} of {epochs}")

    return update


def _about(seconds: dict[str, float]) -> Numbers:
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": seconds,
        "versions": {"unspur": VERSION, "python": platform.python_version(), **versions},
    }


def _check_extras() -> None:
    """Raise an error if a package is missing, before anything is computed."""
    for name in ("jinja2", "matplotlib", "scipy"):
        try:
            need(name)
        except ModuleNotFoundError as error:
            raise UnspurError(str(error)) from error


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {out} cannot be created: {error.strerror}. Choose another one with --out."
        ) from error


def _json(numbers: Numbers) -> bytes:
    """Return JSON with one line for each part of the report."""
    lines = (f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in numbers.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

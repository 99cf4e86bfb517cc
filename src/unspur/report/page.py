"""Write report.html: one self-contained HTML file about a run or an audit.

The page is made from stored results alone. Nothing is trained and no network is evaluated.
"""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import recipes
from ..errors import StoreError, UsageError
from ..extras import need
from ..recipes.composition import compose
from ..runs import audit_folder
from ..runs.finished import Finished, is_audit, open_run
from ..runs.intervals import Intervals
from ..runs.run_folder import REPORT
from ..store import locked, make_folder, sweep, write_bytes
from . import audit_page, correction_words, curves, gain_words, gallery, headline, triptych, words
from .templates import render_template

# Errors that unexpected contents of a file can cause.
CONTENT_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
UNTRAINED = ("inspect", "evaluate")  # stages without a training to show


def write(
    folder: Path, store: Path | None = None, *, out: Path | None = None, tsne: bool = False
) -> Path:
    """Write the report of a run or an audit, by default as report.html in its folder.

    With `tsne` the feature maps of a run are t-SNE layouts, which take seconds; otherwise the first two
    principal components.
    """
    need("jinja2")
    path = out or folder / REPORT
    if out is not None:
        _refuse_other_file(out)
    with _name_damage(folder):
        if is_audit(folder):
            _refuse_for_audit(folder, store=store is not None, tsne=tsne)
            text = audit_page.render(audit_folder.read(folder))
        else:
            run = open_run(folder, store)
            _warn_of_missing(run)
            text = render(run, tsne=tsne)
    make_folder(path.parent)
    with _write_alone(path):
        write_bytes(path, text.encode())
    return path


def _refuse_other_file(out: Path) -> None:
    """Raise StoreError if a page at `out` would replace something that is not a page."""
    if out.is_dir():
        raise StoreError(f"{out} is a folder. Name the HTML file to write, as in {out / REPORT}.")
    if out.is_file() and not out.read_bytes()[:15].lower().startswith(b"<!doctype html"):
        raise StoreError(f"{out} exists and is not a page. Choose another --out.")


def _refuse_for_audit(folder: Path, **given: bool) -> None:
    """Raise UsageError if something was given that only the report of a run uses."""
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{folder} is an audit; --{name} is only for runs. Leave it out.")


@contextmanager
def _write_alone(path: Path) -> Iterator[None]:
    """Let one process at a time write a page; remove temporary files of processes that were killed."""
    with locked(path):
        sweep(path.parent, f"{path.name}.")
        yield


def _warn_of_missing(run: Finished) -> None:
    if not run.missing:
        return
    lost = ", ".join(run.missing)
    text = f"no longer stored: {lost}; the page leaves them out."
    if not run.store.is_dir():
        text = (
            f"there is no store at {os.path.normpath(run.store)}, so the page leaves out {lost}. If the run "
            "was moved or copied, name its store: --store FOLDER."
        )
    warnings.warn(text, stacklevel=3)


@contextmanager
def _name_damage(folder: Path) -> Iterator[None]:
    """Raise StoreError if the files of a folder can be read but have unexpected contents."""
    from jinja2 import TemplateError

    try:
        yield
    except (*CONTENT_ERRORS, TemplateError) as error:
        raise StoreError(
            f"no page can be made from the files in {folder} ({type(error).__name__}: {error}). They are "
            "damaged, or from another version of unspur. Run the command that made the folder again; stored "
            "trainings are not repeated."
        ) from error


def write_if_possible(folder: Path, store: Path | None = None) -> Path | None:
    """Write the page as the last step of a command; if a package is missing, warn and return None."""
    try:
        return write(folder, store)
    except ModuleNotFoundError as error:
        warnings.warn(f"no report.html was written: {error}.", stacklevel=2)
        return None


def render(run: Finished, *, tsne: bool = False) -> str:
    """Return the page of a run as text."""
    return render_template("report.html.j2", content(run, tsne=tsne))


def content(run: Finished, *, tsne: bool = False) -> dict[str, Any]:
    """Return the variables of the page's template."""
    settings = tomllib.loads(run.recipe)
    names = words.network_titles(run.scores, settings["plan"])
    intervals = run.intervals
    inspected = run.stages.get("inspect")
    facts, tensors = (inspected.facts, inspected.tensors) if inspected else ({}, {})
    biases = facts.get("bias_classes", [])
    changes = headline.changes(run.scores, intervals)
    cost = run.record.get("size_and_speed")
    rejection = gain_words.rejection(run.scores)
    gain = run.scores["gain_check"]["gain"] if rejection else gain_words.measured(run.scores)
    shelves = gallery.shelves(facts, tensors, _marks) if facts.get("gallery") else []
    return {
        "run": run,
        "settings": settings,
        "networks": names,
        "verdict": (found := words.verdict(run.scores, settings["plan"])),
        "head": headline.rejected() if rejection else headline.lead_with_gain(found, changes),
        "tiles": headline.tiles(run.scores, changes, intervals, cost),
        "costs": headline.cost_sentences(cost) if cost else [],
        "change": " ".join(rejection) or _change(run.scores, intervals),
        "unchecked": gain_words.unchecked(run.scores),
        "origin": (gain_words.ORIGIN if rejection else gain_words.conclusion(gain)) if gain else "",
        "notes": _notes(run.record["recipe"], settings),
        "scope": gain_words.scope_of_average(run.scores),
        "accuracies": words.accuracies(run.scores, names, intervals),
        "gain": gain,
        "gains": gain_words.table(gain) if gain else None,
        "unseen": None if gain else words.unseen(run.scores, names),
        "matrices": words.matrices(run.scores, names, run.classes, biases),
        "corrected": correction_words.describe(run.record.get("corrections")),
        "shelves": shelves,
        "filters": gallery.filters(shelves, {"wrong": _wrong_filter(names)}),
        "looks": gallery.looks(facts, tensors) if facts.get("looks") else [],
        **_maps(tensors, names, run.classes, biases, tsne=tsne),
        "map_method": "t-SNE" if tsne else "the two principal components",
        "charts": (charts := _charts(run)),
        "stage_words": words.stages(charts),
        "held_out": words.held_out,
        "layers": run.scores["density"]["layers"],
        "facts": facts,
        "percent": words.percent,
        "scored_on": words.scored_on(run.scores),
    }


def _change(scores: dict[str, Any], intervals: Intervals | None) -> str:
    """Say what debiasing changed: by the measured gain if there are no bias labels, otherwise by group."""
    gain = gain_words.measured(scores)
    return " ".join(gain_words.sentences(gain)[:-1]) if gain else words.change(scores, intervals)


def _notes(name: str, settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the notes of a built-in recipe; nothing for a user's own images."""
    own = settings["data"]["name"] == "given" or name not in recipes.names()
    return () if own else compose(name).notes


def _marks(sample: gallery.Sample) -> Sequence[str]:
    """Mark a sample that the final network still classifies wrongly."""
    says = sample["says"]
    final = says.get("debiased", says.get("ordinary", sample["label"]))
    return ["wrong"] if final != sample["label"] else []


def _wrong_filter(names: Mapping[str, str]) -> str:
    return "wrong after debiasing" if "debiased" in names else "wrong by the ordinary model"


def _maps(
    tensors: dict[str, Tensor],
    names: dict[str, str],
    classes: list[str],
    biases: list[str],
    *,
    tsne: bool,
) -> dict[str, Any]:
    """Return the feature maps, or the reason why there are none."""
    try:
        maps = triptych.rows(tensors, names, classes, biases, tsne=tsne)
    except ModuleNotFoundError as error:
        return {"maps": [], "no_maps": str(error)}
    return {"maps": maps, "no_maps": ""}


def _charts(run: Finished) -> dict[str, list[curves.Chart]]:
    """Return the charts of every training stage; the selected step is marked in the last one."""
    trained = {name: stage for name, stage in run.stages.items() if name not in UNTRAINED}
    chosen = run.scores["selection"].get("step")
    last = next(reversed(trained), None)
    charts = {
        name: curves.charts_of(name, stage.log, chosen=chosen if name == last else None)
        for name, stage in trained.items()
    }
    return {name: stage_charts for name, stage_charts in charts.items() if stage_charts}

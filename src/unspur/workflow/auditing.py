"""Audit a user's images: prepare the audit, carry it out, write its folder and its report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from .. import models
from ..audit import auditor, preparation
from ..audit.explanation import Explanation, explain
from ..audit.explanation_columns import find_columns
from ..audit.power import Power
from ..audit.result import Audit
from ..data.custom import hub
from ..data.custom.assembly import UserImages
from ..data.custom.listing import printable
from ..data.custom.sample_table import SampleTable, has_properties, read_sample_table
from ..data.custom.sources import list_source
from ..parallel import alone, from_first, is_first, only_first
from ..report import page
from ..runs import audit_folder
from ..runs.result_folder import save_skipped, write_together
from ..stages.context import Context
from ..stages.corrections import sample_names
from ..stages.place import Place
from .contexts import audit_context, audit_pixels, shrink_once


def open_audit(
    images: UserImages,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    size: int = 0,
    seed: int = 0,
    steps: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Context:
    """Prepare an audit of a user's images; raise DataError if they cannot be audited."""
    stated = models.StartingPoint(model).pixels if model is not None else 0
    limit = size or stated or audit_pixels(place)
    splits = shrink_once(images.open(limit, square=stated > 0), limit)
    context = audit_context(splits, place, model=model, seed=seed, steps=steps, changes=changes)
    preparation.check(context)
    return context


def carry_out_audit(
    context: Context,
    out: Path | None = None,
    *,
    command: str = "",
    source: str = "",
    table: Path | None = None,
    measure: Callable[[Context], Power] | None = None,
) -> tuple[Audit, Path | None]:
    """Audit the training split; with `out`, write the folder of the audit and its report.

    Properties of the images and the columns of `table` are used to explain the suspects. `measure` measures
    which shortcuts the audit would find; the folder is written before that, and again afterwards. Several
    processes train and measure together; only the first reads the table, explains and writes.
    """
    with write_together(out, "audit", source):
        facts = only_first(lambda: _image_facts(context, source, table))
        found = _explained(auditor.audit(context), context, facts)
        save = partial(_save, context, out, command, source)
        report = save(found)
        if measure is None:
            return found, report
        found = replace(found, power=measure(context))
        return found, save(found)


def _save(
    context: Context, out: Path | None, command: str, source: str, found: Audit
) -> Path | None:
    """Write the folder and the report of an audit in the first process, if `out` is given."""
    if out is None or not is_first():
        return None
    with alone():
        save_skipped(context.splits, out)
        audit_folder.save(found, context, out, command=command, source=source)
        return page.write_if_possible(out)


@dataclass(frozen=True)
class ImageFacts:
    """Information about images besides their pixels: their files, and a table with its name."""

    files: Mapping[str, Path]
    table: SampleTable | None = None
    table_name: str = ""


def _image_facts(context: Context, source: str, table: Path | None) -> ImageFacts:
    """Find the files of images, and read `table` or, without it, the table that lists the images."""
    files = _files(source)
    if table is None and not has_properties(Path(source)):
        return ImageFacts(files)
    path = table or Path(source)
    read = read_sample_table(path, sample_names(context.splits.train), files)
    return ImageFacts(files, read, printable(path))


def _files(source: str) -> dict[str, Path]:
    """Return the files of a folder or a table of images by name; an empty dictionary for other data."""
    if not source or source.startswith(hub.PREFIX):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same warnings were shown when the images were opened
        listing = list_source(Path(source))
    return {printable(row.path, listing.root): row.path for row in listing.rows}


def _explained(found: Audit, context: Context, facts: ImageFacts | None) -> Audit:
    """Return the audit with an explanation of its suspects; only the first process has the facts."""

    def work() -> Explanation:
        assert facts is not None
        return _explain(found, context, facts)

    return replace(found, explanation=from_first(work))


def _explain(found: Audit, context: Context, facts: ImageFacts) -> Explanation:
    splits = context.splits
    explanation = explain(
        found.suspects.conflict,
        splits.train.targets,
        splits.classes,
        find_columns(splits, facts.files, facts.table),
        seed=context.recipe.seed,
    )
    missing = facts.table.missing if facts.table else 0
    return replace(explanation, table=facts.table_name, missing=missing)

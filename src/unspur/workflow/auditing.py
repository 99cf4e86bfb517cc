"""Audit a user's images: the context of the audit, the audit, its folder, its page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ..audit import auditor, preparation
from ..audit.explanation import explain
from ..audit.explanation_columns import find_columns
from ..audit.power import Power
from ..audit.result import Audit
from ..data.custom import hub
from ..data.custom.assembly import UserImages
from ..data.custom.listing import printable
from ..data.custom.sample_table import SampleTable, has_properties, read_sample_table
from ..data.custom.sources import list_source
from ..data.splits import shrink
from ..report import page
from ..runs import audit_folder
from ..runs.result_folder import save_skipped, write_alone
from ..stages.context import Context
from ..stages.corrections import sample_names
from ..stages.place import Place
from .contexts import audit_context, audit_pixels


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
    """Prepare an audit of a user's images; raises if they cannot be audited."""
    limit = size or audit_pixels(place)
    splits = shrink(images.open(limit), limit)
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
    """Audit the training split, and with `out` save the audit's folder and page.

    The suspects are explained by what is known of the images, and by the columns of `table`. `measure`
    measures what the audit would find; the folder is complete before that begins, and again after it.
    """
    with write_alone(out, "audit"):
        files = _files(source)
        columns_of_user = _read_table(context, source, table, files)
        found = _explained(auditor.audit(context), context, files, columns_of_user)
        save = partial(_save, context, out, command, source)
        report = save(found)
        if measure is None:
            return found, report
        found = replace(found, power=measure(context))
        return found, save(found)


def _save(
    context: Context, out: Path | None, command: str, source: str, found: Audit
) -> Path | None:
    """Write the folder of an audit and its page, if there is to be one."""
    if out is None:
        return None
    save_skipped(context.splits, out)
    audit_folder.save(found, context, out, command=command, source=source)
    return page.attempt(out)


def _files(source: str) -> dict[str, Path]:
    """Return the files of a folder or a table of images by their names; none for other data."""
    if not source or source.startswith(hub.PREFIX):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all was said when the images were opened
        listing = list_source(Path(source))
    return {printable(row.path, listing.root): row.path for row in listing.rows}


def _read_table(
    context: Context, source: str, table: Path | None, files: Mapping[str, Path]
) -> tuple[str, SampleTable] | None:
    """Read the table of a user or, without one, the table that the images are listed in."""
    if table is None and not has_properties(Path(source)):
        return None
    path = table or Path(source)
    return printable(path), read_sample_table(path, sample_names(context.splits.train), files)


def _explained(
    found: Audit,
    context: Context,
    files: Mapping[str, Path],
    table: tuple[str, SampleTable] | None,
) -> Audit:
    """Return the audit with what goes with being a suspect."""
    splits = context.splits
    name, columns = table or ("", None)
    explanation = explain(
        found.suspects.conflict,
        splits.train.targets,
        splits.classes,
        find_columns(splits, files, columns),
        seed=context.recipe.seed,
    )
    missing = columns.missing if columns else 0
    return replace(found, explanation=replace(explanation, table=name, missing=missing))

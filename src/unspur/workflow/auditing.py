"""Audit a user's images: the context of the audit, the audit, its folder, its page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ..audit import auditor, preparation
from ..audit.result import Audit
from ..data.custom.assembly import UserImages
from ..parallel import alone, is_first
from ..report import page
from ..runs import audit_folder
from ..runs.result_folder import save_skipped, write_together
from ..stages.context import Context
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
    """Prepare an audit of a user's images; raises if they cannot be audited."""
    limit = size or audit_pixels(place)
    splits = shrink_once(images.open(limit), limit)
    context = audit_context(splits, place, model=model, seed=seed, steps=steps, changes=changes)
    preparation.check(context)
    return context


def carry_out_audit(
    context: Context, out: Path | None = None, *, command: str = "", source: str = ""
) -> tuple[Audit, Path | None]:
    """Audit the training split, and with `out` save the audit's folder and page."""
    with write_together(out, "audit"):
        found = auditor.audit(context)
        if out is None or not is_first():
            return found, None
        with alone():
            save_skipped(context.splits, out)
            audit_folder.save(found, context, out, command=command, source=source)
            return found, page.attempt(out)

"""`unspur runs`: list and delete stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from .. import store as stored
from ..errors import StoreError, UsageError
from ..report import console
from ..report.console import err, size
from ..store import Store, default_store, open_store
from .help_text import PlainCommand, PlainGroup
from .options import StoreAt

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    help="List and delete stored results.",
    no_args_is_help=True,
)


@app.command("list", cls=PlainCommand)
def runs_list(store: StoreAt = None) -> None:
    """List the stored results."""
    table = Table(Column("stage", no_wrap=True), "state", "size", "seconds", "made")
    total = 0
    for path in open_store(store or default_store()).artifacts():
        total += (bytes_ := stored.folder_size(path))
        state, about = _state(path)
        seconds = str(about.get("seconds", "–"))
        made = about.get("made", "–").replace("T", " ")[:16]
        table.add_row(path.name.partition(".")[0], state, size(bytes_), seconds, made)
    console.out.print(table)
    console.out.print(f"{size(total)} in {store or default_store()}", markup=False)


@app.command("rm", cls=PlainCommand)
def runs_rm(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names from `unspur runs list`, or how they begin.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Delete everything.")] = False,
    unfinished: Annotated[bool, typer.Option(help="Delete what is unfinished or damaged.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also delete what a running command uses. That command then fails."
        ),
    ] = False,
    store: StoreAt = None,
) -> None:
    """Delete stored results that no running command uses. They are computed again when needed."""
    if not (all_ or unfinished or names) or any(not name.strip() for name in names or []):
        raise UsageError(
            "say what to remove: a name from `unspur runs list`, --unfinished or --all."
        )
    doomed = _matches(
        open_store(store or default_store()), names or [], all_=all_, unfinished=unfinished
    )
    freed, problems = 0, []
    for path in doomed:
        size_ = stored.folder_size(path)
        try:
            stored.remove(path, force=force)
            freed += size_
        except StoreError as error:
            problems.append(str(error))
    err.print(f"removed {len(doomed) - len(problems)}, freed {size(freed)}", markup=False)
    if problems:
        raise StoreError("\n".join(problems))


def _matches(where: Store, names: list[str], *, all_: bool, unfinished: bool) -> list[Path]:
    """Return the folders to remove; raise if a name matches none."""
    doomed = [
        path
        for path in where.artifacts()
        if all_
        or (unfinished and _state(path)[0] != "finished")
        or any(path.name.startswith(n) for n in names)
    ]
    for name in names:
        if not any(path.name.startswith(name) for path in doomed):
            raise UsageError(f"nothing stored begins with {name!r}. See `unspur runs list`.")
    return doomed


def _state(path: Path) -> tuple[str, dict[str, Any]]:
    suffix = path.name.partition(".")[2]
    if suffix:
        return ("in progress" if suffix == "partial" else suffix.partition("-")[0]), {}
    try:
        return "finished", stored.open_artifact(path).about
    except StoreError:
        return "damaged", {}

"""`unspur runs`: list or remove the stored results of stages."""

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
    help="List or remove the stored results of stages.",
    no_args_is_help=True,
)


@app.command("list", cls=PlainCommand)
def runs_list(store: StoreAt = None) -> None:
    """List the stored results of stages."""
    table = Table(Column("stage", no_wrap=True), "state", "size", "seconds", "made")
    total = 0
    for path in open_store(store or default_store()).artifacts():
        total += (bytes_ := stored.folder_size(path))
        state, about = _state(path)
        seconds = str(about.get("seconds", "–"))
        date = about.get("made", "–").replace("T", " ")[:16]
        table.add_row(path.name.partition(".")[0], state, size(bytes_), seconds, date)
    console.out.print(table)
    console.out.print(f"{size(total)} in {store or default_store()}", markup=False)


@app.command("rm", cls=PlainCommand)
def runs_rm(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names from `unspur runs list`, or their beginnings."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Remove everything.")] = False,
    unfinished: Annotated[
        bool, typer.Option(help="Remove what is in progress or damaged.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also remove what a live run is using; that run ends with an error."
        ),
    ] = False,
    store: StoreAt = None,
) -> None:
    """Remove stored results that no run is using; they are computed again when a run needs them."""
    if not (all_ or unfinished or names) or any(not name.strip() for name in names or []):
        raise UsageError(
            "nothing to remove was named. Give a name from `unspur runs list`, --unfinished or --all."
        )
    selected = _matches(
        open_store(store or default_store()), names or [], all_=all_, unfinished=unfinished
    )
    freed, problems = 0, []
    for path in selected:
        size_ = stored.folder_size(path)
        try:
            stored.remove(path, force=force)
            freed += size_
        except FileNotFoundError:
            problems.append(f"{path.name} has just been finished or removed by another process.")
        except StoreError as error:
            problems.append(str(error))
    err.print(f"removed {len(selected) - len(problems)}, freed {size(freed)}", markup=False)
    if problems:
        raise StoreError("\n".join(problems))


def _matches(where: Store, names: list[str], *, all_: bool, unfinished: bool) -> list[Path]:
    """Return the folders to remove; raise if a name matches none."""
    selected = [
        path
        for path in where.artifacts()
        if all_
        or (unfinished and _state(path)[0] not in ("finished", "unreadable"))
        or any(path.name.startswith(n) for n in names)
    ]
    for name in names:
        if not any(path.name.startswith(name) for path in selected):
            raise UsageError(f"no stored result begins with {name!r}. See `unspur runs list`.")
    return selected


def _state(path: Path) -> tuple[str, dict[str, Any]]:
    suffix = path.name.partition(".")[2]
    if suffix:
        return ("in progress" if suffix == "partial" else suffix.partition("-")[0]), {}
    try:
        return "finished", stored.open_artifact(path).about
    except stored.DamagedArtifact:
        return "damaged", {}
    except StoreError:
        return "unreadable", {}

"""The command line: nothing here that a Python user could not do too."""

from __future__ import annotations

import csv
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.table import Column, Table

from . import bench as benching
from . import (
    budget,
    bundle,
    cli_audit,
    cli_data,
    cli_export,
    cli_report,
    cli_reproduce,
    console,
    data,
    models,
    recipe,
    stages,
)
from . import store as stored
from .api import default_store, pick_device
from .console import err, percent, score_table, show, size, summary
from .data import Splits, own
from .data import folder as folder_of_images
from .delivery import deliver
from .errors import Interrupted, RecipeError, StoreError, UnspurError
from .estimate import estimate
from .lab import Lab
from .methods import ABOUT
from .recipe import Recipe
from .report import theory as theory_report
from .store import Store
from .suspects import read_suspects, sample_names

app = typer.Typer(
    help="Remove shortcuts from image classifiers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
runs_app = typer.Typer(help="See and free what is stored.", no_args_is_help=True)
app.add_typer(cli_data.app, name="data")
app.add_typer(runs_app, name="runs")
app.command()(cli_audit.audit)
app.command()(cli_report.report)
app.command()(cli_export.export)
app.command()(cli_reproduce.reproduce)

Out = Annotated[Path | None, typer.Option("--out", help="Folder for the result.")]
StoreAt = Annotated[
    Path | None, typer.Option("--store", help="Folder of finished stages [runs/store].")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...; a GPU if there is one.")]
Root = Annotated[Path | None, typer.Option(help="Folder of real data; UNSPUR_DATA, then ./data.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: key=value.")]


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="A recipe by name (see `unspur recipes`) or file.")],
    seed: Annotated[int | None, typer.Option(help="Seed of all training.")] = None,
    device: Device = None,
    out: Out = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key=value.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Say what would be done, and how long it takes.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: mine, pretrain, prune, fine-tune, evaluate."""
    changes = [*(set_ or []), *([f"seed={seed}"] if seed is not None else [])]
    settings = recipe.load(name, changes)
    lab = _lab(settings, device=device, store=store, data_root=data_root, quiet=quiet)
    if dry_run:
        _say_plan(lab)
        return
    _finish(lab, out or Path("runs") / f"{settings.name.replace('/', '-')}-seed{settings.seed}")


@app.command()
def debias(
    source: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Folder of class folders, table (.csv), or hf:NAME."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the result.")],
    model: Annotated[
        str, typer.Option(help="Built-in name, file.py:builder, or timm:NAME.")
    ] = "resnet18",
    init: Annotated[str, typer.Option(help="Weights to start from: .safetensors or .pth.")] = "",
    size: Annotated[int, typer.Option(min=0, help="Largest side of an image in pixels.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of all training.")] = 0,
    device: Device = None,
    store: StoreAt = None,
    set_: Changes = None,
    suspects: Annotated[
        Path | None, typer.Option(help="The suspects.csv of a run, corrected by you.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say how long it takes.")] = False,
    quiet: Quiet = False,
) -> None:
    """Remove the shortcut from a classifier of your own images."""
    where = pick_device(device)
    splits = own.load(source, limit=size or budget.of(where).pixels)
    settings = budget.settings(len(splits.train), where, name=splits.name, model=model, init=init)
    settings = recipe.change(settings, [f"seed={seed}", *(set_ or [])])
    lab = _lab_of(settings, splits, device=where, store=store, quiet=quiet, suspects=suspects)
    err.print(_described(splits), markup=False)
    _say_plan(lab, dry_run=dry_run)
    if not dry_run:
        _finish(lab, out)
        _save_skipped(splits, out)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the result.")] = Path("runs/demo"),
    store: StoreAt = None,
    quiet: Quiet = False,
) -> None:
    """Run the whole chain on embedded data, on the CPU, in about a minute."""
    lab = _lab(recipe.load("demo"), device="cpu", store=store, data_root=None, quiet=quiet)
    _finish(lab, out)


@app.command()
def bench(
    names: Annotated[list[str], typer.Argument(help="Recipes by name or file; a * matches names.")],
    out: Annotated[Path, typer.Option("--out", help="JSON file; tables go beside it.")],
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    together: Annotated[int, typer.Option(min=1, help="Runs trained side by side on a GPU.")] = 1,
    device: Device = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key=value.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run recipes with several seeds (what is stored is not run again) and write tables.

    The numbers are JSON; beside them go Markdown, CSV and LaTeX.
    """
    wanted = [recipe.load(each, set_ or []) for name in names for each in recipe.match(name)]
    load = cache(data.load)  # the runs of one data set share it
    lab_of = partial(_lab, device=device, store=store, data_root=data_root, quiet=quiet, load=load)
    results = benching.bench(wanted, _numbers(seeds), lab_of, together=together)
    benching.save(results, out)
    table = Table(*benching.HEADER)
    for row in results["results"]:
        table.add_row(*benching.table_row(row))
    console.out.print(table)
    console.out.print(benching.spent(results), markup=False)
    header, rows = benching.pivot(results)
    if len(header) > 2:
        table = Table(*header, title="ours (published)")
        for cells in rows:
            table.add_row(*cells)
        console.out.print(table)


@app.command()
def methods() -> None:
    """List the methods: what they must be told, how many networks they train, where they come from."""
    table = Table(Column("method", no_wrap=True), "must be told", "networks", "source")
    for name, about in ABOUT.items():
        table.add_row(name, about.supervision, about.networks, about.source)
    console.out.print(table)
    console.out.print("Run one on CMNIST with 1 %: unspur run cmnist/1pct-METHOD", markup=False)


@app.command()
def theory(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the page, the figures and the numbers.")
    ] = Path("runs/theory"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds, samples and epochs: about ten seconds.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compute the paper's bounds and simulations: one page, figures, every number."""
    began = time.perf_counter()
    say = None if quiet else partial(err.print, markup=False)
    theory_report.write(out, quick=quick, progress=say)
    console.out.print(
        f"{time.perf_counter() - began:.0f} s. Open {out / 'theory.html'}.",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def recipes() -> None:
    """List the built-in recipes."""
    for name in recipe.names():
        print(name)


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.")],
) -> None:
    """Classify images; a CSV of path, class and probability."""
    model = bundle.load(folder)
    files = [file for path in images for file in _images(path)]
    if not files:
        raise UnspurError(f"no image files under {', '.join(map(str, images))}.")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["path", "class", "probability"])
    for start in range(0, len(files), 256):
        part = files[start : start + 256]
        for file, (label, probability) in zip(part, model.predict(part), strict=True):
            writer.writerow([file, label, f"{probability:.4f}"])


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    source: Annotated[str, typer.Argument(metavar="DATA", help="cmnist, demo, or a folder.")],
    ratio: Annotated[str, typer.Option(help="Which set of a benchmark.")] = "1pct",
    data_root: Root = None,
) -> None:
    """Score a run's model on the test split of a data set."""
    model = bundle.load(folder)
    scores = bundle.score(model, _scored(source, ratio, data_root, model))
    table = Table()
    table.add_column("accuracy")
    table.add_column(str(folder), justify="right")
    for name, value in scores.as_json().items():
        if name != "groups":
            table.add_row(name.replace("_", " "), percent(value))  # type: ignore[arg-type]
    console.out.print(table)


def _scored(source: str, ratio: str, root: Path | None, model: bundle.Classifier) -> Splits:
    """A benchmark by name, a folder in the layout of one, or a user's own images."""
    if source in data.DATASETS:
        side = model.shape[1] if source in data.SIZED else 0
        return data.load(source, root=root, ratio=ratio, size=side)
    if (Path(source) / ratio / "align").is_dir():
        return data.load("folder", root=Path(source), ratio=ratio)
    return own.load(source, size=model.shape[1:], classes=model.classes, crop=model.crop)


@runs_app.command("list")
def runs_list(store: StoreAt = None) -> None:
    """List what is stored."""
    table = Table(Column("stage", no_wrap=True), "state", "size", "seconds", "made")
    total = 0
    for path in Store(store or default_store()).artifacts():
        total += (bytes_ := stored.folder_size(path))
        state, about = _state(path)
        seconds = str(about.get("seconds", "–"))
        made = about.get("made", "–").replace("T", " ")[:16]
        table.add_row(path.name.partition(".")[0], state, size(bytes_), seconds, made)
    console.out.print(table)
    console.out.print(f"{size(total)} in {store or default_store()}", markup=False)


@runs_app.command("rm")
def runs_rm(
    names: Annotated[
        list[str] | None, typer.Argument(help="As listed, or the start of it.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    unfinished: Annotated[bool, typer.Option(help="What is in progress or damaged.")] = False,
    store: StoreAt = None,
) -> None:
    """Free what is stored; it is made again when a run needs it."""
    if not (all_ or unfinished or names) or any(not name.strip() for name in names or []):
        raise StoreError(
            "say what to remove: a name from `unspur runs list`, --unfinished or --all."
        )
    where = Store(store or default_store())
    doomed = [
        path
        for path in where.artifacts()
        if all_
        or (unfinished and _state(path)[0] != "finished")
        or any(path.name.startswith(n) for n in names or [])
    ]
    for name in names or []:
        if not any(path.name.startswith(name) for path in doomed):
            raise StoreError(f"nothing stored begins with {name!r}. See `unspur runs list`.")
    freed = sum(stored.folder_size(path) for path in doomed)
    for path in doomed:
        stored.remove(path)
    err.print(f"removed {len(doomed)}, freed {size(freed)}", markup=False)


def main() -> None:
    """Run the command line; errors become one message and an exit code."""
    warnings.showwarning = lambda message, *rest: err.print(f"warning: {message}", markup=False)
    try:
        app()
    except Interrupted as stop:
        err.print(str(stop), markup=False)
        sys.exit(130)
    except UnspurError as error:
        err.print(f"{type(error).__name__}: {error}", markup=False, soft_wrap=True)
        sys.exit(1)


def _lab(
    settings: Recipe,
    *,
    device: str | None,
    store: Path | None,
    data_root: Path | None,
    quiet: bool,
    load: Callable[..., Splits] = data.load,
) -> Lab:
    return benching.lab_of(
        settings,
        root=data_root,
        store=Store(store or default_store()),
        device=pick_device(device),
        show=show(quiet=quiet),
        load=load,
    )


def _lab_of(
    settings: Recipe,
    splits: Splits,
    *,
    device: torch.device,
    store: Path | None,
    quiet: bool,
    suspects: Path | None = None,
) -> Lab:
    model = settings.model
    given = read_suspects(suspects, sample_names(splits.train)) if suspects else None
    return Lab(
        recipe=settings,
        splits=splits,
        builder=models.builder(model.name, len(splits.classes), model.options, init=model.init),
        store=Store(store or default_store()),
        device=device,
        show=show(quiet=quiet),
        given=given,
    )


def _described(splits: Splits) -> str:
    """The data in a line."""
    _, high, wide = splits.train.shape
    parts = ", ".join(f"{len(part)} {name}" for name, part in splits.parts().items())
    return f"{splits.name}: {parts} images of {len(splits.classes)} classes, {wide} x {high} pixels"


def _save_skipped(splits: Splits, folder: Path) -> None:
    """List the images that could not be read."""
    if not splits.skipped:
        return
    with (folder / "skipped.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "reason"), *splits.skipped.items()])


def _finish(lab: Lab, folder: Path) -> None:
    """Run the plan, write the folder, say what came of it."""
    began = time.perf_counter()
    reused = [i["stage"] for i in lab.plan() if lab.store.path(i).exists()]
    made, scores = stages.run(lab)
    page = deliver(lab, made, scores, folder, command=shlex.join(["unspur", *sys.argv[1:]]))
    console.out.print(score_table(scores.facts))
    for line in summary(scores.facts):
        console.out.print(line, markup=False)
    if reused:
        console.out.print(f"Already stored, not run again: {', '.join(reused)}.", markup=False)
    console.out.print(
        f"{time.perf_counter() - began:.0f} s. Everything is in {folder}/."
        + (f" Open {page}." if page else ""),
        markup=False,
        soft_wrap=True,
    )


def _say_plan(lab: Lab, *, dry_run: bool = True) -> None:
    table = Table("stage", "steps", "stored", "about", "disk")
    rows = estimate(lab)
    for row in rows:
        table.add_row(
            row.stage,
            str(row.steps),
            "yes" if row.stored else "no",
            "–" if row.stored else f"{row.seconds:.0f} s",
            "–" if row.stored else size(row.disk),
        )
    console.out.print(table)
    minutes = sum(row.seconds for row in rows) / 60
    told = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} s"
    console.out.print(
        f"about {told} on {lab.device}" + ("; nothing was run." if dry_run else "."), markup=False
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise RecipeError(
            f"--seeds {text}: give whole numbers separated by commas, as in 55,66."
        ) from None


def _images(path: Path) -> list[Path]:
    return folder_of_images.images(path) if path.is_dir() else [path]


def _state(path: Path) -> tuple[str, dict[str, Any]]:
    suffix = path.name.partition(".")[2]
    if suffix:
        return ("in progress" if suffix == "partial" else suffix.partition("-")[0]), {}
    try:
        return "finished", stored.open_artifact(path).about
    except StoreError:
        return "damaged", {}


if __name__ == "__main__":
    main()

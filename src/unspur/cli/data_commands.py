"""`unspur data`: make, check, list and show the benchmark sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from .. import data
from ..data.benchmarks import cifar10c, cmnist, groups, layout, mnist, sheet
from ..data.custom import hub
from ..data.custom.assembly import UserImages
from ..data.custom.packing_images import index_shards, pack_images
from ..data.custom.sources import USUAL_GROUPS, GroupSource
from ..data.sharded.shard_check import check_images
from ..data.sharded.shard_index import ShardIndex
from ..data.sharded.shard_writer import PER_SHARD
from ..data.sharded.shards import Shards
from ..data.splits import Splits, describe
from ..errors import DataError, RecipeError
from ..recipes import budget
from ..report import terminal
from ..report.terminal import err
from ..stages.place import pick_device
from ..store.addresses import is_address
from .help_text import PlainCommand, PlainGroup
from .options import Bias, Root

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    help="Make, check and show the benchmark data sets; check or pack your own images.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(groups.RATIOS)}.")]
Ratio = Annotated[
    str | None,
    typer.Option(help="Share of conflicting images, such as 1pct; by default the first."),
]
RATIOS = {"cmnist": tuple(cmnist.CONFLICTING), "cifar10c": tuple(cifar10c.COUNTS)}


@app.command("make", cls=PlainCommand)
def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cmnist or cifar10c.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the data set.")],
    ratio: Annotated[
        list[str] | None,
        typer.Option(
            help="Shares of conflicting images: 0.5pct, 1pct, 2pct, 5pct; by default all."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choice of images.")] = 0,
    severity: Annotated[int, typer.Option(help="Severity of the corruptions, 1 to 5.")] = 5,
    data_root: Root = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing data set.")] = False,
) -> None:
    """Write a benchmark in the folder layout of its public release."""
    if name not in RATIOS:
        raise RecipeError(f"{name!r} cannot be made. Choose one of {', '.join(RATIOS)}.")
    root = mnist.find_root(data_root)
    for each in ratio or RATIOS[name]:
        splits = _make(name, root, each, seed, severity)
        layout.write(splits, out, each, overwrite=overwrite)
        err.print(f"wrote {out / each}: {len(splits.train)} training images", markup=False)


@app.command("list", cls=PlainCommand)
def list_(data_root: Root = None) -> None:
    """List the benchmark sets: which are available, and which files of the others are missing."""
    table = Table("benchmark", "ratios", "state")
    states = {name: groups.state(name, data_root) for name in groups.RATIOS}
    shared = _shared_reason(states.values())
    for name, ratios in groups.RATIOS.items():
        table.add_row(
            name, ", ".join(ratios), "missing" if states[name] == shared else states[name]
        )
    for name in _added():
        table.add_row(name, "", "added by an installed package")
    terminal.out.print(table)
    if shared:
        terminal.out.print(f"missing: {shared}", markup=False, soft_wrap=True)


@app.command("check", cls=PlainCommand)
def check(
    name: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help=f"Your folder, table, shards or hf:NAME; or {', '.join(groups.RATIOS)}.",
        ),
    ],
    ratio: Ratio = None,
    data_root: Root = None,
    bias: Bias = None,
) -> None:
    """Load a data set, verify its counts, and print a table of its groups. Every image is opened."""
    if _is_own(name, ratio, data_root):
        splits = UserImages(name, bias=bias).open(budget.bounds_for(pick_device()).pixels)
        for each in splits.parts().values():
            if isinstance(each, Shards):  # other images have been decoded already
                check_images(each)
        lines = [describe(splits)]
    else:
        splits = _load(name, ratio, data_root)
        lines = list(groups.verify(splits))
    for part, rows in groups.tables(splits).items():
        table = Table(*(Column(name, overflow="fold") for name in (part, *rows[0])))
        for label, *cells in rows[1:]:
            table.add_row(label, *cells)
        terminal.out.print(table)
    for line in lines:
        terminal.out.print(line, markup=False)


@app.command("show", cls=PlainCommand)
def show(
    name: Name,
    out: Annotated[Path, typer.Option("--out", help="PNG file for the sheet.")],
    ratio: Ratio = None,
    data_root: Root = None,
    columns: Annotated[int, typer.Option(min=1, help="Images of each class in a row.")] = 10,
) -> None:
    """Draw example images: aligned ones above a dotted line, conflicting ones below."""
    splits = _load(name, ratio, data_root)
    sheet.save(splits, out, columns=columns)
    err.print(f"wrote {out}", markup=False)


@app.command("pack", cls=PlainCommand)
def pack(
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder of class folders, or table.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the shards.")],
    bias: Bias = None,
    per_shard: Annotated[
        int, typer.Option(min=1, help="Largest number of images in a shard.")
    ] = PER_SHARD,
) -> None:
    """Write images as WebDataset tar shards with an index, for sets larger than memory."""
    groups = GroupSource.of(bias) if bias else USUAL_GROUPS
    _say_packed(pack_images(source, out, groups=groups, per_shard=per_shard), out)


@app.command("index", cls=PlainCommand)
def index(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of tar shards.")],
) -> None:
    """Write the index of WebDataset shards that another program has made; an old index is replaced."""
    _say_packed(index_shards(folder), folder)


def _say_packed(index: ShardIndex, out: Path) -> None:
    counts = f"{len(index):,} images of {len(index.classes)} classes in {len(index.shards)} shard"
    counts += "s" * (len(index.shards) != 1)
    err.print(f"{out}: {counts}", markup=False)


def _make(name: str, root: Path, ratio: str, seed: int, severity: int) -> Splits:
    if name == "cifar10c":
        cache = data.cache_folder(root)
        return cifar10c.load(root, ratio, seed=seed, severity=severity, cache=cache)
    return cmnist.make(mnist.mnist(root), ratio, seed=seed)  # type: ignore[arg-type]


def _is_own(name: str, ratio: str | None, root: Path | None) -> bool:
    """Return whether a name means a user's own images rather than a benchmark set."""
    if ratio is not None or root is not None or name in {*groups.RATIOS, *_added()}:
        return False
    return name.startswith(hub.PREFIX) or is_address(name) or Path(name).exists()


def _shared_reason(states: Iterable[str]) -> str:
    """Return why benchmarks are missing if the reason is the same for all of them, otherwise ""."""
    reasons = {state for state in states if not state.startswith("ready")}
    return reasons.pop() if len(reasons) == 1 else ""


def _added() -> list[str]:
    """Return the data sets of installed packages."""
    return [name for name in data.dataset_names() if name not in data.DATASETS]


def _load(name: str, ratio: str | None, root: Path | None) -> Splits:
    known = {**groups.RATIOS, **dict.fromkeys(_added(), ("",))}
    if name not in known:
        own = ", or a folder or table of your own" if not Path(name).exists() else ""
        raise DataError(f"there is no benchmark {name!r}. Choose one of {', '.join(known)}{own}.")
    return data.load(name, root=root, ratio=ratio or known[name][0])

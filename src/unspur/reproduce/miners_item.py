"""Ten seeds of every miner, without the stages after it: does one give up a class?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .. import recipes
from ..errors import DataError
from ..recipes import Recipe
from ..stages import Run, mine_together
from ..stages.context import Context
from ..stages.suspects import Suspects, class_counts, verdict
from ..store import locked, make_folder, read_document, write_document
from ..training.metrics import mining_quality
from .item import DASH, SEEDS, FigureItem, Page, ReproduceOptions
from .pages import table
from .quick import quick

FILE = "miners.json.gz"
DATA = {"cmnist/1pct": "CMNIST 1 %", "cifar10c/1pct": "CIFAR10-C 1 %"}
WARM = ("mine.warm_up=1",)
MINERS: dict[str, tuple[str, tuple[str, ...]]] = {  # the kind of recipe, and its changes
    "crossfit": ("unspur", ()),
    "crossfit, warm-up": ("unspur", WARM),
    "GCE": ("dcwp", ("mine.how=gce",)),
    "GCE, warm-up": ("dcwp", ("mine.how=gce", *WARM)),
    "epoch ensemble": ("dcwp", ("mine.how=epoch-ensemble",)),
    "epoch ensemble, warm-up": ("dcwp", ("mine.how=epoch-ensemble", *WARM)),
    "augmented ensemble": ("dcwp", ("mine.how=augmented-ensemble",)),
    "ERM, stopped early": ("dcwp", ("mine.how=early-stopped", "mine.steps=1000")),
}
MORE_SEEDS = (101, 102, 103, 104, 105, 106)


@dataclass(frozen=True)
class MinedSet:
    """The suspects of one seed: their number and quality, the most crowded class, the verdict."""

    data: str
    miner: str
    seed: int
    flagged: int
    precision: float | None
    recall: float | None
    crowded: float  # the highest share of suspects in a class
    verdict: str
    device: str

    @property
    def key(self) -> tuple[str, str, int]:
        return self.data, self.miner, self.seed


@dataclass(frozen=True)
class _Wanted:
    """A miner on a data set with one seed."""

    data: str
    miner: str
    settings: Recipe

    @property
    def key(self) -> tuple[str, str, int]:
        return self.data, self.miner, self.settings.seed


def _all_wanted(options: ReproduceOptions) -> Iterator[_Wanted]:
    for data in DATA:
        for miner, (kind, changes) in MINERS.items():
            named = recipes.load(f"{data}-{kind}", recipes.parse_changes([*changes]))
            settings = named.model_copy(update={"name": f"{data} {miner}"})
            seeds = (*SEEDS[settings.data.name], *MORE_SEEDS)
            for seed in seeds[:1] if options.quick else seeds:
                each = quick(settings) if options.quick else settings
                yield _Wanted(data, miner, each.seeded(seed))


def _draw(options: ReproduceOptions) -> Page:
    known = {each.key for each in read_sets(options.results)}
    missing = [each for each in _all_wanted(options) if each.key not in known]
    missing = [each for each in missing if fnmatch(each.settings.name, options.only)]
    problems: dict[str, None] = {}
    for group in _groups(missing, options.together):
        if time.monotonic() >= options.until:
            break
        options.say("miners: " + ", ".join(f"{each.settings.name} {each.key[2]}" for each in group))
        try:
            _add(options.results, _mine(group, options))
        except DataError as error:
            problems[str(error)] = None
    if problems and not read_sets(options.results):
        raise DataError(" ".join(problems))
    return _page(options)


def _groups(wanted: Sequence[_Wanted], size: int) -> Iterator[list[_Wanted]]:
    """Yield groups of the same miner on the same data, whose trainings can run side by side."""
    alike: dict[tuple[str, str], list[_Wanted]] = {}
    for each in wanted:
        alike.setdefault((each.data, each.miner), []).append(each)
    for same in alike.values():
        for start in range(0, len(same), size):
            yield same[start : start + size]


def _mine(group: Sequence[_Wanted], options: ReproduceOptions) -> list[MinedSet]:
    runs = [Run(options.context_of(each.settings)) for each in group]
    mine_together(runs)
    return [
        summarise(each.data, each.miner, run.context, run.results.suspects())
        for each, run in zip(group, runs, strict=True)
    ]


def summarise(data: str, miner: str, context: Context, suspects: Suspects) -> MinedSet:
    """Return the number and the quality of suspects, their share in the most crowded class, the verdict."""
    splits = context.splits
    counts = class_counts(suspects, splits.train.targets.cpu(), splits.classes)
    conflicting = splits.conflicting("train")
    assert conflicting is not None, "every benchmark has bias labels"
    quality = mining_quality(suspects.conflict, conflicting)
    return MinedSet(
        data=data,
        miner=miner,
        seed=context.recipe.seed,
        flagged=int(suspects.conflict.sum()),
        precision=quality["precision"],
        recall=quality["recall"],
        crowded=max(flagged / max(samples, 1) for flagged, samples in counts.values()),
        verdict=verdict(suspects, by_class=counts).code,
        device=context.device.type,
    )


def read_sets(folder: Path) -> list[MinedSet]:
    """Return the recorded sets of suspects."""
    path = folder / FILE
    return [MinedSet(**each) for each in read_document(path)["sets"]] if path.exists() else []


def _add(folder: Path, sets: Sequence[MinedSet]) -> None:
    """Record sets of suspects; another command may be doing so too."""
    make_folder(folder)
    with locked(folder / FILE):
        known = {each.key: each for each in [*read_sets(folder), *sets]}
        write_document(folder / FILE, {"sets": [asdict(known[key]) for key in sorted(known)]})


def _page(options: ReproduceOptions) -> Page:
    sets = read_sets(options.results)
    header = [
        "data",
        "miner",
        "n",
        "suspects",
        "precision, %",
        "recall, %",
        "most crowded class, %",
    ]
    file = Path(os.path.relpath(options.results / FILE, options.pages)).as_posix()
    rows = [
        [title, miner, *_row([each for each in sets if each.key[:2] == (data, miner)])]
        for data, title in DATA.items()
        for miner in MINERS
    ]
    return Page(
        [
            "Ten seeds of every miner, without the stages after it. Each cell has the lowest and the highest "
            "value.",
            "- *most crowded class*: the highest share of suspects among the images of a class. Near 100 % "
            "the miner has given the class up.\n"
            "- *lost*: the number of seeds for which `unspur` says so (the verdict `lost-class`, or "
            "`too-many`) and returns the ordinary model.\n"
            "- *augmented ensemble*: as the released code, which scores augmented images.\n"
            "- *warm-up*: one pass of ordinary cross entropy before the loss of the miner. ERM needs none.\n"
            "- *crossfit*: the miner of our preset. Two networks, one trained with GCE, must agree.",
            table([*header, "lost", "device"], rows),
            f"All numbers: [{FILE}]({file})." if sets else "No miner has been run yet.",
        ]
    )


def _row(sets: Sequence[MinedSet]) -> list[str]:
    lost = sum(each.verdict in ("lost-class", "too-many") for each in sets)
    return [
        str(len(sets)),
        _range([each.flagged for each in sets], "{:,.0f}"),
        _range([100 * each.precision for each in sets if each.precision is not None]),
        _range([100 * each.recall for each in sets if each.recall is not None]),
        _range([100 * each.crowded for each in sets]),
        str(lost) if sets else DASH,
        ", ".join(sorted({each.device for each in sets})) or DASH,
    ]


def _range(values: Sequence[Any], form: str = "{:.1f}") -> str:
    if not values:
        return DASH
    return " to ".join(dict.fromkeys(form.format(each) for each in (min(values), max(values))))


def _redraw(options: ReproduceOptions) -> Page | None:
    return _page(options)


MINERS_ITEM = FigureItem("Ten seeds of every miner", _draw, _redraw)

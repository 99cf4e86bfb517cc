"""The main tables: every method at every share of conflicting images, on CMNIST and CIFAR10-C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..methods import all_methods
from ..recipes import published
from .item import Cells, Item, Page, Results, cell, mean_sd_text
from .pages import (
    COUNTED,
    METHOD_SOURCES,
    PUBLISHED,
    gain,
    legend,
    metric_name,
    number,
    selection,
    start,
    table,
)

RATIOS = {"0.5pct": "0.5 %", "1pct": "1 %", "2pct": "2 %", "5pct": "5 %"}
SCORE = ("debiased", "unbiased")

# DCWP as its released code runs it.
RELEASED = (
    *("prune.noise=probability", "prune.positives=column", "prune.keep_zero=true"),
    "finetune.positives=column",
)
UNPRUNED = ("plan=unpruned",)
# A biased network of ReBias whose strides let it see 16 of 784 pixels.
STRIDED = ("rebias.network={name='convnet', options={kernel=1}}",)
SUPERVISION = (
    "*supervision*: what a method must be told about the shortcut, in addition to class labels."
)


@dataclass(frozen=True)
class MethodRow:
    """A row of the main table: a kind of recipe, its changes, and the number of seeds."""

    kind: str
    title: str = ""
    changes: tuple[str, ...] = ()
    seeds: int = 4

    @property
    def name(self) -> str:
        return self.title or all_methods()[self.kind].title


CMNIST = (
    *(MethodRow(kind) for kind in ("erm", "dcwp", "unspur", "unspur-1")),
    MethodRow("dcwp", "DCWP without pruning", UNPRUNED),
    MethodRow("unspur-1", "unspur, first preset, without pruning", UNPRUNED),
    *(MethodRow(kind) for kind in ("lff", "disent", "mrm", "jtt", "end", "rebias")),
    MethodRow("rebias", "ReBias, biased network sees 16 pixels", STRIDED),
    MethodRow("end", "EnD, tanh features of length 1", ("model.options={unit=true}",)),
    *(MethodRow(kind) for kind in ("groupdro", "dfr", "dfr-mined")),
)
CIFAR10C = (
    *(MethodRow(kind) for kind in ("erm", "dcwp", "unspur", "unspur-1")),
    MethodRow("dcwp", "DCWP, released code", RELEASED),
    MethodRow("dcwp", "DCWP without pruning", UNPRUNED, seeds=1),
    MethodRow("unspur-1", "unspur, first preset, without pruning", UNPRUNED, seeds=1),
    # The paper has four seeds of each of its methods; what is missing is counted against them.
    *(MethodRow(kind) for kind in ("mrm", "lff", "disent", "end", "rebias")),
    MethodRow("jtt", seeds=1),
)


def cells(data: str, methods: Sequence[MethodRow]) -> Cells:
    """Return the runs of every method at every ratio."""
    return {
        (each.name, ratio): cell(f"{data}/{ratio}-{each.kind}", *each.changes, seeds=each.seeds)
        for each in methods
        for ratio in RATIOS
    }


def draw(data: str, methods: Sequence[MethodRow], results: Results) -> Page:
    """Return the page: accuracies, gains over ERM, accuracies on aligned images."""
    return Page(
        [
            f"{metric_name('unbiased')}.",
            legend(PUBLISHED, COUNTED, METHOD_SOURCES, SUPERVISION),
            _accuracies(data, methods, results),
            "Gain over ERM in percentage points. Each run is compared with ERM of the same seed and "
            "precision, so a gain can differ from the difference of the means above. Published: the "
            "difference of the published means.",
            _gains(data, methods, results),
            f"The cost: accuracy on aligned images, which follow the shortcut. {COUNTED}",
            _aligned(methods, results),
        ]
    )


def _accuracies(data: str, methods: Sequence[MethodRow], results: Results) -> str:
    header = ["method", "supervision", "selection", "start"]
    header += [part for ratio in RATIOS.values() for part in (ratio, "published")]
    rows = []
    for each in methods:
        by_ratio = [results[each.name, ratio] for ratio in RATIOS]
        row = [
            each.name,
            all_methods()[each.kind].supervision,
            selection(*by_ratio),
            start(*by_ratio),
        ]
        for ratio, found in zip(RATIOS, by_ratio, strict=True):
            row += [found.counted(*SCORE), number(_published(data, ratio, each))]
        rows.append(row)
    return table(header, rows)


def _gains(data: str, methods: Sequence[MethodRow], results: Results) -> str:
    header = ["method", *(part for ratio in RATIOS.values() for part in (ratio, "published"))]
    rows = []
    for each in methods[1:]:
        row = [each.name]
        for ratio in RATIOS:
            erm = published.PUBLISHED[f"{data}/{ratio}"]["erm"]
            known = _published(data, ratio, each)
            row.append(mean_sd_text(gain(results[each.name, ratio], results["ERM", ratio], *SCORE)))
            row.append(number(None if known is None else known - erm))
        rows.append(row)
    return table(header, rows)


def _aligned(methods: Sequence[MethodRow], results: Results) -> str:
    rows = [
        [each.name, *(results[each.name, ratio].counted("debiased", "aligned") for ratio in RATIOS)]
        for each in methods
    ]
    return table(["method", *RATIOS.values()], rows)


def _published(data: str, ratio: str, method: MethodRow) -> float | None:
    """Return the published number; None for variants without pruning, which the paper does not have."""
    if method.changes == UNPRUNED:
        return None
    kind = published.READINGS.get(method.kind, method.kind)
    return published.PUBLISHED[f"{data}/{ratio}"].get(kind)


def _item(title: str, data: str, methods: Sequence[MethodRow]) -> Item:
    return Item(title, partial(cells, data, methods), partial(draw, data, methods))


MAIN_CMNIST = _item("The main table on CMNIST", "cmnist", CMNIST)
MAIN_CIFAR10C = _item("The main table on CIFAR10-C", "cifar10c", CIFAR10C)

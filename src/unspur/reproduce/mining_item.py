"""How much the miner matters: DCWP with different miners, compared with LfF and DisEnt."""

from __future__ import annotations

from ..recipes import published
from .item import Cells, Item, Page, Result, Results, cell
from .pages import FACTS, METHOD_SOURCES, PUBLISHED, facts, legend, number, table

SCORES = ("aligned", "conflicting", "unbiased")
QUALITY = ("precision", "recall")
TITLES = {
    "early-stopped": "DCWP, early-stopped ERM",
    "gce": "DCWP, GCE",
    "epoch-ensemble": "DCWP, epoch ensemble",
    "oracle": "DCWP, oracle (uses bias labels)",
    "erm": "ERM",
    "lff": "LfF",
    "disent": "DisEnt",
}
# Data sets, and the published numbers they are compared with.
DATA = {"cifar10c/1pct": "cifar10c/1pct", "bffhq/1pct": "bffhq/0.5pct"}
SET_TITLES = {
    "cifar10c/1pct": "CIFAR10-C 1 %",
    "bffhq/1pct": "Faces 1 %, a stand-in at 96 px; published: BFFHQ 0.5 %",
}
SEEDS = {"cifar10c/1pct": 2, "bffhq/1pct": 4}


MINERS = {
    "early-stopped": ("mine.how=early-stopped", "mine.steps=1000"),
    **{how: (f"mine.how={how}",) for how in ("gce", "epoch-ensemble", "oracle")},
}


def _cells() -> Cells:
    found: Cells = {}
    for data, seeds in SEEDS.items():
        for how, changes in MINERS.items():
            found[data, how] = cell(f"{data}-dcwp", *changes, seeds=seeds)
        for kind in ("erm", "lff", "disent"):
            found[data, kind] = cell(f"{data}-{kind}", seeds=seeds)
    return found


def _draw(results: Results) -> Page:
    header = ["model", *FACTS]
    header += [part for name in (*QUALITY, *SCORES) for part in (name, "published")]
    parts = [
        "DCWP with the suspects of different miners. LfF and DisEnt use no suspects.",
        legend(
            PUBLISHED,
            METHOD_SOURCES,
            "*model*: the method, and for DCWP its miner: ERM stopped early, generalised cross entropy "
            "(GCE), or an ensemble over epochs.",
            "*precision*: the share of the suspects that are conflicting. *recall*: the share of the "
            "conflicting images that are suspects.",
        ),
    ]
    for data, known in DATA.items():
        rows = [
            [title, *facts(results[data, how]), *_numbers(results[data, how], known, how)]
            for how, title in TITLES.items()
        ]
        parts += [f"{SET_TITLES[data]}:", table(header, rows)]
    return Page(parts)


def _numbers(result: Result, data: str, how: str) -> list[str]:
    known = published.MINING[data].get(how, {})
    places = {name: ("mining", name) for name in QUALITY}
    places |= {name: ("debiased", name) for name in SCORES}
    return [
        text
        for name, place in places.items()
        for text in (result.text(*place), number(known.get(name)))
    ]


MINING = Item("DCWP with other miners", _cells, _draw)

"""Figures without tables of methods: t-SNE maps, examples of the data, the theory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..data.benchmarks import sheet
from ..errors import DataError
from ..report import theory_page, theory_words
from ..store import make_folder, read_document, write_document
from . import figures
from .figures import Colouring
from .item import Cells, FigureItem, Item, Page, ReproduceOptions, Result, Results, Run, cell
from .pages import FACTS, facts, figure, legend, table

# -- t-SNE --------------------------------------------------------------------------------------------

NETWORKS = {"ordinary": "pretrained", "pruned": "pruned", "debiased": "fine-tuned"}


def _tsne_cells() -> Cells:
    return {("DCWP",): cell("cmnist/0.5pct-dcwp", seeds=1)}


def _tsne(results: Results) -> Page:
    result = results["DCWP",]
    header = ["after", *FACTS, "unbiased", "aligned", "conflicting"]
    rows = [[title, *facts(result), *_scores(result, name)] for name, title in NETWORKS.items()]
    pictures = [figure("tsne.svg", "t-SNE of test images after each stage, by bias and by label")]
    return Page(
        [
            "CMNIST 0.5 %, DCWP: t-SNE (perplexity 20) of the features that enter the last layer, for 1,000 "
            "test images, after each stage. A network that uses the shortcut groups images by colour; a "
            "debiased network groups them by digit.",
            legend(),
            *(pictures if result.runs else []),
            table(header, rows),
        ],
        {"tsne.svg": _maps(result.runs[0])} if result.runs else {},
    )


def _scores(result: Result, network: str) -> list[str]:
    return [result.text(network, metric) for metric in ("unbiased", "aligned", "conflicting")]


def _maps(run: Run) -> str:
    maps = run["extras"]["maps"]
    places = {
        f"{title}, {100 * run[name]['unbiased']:.1f} %": list(
            zip(maps["places"][name]["x"], maps["places"][name]["y"], strict=True)
        )
        for name, title in NETWORKS.items()
        if name in maps["places"]
    }
    rows = [
        Colouring("by bias", maps["bias"], maps["biases"]),
        Colouring("by label", maps["targets"], maps["classes"]),
    ]
    return figures.maps(places, rows)


TSNE = Item("t-SNE maps of the features", _tsne_cells, _tsne, extras=("maps",))

# -- examples -----------------------------------------------------------------------------------------

# Faces may not be redistributed. Users who have the data can draw them with `unspur data show bffhq`.
SHOWN = {"cmnist": ("1pct", "CMNIST"), "cifar10c": ("1pct", "CIFAR10-C")}


def _examples(options: ReproduceOptions) -> Page:
    data_sets = {"demo": ("5pct", "Embedded digits")} if options.quick else SHOWN
    parts = [
        "Training images. Those above the dotted line follow the shortcut; those below contradict it."
    ]
    errors = []
    for name, (ratio, title) in data_sets.items():
        file = f"examples-{name}.png"
        try:
            sheet.save(options.load(name, ratio=ratio), options.pages / file)
        except DataError as error:
            errors.append(str(error))
            continue
        parts += [f"{title}, a column for each class:", figure(file, f"Examples of {title}")]
    if errors:
        raise DataError(" ".join(dict.fromkeys(errors)))
    return Page(parts)


EXAMPLES = FigureItem("Examples of the data", _examples)

# -- theory -------------------------------------------------------------------------------------------


THEORY_FILE = "theory.json.gz"
THEORY_TITLES = {
    "bounds": "Training data favour spurious weights, test data do not (Theorem 1)",
    "mixtures": "Conflicting samples close the gap (Theorem 2)",
    "corners": "Where the bound fails",
    "flows": "Why spurious weights are learned at all (Proposition 1)",
    "simulation": "The same in a simulated training",
    "pruning": "Learning what to prune",
    "cosines": "Features before any training (Lemma 1)",
}


def _theory(options: ReproduceOptions) -> Page:
    numbers, _ = theory_page.write_figures(
        options.pages / "theory", quick=options.quick, progress=options.say
    )
    make_folder(options.results)
    write_document(options.results / THEORY_FILE, numbers)
    return _theory_page(numbers, options)


def _theory_again(options: ReproduceOptions) -> Page | None:
    """Return the page from the recorded numbers; existing figures are not drawn again."""
    path = options.results / THEORY_FILE
    return _theory_page(read_document(path), options) if path.exists() else None


def _theory_page(numbers: dict[str, Any], options: ReproduceOptions) -> Page:
    about = numbers["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    seconds = sum(about["seconds"].values())
    file = Path(os.path.relpath(options.results / THEORY_FILE, options.pages)).as_posix()
    words = theory_words.describe(numbers)
    return Page(
        [
            "The paper's bounds and simulation, with our checks. `unspur theory` writes a page that explains "
            f"them; [{THEORY_FILE}]({file}) has all numbers, settings and seeds.",
            *(
                part
                for name, title in THEORY_TITLES.items()
                for part in _theory_figure(name, title, words)
            ),
            f"{versions}; {about['made'][:10]}; {seconds:.0f} s on a CPU.",
        ]
    )


def _theory_figure(name: str, title: str, words: dict[str, str]) -> list[str]:
    """Return a heading, a figure and the description of the figure."""
    return [f"## {title}", figure(f"theory/{name}.svg", title), words[name]]


THEORY = FigureItem("The theory", _theory, _theory_again)

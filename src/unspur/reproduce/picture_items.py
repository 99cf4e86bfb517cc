"""Pictures: samples as the networks see them, examples of the data, the theory."""

from __future__ import annotations

from ..data.benchmarks import sheet
from ..errors import DataError
from ..report import theory_page
from ..report.theory_figures import FIGURES
from . import figures
from .figures import Coloured
from .item import Cells, Desk, Item, Page, Result, Results, Run, Sheet, cell
from .pages import FACTS, READING, facts, figure, table

# -- t-SNE --------------------------------------------------------------------------------------------

NETWORKS = {"ordinary": "pretrained", "pruned": "pruned", "debiased": "fine-tuned"}


def _tsne_cells() -> Cells:
    return {("DCWP",): cell("cmnist/0.5pct-dcwp", seeds=1)}


def _tsne(results: Results) -> Page:
    own = results["DCWP",]
    header = ["after", *FACTS, "unbiased", "aligned", "conflicting"]
    rows = [[title, *facts(own), *_scores(own, name)] for name, title in NETWORKS.items()]
    shown = [figure("tsne.svg", "t-SNE of test samples after each stage, by bias and by label")]
    return Page(
        [
            "CMNIST 0.5 %, DCWP: t-SNE (perplexity 20) of what enters the head, for 1,000 test samples, "
            "after each stage. Where the shortcut rules, samples lie together by colour, afterwards by "
            f"digit. {READING}",
            *(shown if own.runs else []),
            table(header, rows),
        ],
        {"tsne.svg": _maps(own.runs[0])} if own.runs else {},
    )


def _scores(result: Result, network: str) -> list[str]:
    return [result.text(network, metric) for metric in ("unbiased", "aligned", "conflicting")]


def _maps(run: Run) -> str:
    kept = run["kept"]["maps"]
    places = {
        f"{title}, {100 * run[name]['unbiased']:.1f} %": list(
            zip(kept["places"][name]["x"], kept["places"][name]["y"], strict=True)
        )
        for name, title in NETWORKS.items()
        if name in kept["places"]
    }
    rows = [
        Coloured("by bias", kept["bias"], kept["biases"]),
        Coloured("by label", kept["targets"], kept["classes"]),
    ]
    return figures.maps(places, rows)


TSNE = Item("Samples as the networks see them", _tsne_cells, _tsne, keep=("maps",))

# -- examples -----------------------------------------------------------------------------------------

# Faces are other people's: `unspur data show bffhq` draws them for whoever has them.
SHOWN = {"cmnist": ("1pct", "CMNIST"), "cifar10c": ("1pct", "CIFAR10-C")}


def _examples(desk: Desk) -> Page:
    shown = {"demo": ("5pct", "Embedded digits")} if desk.quick else SHOWN
    parts = [
        "Training images: above the dotted line they follow the shortcut, below they contradict it."
    ]
    errors = []
    for name, (ratio, title) in shown.items():
        try:
            sheet.save(desk.load(name, ratio=ratio), desk.out / (file := f"examples-{name}.png"))
        except DataError as error:
            errors.append(str(error))
            continue
        parts += [f"{title}, a column for each class:", figure(file, f"Examples of {title}")]
    if errors:
        raise DataError(" ".join(dict.fromkeys(errors)))
    return Page(parts)


EXAMPLES = Sheet("Examples of the data", _examples)

# -- theory -------------------------------------------------------------------------------------------


def _theory(desk: Desk) -> Page:
    numbers = theory_page.write(
        desk.out / "theory", quick=desk.quick, html=False, progress=desk.say
    )
    made = numbers["about"]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    seconds = sum(made["seconds"].values())
    return Page(
        [
            "The paper's bounds, its simulation and our checks of them. `unspur theory` writes a page "
            "that tells the story; [theory.json](theory/theory.json) has every number, settings and seeds.",
            *(figure(f"theory/{name}.svg", f"Theory: {name}") for name in FIGURES),
            f"{versions}; {made['made'][:10]}; {seconds:.0f} s on a CPU.",
        ]
    )


THEORY = Sheet("The theory", _theory)

"""Pruning whole channels: accuracy against multiply–adds, and the speed of exported models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runs.tables import percent
from ..store import read_lines
from . import figures
from .figures import Panel, PlotCurve
from .item import DASH, Cells, Item, Page, Result, Results, cell, mean_sd_text
from .main_item import SCORE
from .pages import FACTS, facts, figure, gain, legend, metric_name, table

WHOLE = {"erm": "ERM, whole", "dcwp": "DCWP, weights", "unspur-1": "unspur, first preset, weights"}
CUT = {"slim": "learned channels", "slim-magnitude": "channels by magnitude"}
KEEP = ("0.3", "0.5", "0.2", "0.4", "0.1")
DATA = {"cmnist/1pct": ("CMNIST 1 %, convnet", 4), "cifar10c/5pct": ("CIFAR10-C 5 %, ResNet-18", 2)}
EXPORTS = "exports.jsonl.gz"  # what `unspur export` measured, one line for each export


def _cells() -> Cells:
    found: Cells = {}
    for data, (_, seeds) in DATA.items():
        for kind in WHOLE:
            found[data, kind, ""] = cell(f"{data}-{kind}", seeds=seeds)
        for keep in KEEP:
            for kind in CUT:
                found[data, kind, keep] = cell(f"{data}-{kind}", f"prune.keep={keep}", seeds=seeds)
    return found


def _draw(results: Results) -> Page:
    header = ["model", "multiply–adds kept", "weights kept", *FACTS, "accuracy"]
    header += ["before fine-tuning", "gain over DCWP, weights"]
    parts = [
        f"{metric_name('unbiased')} against the multiply–adds that remain after dead channels, "
        "which have no effect, are removed. Models with masks on single weights keep 100 %, because "
        "a weight of zero takes as much time as any other.",
        legend(
            "*whole*: the whole network. *weights*: masks on single weights. *learned channels*: masks on "
            "whole channels, for several shares to keep.",
            "*channels by magnitude*: the control, with the same share of channels and the same "
            "fine-tuning on the same suspects. Its channels are chosen by magnitude, without learning "
            "which of them carry the shortcut.",
        ),
        figure("slim.svg", "Accuracy against the multiply–adds that remain"),
    ]
    for data, (title, _) in DATA.items():
        base = results[data, "dcwp", ""]
        rows = [_row(name, results[data, kind, ""], base) for kind, name in WHOLE.items()]
        rows += [
            _row(name, results[data, kind, keep], base)
            for kind, name in CUT.items()
            for keep in sorted(KEEP, reverse=True)
        ]
        parts += [f"{title}:", table(header, rows)]
    return Page(parts, {"slim.svg": figures.draw([_panel(results, data) for data in DATA])})


def _row(name: str, result: Result, base: Result) -> list[str]:
    structured = result.cell.recipe.prune.unit == "channel"
    macs = _share(result, "macs") if structured else "100.0"
    above = [] if result is base else gain(result, base, *SCORE)
    return [
        name,
        macs,
        _share(result, "overall"),
        *facts(result),
        result.text(*SCORE),
        result.text("pruned", "unbiased"),
        mean_sd_text(above),
    ]


def _share(result: Result, of: str) -> str:
    share = result.mean("density", of)
    return DASH if share is None else f"{100 * share:.1f}"


def _panel(results: Results, data: str) -> Panel:
    curves = []
    for kind, name in CUT.items():
        by_share = [results[data, kind, keep] for keep in KEEP]
        places = [(r.mean("density", "macs"), r.mean(*SCORE)) for r in by_share]
        points = [(100 * x, y) for x, y in places if x is not None and y is not None]
        curves.append(PlotCurve(name, sorted(points)))
    for kind in ("dcwp", "unspur-1"):
        if (whole := results[data, kind, ""].mean(*SCORE)) is not None:
            curves.append(PlotCurve(WHOLE[kind], [(100.0, whole)]))
    erm = results[data, "erm", ""].mean(*SCORE)
    level = None if erm is None else (WHOLE["erm"], erm)
    title, _ = DATA[data]
    return Panel(title, "multiply–adds kept, per cent", "unbiased accuracy", curves, level)


# -- exported models ----------------------------------------------------------------------------------


def _exported(folder: Path) -> list[str]:
    """Return the table of measurements of `unspur export --slim --onnx`."""
    found = sorted(read_lines(folder / EXPORTS)[0], key=lambda line: f"{line['name']}.")
    if not found:
        return []
    header = ["run", "seed", "accuracy", "multiple", "parameters", "multiply–adds", "file, MB"]
    header += [
        "torch, batch 1",
        "batch 32",
        "ONNX Runtime, batch 1",
        "batch 32",
        "largest difference of logits",
    ]
    words = (
        "Models exported with `unspur export RUN --slim --onnx --multiple N`. Cells have the whole model → "
        "the slim model (ratio). Rows of one recipe differ in the share of multiply–adds that is kept, or in "
        "N (*multiple*). Times are medians in milliseconds on a CPU, measured alternately in one process. "
        "The number of channels is a multiple of N, because ONNX Runtime is slow with other numbers. The "
        "last column compares the slim model with the whole one."
    )
    machines = sorted({f"{each['with']['cpu']}, torch {each['with']['torch']}" for each in found})
    return [
        words,
        table(header, [_export_row(each) for each in found]),
        f"On {'; '.join(machines)}.",
    ]


def _export_row(found: dict[str, Any]) -> list[str]:
    whole, slim = found["costs"]["whole"], found["costs"]["exported"]
    size = found["bytes"]
    pairs = [
        _arrow(whole["parameters"] / 1e6, slim["parameters"] / 1e6, " M"),
        _arrow(whole["multiply_adds"] / 1e6, slim["multiply_adds"] / 1e6, " M"),
        _arrow(size["whole"] / 1e6, size["model.safetensors"] / 1e6),
        *(_times(whole["milliseconds"], slim["milliseconds"], batch) for batch in ("1", "32")),
    ]
    onnx = found["onnx_milliseconds"]
    pairs += [_times(onnx["whole"], onnx["exported"], batch) for batch in ("1", "32")]
    about = found["run"]
    scores = percent({"mean": about["accuracy"], "sd": None})
    worst = max(found["differences"].values())
    block = str(found["multiple"])
    return [f"`{about['recipe']}`", str(about["seed"]), scores, block, *pairs, f"{worst:.0e}"]


def _times(whole: dict[str, float], slim: dict[str, float], batch: str) -> str:
    return f"{_arrow(whole[batch], slim[batch])} ({slim[batch] / whole[batch]:.2f})"


def _arrow(one: float, other: float, unit: str = "") -> str:
    return f"{one:.3g} → {other:.3g}{unit}"


SLIM = Item(
    "Pruning whole channels: accuracy against multiply–adds", _cells, _draw, appendix=_exported
)

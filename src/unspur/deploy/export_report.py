"""Compare the costs of the exported model and of the whole one; write the table, export.json and the card."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..runs.classifier import Classifier
from ..runs.finished import stored_intervals
from ..runs.named_models import is_only_ordinary
from ..store import environment, read_json, write_bytes
from ..store.manifest import MANIFEST
from ..store.packing import NAME as PACKED
from . import card, formats, measure

WHAT = {
    "model.safetensors": "weights",
    PACKED: "the same weights, zeros left out",
    "model.onnx": "for ONNX Runtime: images before preprocessing in, logits out, any batch size",
    "model.pt2": "for torch.export.load: the same inputs and outputs",
    "model.json": "how to build the network, classes, preprocessing",
    "scores.json": "what was measured",
    "recipe.toml": "every setting of the run",
    "run.json": "the run that the model comes from",
    "export.json": "the costs above and the results of the checks",
    MANIFEST: "checksums of all files; `unspur.load` checks them",
}
LARGE_FILES = ("safetensors", "onnx", "pt2")  # suffixes that Hugging Face stores with Git LFS


@dataclass(frozen=True)
class Measurements:
    """The costs of the whole and of the exported model, bytes by file, latencies in ONNX Runtime."""

    costs: Mapping[str, measure.ModelCost]
    sizes: Mapping[str, int]
    onnx: Mapping[str, Mapping[int, float]]


def measure_models(
    folder: Path,
    stage: Path,
    whole: Classifier,
    exported: Classifier,
    images: Tensor,
    seconds: float,
) -> Measurements:
    """Measure the costs of the whole and of the exported model."""
    models = {"whole": whole.model, "exported": exported.model}
    costs = measure.costs(models, whole.preprocess(images), seconds=seconds)
    files = [p for p in sorted(stage.glob("model.*")) if p.suffix != ".json"]
    plain = folder / "model.safetensors"  # an export may have only packed weights
    sizes = {"whole": (plain if plain.exists() else folder / PACKED).stat().st_size}
    sizes |= {p.name: p.stat().st_size for p in files}
    return Measurements(costs, sizes, _onnx_times(stage, whole, images, seconds))


def write_report(
    folder: Path,
    stage: Path,
    measurements: Measurements,
    facts: Mapping[str, Any],
    *,
    hub: bool,
    license: str = "",
) -> list[list[str]]:
    """Write export.json and the card; return the table of costs."""
    scores, run = (read_json(folder / name) for name in ("scores.json", "run.json"))
    table = _table(measurements, scores)
    write_json(stage / "export.json", _export_json(measurements, facts, scores, run))
    about = read_json(stage / "model.json")
    files = {p.name: WHAT[p.name] for p in sorted(stage.iterdir()) if p.name in WHAT}
    intervals = stored_intervals(folder)
    text = card.card(
        about, scores, run, table, files, hub=hub, license=license, intervals=intervals
    )
    write_bytes(stage / "README.md", text.encode())
    if hub:
        rules = "".join(f"*.{kind} filter=lfs diff=lfs merge=lfs -text\n" for kind in LARGE_FILES)
        write_bytes(stage / ".gitattributes", rules.encode())
    return table


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file."""
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def _export_json(
    measurements: Measurements,
    facts: Mapping[str, Any],
    scores: Mapping[str, Any],
    run: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "costs": {name: cost.as_json() for name, cost in measurements.costs.items()},
        "bytes": measurements.sizes,
        "onnx_milliseconds": measurements.onnx,
        **facts,
        "threads": torch.get_num_threads(),
        "run": {
            **{name: run.get(name) for name in ("recipe", "seed")},
            "accuracy": _accuracy(scores)[2],
        },
        "with": environment(),
    }


def _onnx_times(
    stage: Path, whole: Classifier, images: Tensor, seconds: float
) -> dict[str, dict[int, float]]:
    """Return the latencies of both models in ONNX Runtime; empty if there is no ONNX file."""
    if not (stage / "model.onnx").exists():
        return {}
    beside = stage / "whole.onnx"
    formats.write_onnx(whole, images[:4], beside, {})
    models: dict[str, Callable[[Tensor], Any]] = {
        "whole": formats.open_onnx(beside),
        "exported": formats.open_onnx(stage / "model.onnx"),
    }
    times = measure.latencies(models, images, seconds=seconds)
    beside.unlink()
    return times


def _table(measurements: Measurements, scores: Mapping[str, Any]) -> list[list[str]]:
    """Return a table of both models with the ratio of their costs, and the accuracy before and after."""
    kind, before, after = _accuracy(scores)
    which = " of the ordinary model" if is_only_ordinary(scores) else ", ordinary and debiased"
    name = f"{kind} accuracy{which}"
    return [
        ["", "whole", "exported", "ratio"],
        *_size_rows(measurements),
        *_time_rows(measurements),
        [name, card.percent(before), card.percent(after), "–"],
    ]


def _size_rows(measurements: Measurements) -> list[list[str]]:
    whole, exported = measurements.costs["whole"], measurements.costs["exported"]
    files = {name: size for name, size in measurements.sizes.items() if name != "whole"}
    return [
        *(
            _row(f"on disk, {f}", measurements.sizes["whole"], n, _megabytes)
            for f, n in files.items()
        ),
        _row("parameters", whole.parameters, exported.parameters, _count),
        _row("multiply–adds", whole.multiply_adds, exported.multiply_adds, _millions),
    ]


def _time_rows(measurements: Measurements) -> list[list[str]]:
    in_torch = {name: cost.milliseconds for name, cost in measurements.costs.items()}
    times = {"torch": in_torch, "ONNX Runtime": measurements.onnx}
    return [
        _row(f"{what}, batch {batch}", by["whole"][batch], by["exported"][batch], _milliseconds)
        for what, by in times.items()
        for batch in (measure.BATCHES if by else ())
    ]


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _millions(number: float) -> str:
    return f"{number / 1e6:.2f} M"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.2f} MB"


def _milliseconds(time: float) -> str:
    return f"{time:.2f} ms"


def _row(name: str, whole: float, exported: float, form: Callable[[float], str]) -> list[str]:
    return [name, form(whole), form(exported), f"{exported / whole:.2f}" if whole else "–"]


def _accuracy(scores: Mapping[str, Any]) -> tuple[str, float | None, float | None]:
    """Return which accuracy is reported, its value for the ordinary model, and for the debiased one."""
    kind = "average" if scores["debiased"]["unbiased"] is None else "unbiased"
    return kind, (scores.get("ordinary") or {}).get(kind), scores["debiased"][kind]

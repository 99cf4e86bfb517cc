"""A run's model made slim and written in the forms asked for, each checked before anything is kept."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import runs
from ..errors import StoreError
from ..masks.channels import Slimmed, slim
from ..runs.classifier import Classifier
from ..store import environment, read_json, write_bytes, write_tensors
from ..store.packing import NAME as PACKED
from ..store.packing import plain_zeros, write_packed
from . import card, formats, measure

BLOCK = 4  # channels are left in multiples of this; ONNX Runtime is slow with other numbers
EXACT = 1e-5  # what a slim model's logits may differ by
FORMATS = ("safetensors", "packed", "onnx", "pt2")
WHAT = {
    "model.safetensors": "weights",
    PACKED: "the same weights, zeros left out",
    "model.onnx": "for ONNX Runtime: images as the data held them in, logits out, any batch size",
    "model.pt2": "for torch.export.load: the same",
    "model.json": "how to build the network, classes, preprocessing",
    "scores.json": "what was measured",
    "recipe.toml": "every setting of the run",
    "run.json": "where it came from",
    "export.json": "the costs above and the checks that were passed",
}


@dataclass
class Exported:
    """What came of an export."""

    out: Path
    slimmed: Slimmed | None
    multiple: int = 1
    differences: dict[str, float] = field(default_factory=dict)
    table: list[list[str]] = field(default_factory=list)


def export(
    folder: Path,
    out: Path,
    images: Tensor,
    *,
    make_slim: bool,
    wanted: tuple[str, ...],
    multiple: int = BLOCK,
    hub: bool = False,
    model: nn.Module | None = None,
    seconds: float = 1.0,
) -> Exported:
    """Write a run's model to a folder; `images` are some of its data, as they are stored.

    The folder appears whole or not at all.
    """
    whole = runs.load(folder, model)
    made = copy.deepcopy(whole)
    done = Exported(out, None, multiple)
    if make_slim:
        done.slimmed = slim(made.model, made.preprocess(images[:4]), multiple=multiple)
        done.differences["slim"] = formats.agree(
            "the slim model", whole, made, images, limit=_limit(whole, images)
        )
    with _staged(out) as stage:
        about = _write_bundle(folder, stage, made, done.slimmed, wanted)
        _write_formats(stage, made, images, about, wanted, done)
        _report(folder, stage, whole, made, images, seconds, done, hub)
    return done


@torch.no_grad()
def _limit(model: nn.Module, images: Tensor) -> float:
    """1e-5 of logits of a usual size; more only in proportion where they are large."""
    return EXACT * max(1.0, float(model(images).abs().max()))


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A folder beside the wanted one, put in its place when all went well."""
    stage, old = (out.with_name(f"{out.name}{end}") for end in (".partial", ".old"))
    if out.exists() and not (out / "export.json").exists():
        raise StoreError(f"{out} is there and is no export. Give another --out.")
    try:
        for path in (stage, old):
            shutil.rmtree(path, ignore_errors=True)
        stage.mkdir(parents=True)
        yield stage
        if out.exists():
            os.rename(out, old)
        os.rename(stage, out)
    except OSError as error:
        raise StoreError(f"cannot write {out}: {error.strerror or error}.") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _write_bundle(
    folder: Path, stage: Path, made: Classifier, slimmed: Slimmed | None, wanted: tuple[str, ...]
) -> dict[str, Any]:
    """What `unspur.load` needs, and where the model came from."""
    about = read_json(folder / "model.json")
    weights = plain_zeros(made.model.state_dict())
    if slimmed is not None:
        about["slim"] = {"heads": {**about.get("slim", {}).get("heads", {}), **slimmed.heads}}
    if "packed" in wanted:
        about["packed_sha256"] = write_packed(stage / PACKED, weights)
    if "safetensors" in wanted or "packed" not in wanted:
        about["sha256"] = write_tensors(stage / "model.safetensors", weights)
    _write(stage / "model.json", about)
    for name in ("scores.json", "recipe.toml", "run.json"):
        if (folder / name).exists():
            shutil.copyfile(folder / name, stage / name)
    return about


def _write_formats(
    stage: Path,
    made: Classifier,
    images: Tensor,
    about: Mapping[str, Any],
    wanted: tuple[str, ...],
    done: Exported,
) -> None:
    if "onnx" in wanted:
        notes = {"classes": about["classes"], "input": about["input"], "producer": "unspur"}
        formats.write_onnx(made, images[:4], stage / "model.onnx", notes)
        run = formats.open_onnx(stage / "model.onnx")
        done.differences["onnx"] = formats.agree("the ONNX file", made, run, images)
    if "pt2" in wanted:
        formats.write_pt2(made, images[:4], stage / "model.pt2")
        run = formats.open_pt2(stage / "model.pt2")
        done.differences["pt2"] = formats.agree("the .pt2 file", made, run, images)
    back = runs.load(
        stage, None if not about["builder"].get("given") else copy.deepcopy(made.model)
    )
    done.differences["read back"] = formats.agree("what was written", made, back, images, limit=0.0)


def _report(
    folder: Path,
    stage: Path,
    whole: Classifier,
    made: Classifier,
    images: Tensor,
    seconds: float,
    done: Exported,
    hub: bool,
) -> None:
    """The table of costs, the card, and both as numbers."""
    x = whole.preprocess(images)
    models = {"whole": whole.model, "exported": made.model}
    costs = measure.costs(models, x, seconds=seconds)
    sizes = {"whole": (folder / "model.safetensors").stat().st_size}
    sizes |= {
        p.name: p.stat().st_size for p in sorted(stage.glob("model.*")) if p.suffix != ".json"
    }
    extra = _onnx_times(stage, whole, images, seconds)
    scores, run = (read_json(folder / n) for n in ("scores.json", "run.json"))
    done.table = _table(costs, sizes, extra, scores)
    facts = {
        "costs": {name: cost.as_json() for name, cost in costs.items()},
        "bytes": sizes,
        "onnx_milliseconds": extra,
        "differences": done.differences,
        "removed": {} if done.slimmed is None else done.slimmed.removed,
        "kept": {} if done.slimmed is None else done.slimmed.unremovable,
        "filled": 0 if done.slimmed is None else done.slimmed.filled,
        "multiple": done.multiple,
        "threads": torch.get_num_threads(),
        "run": {
            **{name: run.get(name) for name in ("recipe", "seed")},
            "accuracy": _accuracy(scores)[2],
        },
        "with": environment(),
    }
    _write(stage / "export.json", facts)
    about = read_json(stage / "model.json")
    files = {p.name: WHAT[p.name] for p in sorted(stage.iterdir()) if p.name in WHAT}
    text = card.card(about, scores, run, done.table, files, hub=hub)
    write_bytes(stage / "README.md", text.encode())
    if hub:
        kinds = ("safetensors", "onnx", "pt2")
        rules = "".join(f"*.{kind} filter=lfs diff=lfs merge=lfs -text\n" for kind in kinds)
        write_bytes(stage / ".gitattributes", rules.encode())


def _onnx_times(
    stage: Path, whole: Classifier, images: Tensor, seconds: float
) -> dict[str, dict[int, float]]:
    """Latency in ONNX Runtime, the whole model's beside the exported one's; none without a file."""
    if not (stage / "model.onnx").exists():
        return {}
    beside = stage / "whole.onnx"
    formats.write_onnx(whole, images[:4], beside, {})
    runs: dict[str, Callable[[Tensor], Any]] = {
        "whole": formats.open_onnx(beside),
        "exported": formats.open_onnx(stage / "model.onnx"),
    }
    times = measure.latencies(runs, images, seconds=seconds)
    beside.unlink()
    return times


def _table(
    costs: Mapping[str, measure.Cost],
    sizes: Mapping[str, int],
    onnx: Mapping[str, Mapping[int, float]],
    scores: Mapping[str, Any],
) -> list[list[str]]:
    """Whole and exported model side by side, with the ratio; accuracy before and after, from the scores."""
    whole, made = costs["whole"], costs["exported"]
    rows = [["", "whole", "exported", "ratio"]]

    def row(name: str, one: float, other: float, form: Callable[[float], str]) -> None:
        rows.append([name, form(one), form(other), f"{other / one:.2f}" if one else "–"])

    for file, size in sizes.items():
        if file != "whole":
            row(f"on disk, {file}", sizes["whole"], size, lambda n: f"{n / 1e6:.2f} MB")
    row("parameters", whole.parameters, made.parameters, lambda n: f"{n:,.0f}")
    row("multiply–adds", whole.multiply_adds, made.multiply_adds, lambda n: f"{n / 1e6:.2f} M")
    for batch in measure.BATCHES:
        times = (whole.milliseconds[batch], made.milliseconds[batch])
        row(f"torch, batch {batch}", *times, lambda ms: f"{ms:.2f} ms")
    for batch in measure.BATCHES if onnx else ():
        times = (onnx["whole"][batch], onnx["exported"][batch])
        row(f"ONNX Runtime, batch {batch}", *times, lambda ms: f"{ms:.2f} ms")
    kind, before, after = _accuracy(scores)
    name = f"{kind} accuracy, ordinary and debiased"
    rows.append([name, card.percent(before), card.percent(after), "–"])
    return rows


def _accuracy(scores: Mapping[str, Any]) -> tuple[str, float | None, float | None]:
    """The accuracy a model is judged by: its kind, then that of the ordinary and of the debiased model."""
    kind = "average" if scores["debiased"]["unbiased"] is None else "unbiased"
    return kind, (scores.get("ordinary") or {}).get(kind), scores["debiased"][kind]


def _write(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())

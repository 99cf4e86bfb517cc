"""Write the model of a run as files to deploy, optionally slim; each file is checked against the model."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import runs
from ..errors import UsageError
from ..masks.channels import Slimmed, slim
from ..runs.classifier import Classifier
from ..runs.model_description import read_description
from ..runs.run_folder import is_remote
from ..store import check_finite, read_json, seal_folder, write_tensors
from ..store.manifest import MANIFEST
from ..store.packing import NAME as PACKED
from ..store.packing import plain_zeros, write_packed
from . import formats
from .check_images import read_record
from .export_report import WHAT, measure_models, write_json, write_report
from .staging import CARD_FILES, seal_export, stage_folder

BLOCK = (
    4  # the number of channels stays a multiple of this; ONNX Runtime is slow with other numbers
)
EXACT = 1e-5  # largest allowed difference of the logits of a slim model
FORMATS = ("safetensors", "packed", "onnx", "pt2")


@dataclass
class Exported:
    """The result of an export: folder, what was removed, largest differences of logits, table of costs."""

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
    kinds: tuple[str, ...],
    multiple: int = BLOCK,
    hub: bool = False,
    license: str = "",
    model: nn.Module | None = None,
    trust: bool = False,
    seconds: float = 1.0,
) -> Exported:
    """Write the model of a run to a folder in the formats `kinds`.

    `images` are some images of its data before preprocessing, to check the files with. The folder is written
    atomically. `model` and `trust` are as for `unspur.load`.
    """
    _check_options(multiple, license, make_slim=make_slim, hub=hub)
    whole = runs.load(folder, model, trust=trust)
    check_finite("the model", whole.state_dict())
    exported = copy.deepcopy(whole)
    done = Exported(out, None, multiple)
    if make_slim:
        _slim(whole, exported, images, done)
    with stage_folder(out) as stage:
        about = _write_bundle(folder, stage, exported, done.slimmed, kinds, hub=hub)
        done.differences |= _write_formats(stage, exported, images, about, kinds)
        rebuilt = copy.deepcopy(exported.model) if model is not None else None
        back = _read_back(stage, exported, images, rebuilt, trust=trust)
        done.differences["read back"] = back
        costs = measure_models(folder, stage, whole, exported, images, seconds)
        facts = {"differences": done.differences, **_slim_facts(done)}
        done.table = write_report(folder, stage, costs, facts, hub=hub, license=license)
    return done


def _check_options(multiple: int, license: str, *, make_slim: bool, hub: bool) -> None:
    """Raise UsageError for an option that is out of range, or has no effect without another one."""
    if multiple < 1:
        raise UsageError(f"multiple must be 1 or more, not {multiple}.")
    if multiple != BLOCK and not make_slim:
        raise UsageError(
            "multiple is about the channels that slim keeps. Add slim, or leave it out."
        )
    if license and not hub:
        raise UsageError("license is written on the card for the Hub. Add hub, or leave it out.")


def _slim(whole: Classifier, exported: Classifier, images: Tensor, done: Exported) -> None:
    """Remove the dead channels of the exported model, in place, and check that its logits do not change."""
    x = exported.preprocess(images[:4])
    done.slimmed = slim(exported.model, x, multiple=done.multiple)
    limit = _limit(whole, images)
    difference = formats.agree("the slim model", whole, exported, images, limit=limit)
    done.differences["slim"] = difference


@torch.no_grad()
def _limit(model: nn.Module, images: Tensor) -> float:
    """Return how much logits may differ: 1e-5, times the largest logit if that is above 1."""
    return EXACT * max(1.0, float(model(images).abs().max()))


def _write_bundle(
    folder: Path,
    stage: Path,
    exported: Classifier,
    slimmed: Slimmed | None,
    kinds: tuple[str, ...],
    *,
    hub: bool,
) -> dict[str, Any]:
    """Write the files that `unspur.load` needs, and those that say where the model came from."""
    about = read_description(folder)
    weights = plain_zeros(exported.model.state_dict())
    if slimmed is not None:
        about["slim"] = {"heads": {**about.get("slim", {}).get("heads", {}), **slimmed.heads}}
    if "packed" in kinds:
        about["packed_sha256"] = write_packed(stage / PACKED, weights)
    if "safetensors" in kinds or "packed" not in kinds:
        about["sha256"] = write_tensors(stage / "model.safetensors", weights)
    write_json(stage / "model.json", about)
    for name in ("scores.json", "recipe.toml"):
        if (folder / name).exists():
            shutil.copyfile(folder / name, stage / name)
    if (folder / "run.json").exists():
        write_json(stage / "run.json", _moved(read_record(folder), folder, stage, hub=hub))
    return about


def _moved(run: dict[str, Any], folder: Path, stage: Path, *, hub: bool) -> dict[str, Any]:
    """Return the record of a run with the paths of its store and its images relative to the export.

    A folder for the Hub has none, and no command, which names folders too: they mean nothing on another
    machine.
    """
    paths = {name: run[name] for name in ("store", "source") if isinstance(run.get(name), str)}
    local = {name: path for name, path in paths.items() if path and not is_remote(path)}
    if hub:
        kept = {name: value for name, value in run.items() if name not in local}
        return kept | ({"command": ""} if "command" in run else {})
    return run | {name: os.path.relpath(folder / path, stage) for name, path in local.items()}


def copy_for_hub(folder: Path, out: Path) -> None:
    """Copy an export to a folder, without the paths of its run; files of the same names are replaced."""
    with tempfile.TemporaryDirectory(prefix="unspur-") as temporary:
        stage = Path(temporary) / "export"
        shutil.copytree(folder, stage)
        record = read_json(stage / "run.json")
        if (bare := _moved(record, folder, stage, hub=True)) != record:
            write_json(stage / "run.json", bare)
            seal_folder(stage, "export", set(WHAT) - {MANIFEST}, editable=CARD_FILES)
        shutil.copytree(stage, out, dirs_exist_ok=True)


def _write_formats(
    stage: Path,
    exported: Classifier,
    images: Tensor,
    about: Mapping[str, Any],
    kinds: tuple[str, ...],
) -> dict[str, float]:
    """Write the ONNX and .pt2 files; return how much the logits of each differ from the model's."""
    differences = {}
    if "onnx" in kinds:
        notes = {"classes": about["classes"], "input": about["input"], "producer": "unspur"}
        formats.write_onnx(exported, images[:4], stage / "model.onnx", notes)
        run = formats.open_onnx(stage / "model.onnx")
        differences["onnx"] = formats.agree("the ONNX file", exported, run, images)
    if "pt2" in kinds:
        formats.write_pt2(exported, images[:4], stage / "model.pt2")
        run = formats.open_pt2(stage / "model.pt2")
        differences["pt2"] = formats.agree("the .pt2 file", exported, run, images)
    return differences


def _read_back(
    stage: Path, exported: Classifier, images: Tensor, model: nn.Module | None, *, trust: bool
) -> float:
    """Load the written files and compare; the logits must be identical."""
    seal_export(stage)
    back = runs.load(stage, model, trust=trust)
    return formats.agree("the exported folder", exported, back, images, limit=0.0)


def _slim_facts(done: Exported) -> dict[str, Any]:
    """Return the entries of export.json about removed channels."""
    slimmed = done.slimmed
    return {
        "removed": {} if slimmed is None else slimmed.removed,
        "kept": {} if slimmed is None else slimmed.unremovable,
        "filled": 0 if slimmed is None else slimmed.filled,
        "multiple": done.multiple,
    }

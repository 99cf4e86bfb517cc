"""Write the folder of a run.

model.safetensors    the weights with plain state-dict names; pruned weights are exactly zero
masks.safetensors    `<weight>_mask` for every masked weight, as torch's own pruning names them
model.json           how to build the network, classes, preprocessing
scores.json          what was measured
suspects.csv         all training samples with score and flag; can be corrected and passed to debias
suspects.parquet     the same, if there are more than 100,000 samples
recipe.toml          the value of every setting
run.json             the artifacts in the store that the run consists of, with times and versions
manifest.json        the checksum of every file above; written last
report.html          the report
ordinary/            the folder of the ordinary model before debiasing, if that is not the result
debiased/            the folder of the debiased model, if it was not worth its cost and is not the result
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import recipes
from ..data import Splits
from ..data.custom import hub
from ..models import Builder
from ..stages.context import Advice, Context
from ..stages.gain_check import GainCheck
from ..stages.results import Results
from ..store import (
    Artifact,
    Kind,
    check_finite,
    environment,
    make_folder,
    mark_unfinished,
    seal_folder,
    sweep,
    write_bytes,
    write_tensors,
)
from ..store.addresses import is_address
from ..store.manifest import MANIFEST
from ..version import VERSION
from .model_description import FORMAT, MODEL
from .result_folder import SKIPPED, remove_earlier
from .suspects_csv import CSV, move_aside, write_suspects
from .suspects_parquet import PARQUET

ORDINARY, DEBIASED = "ordinary", "debiased"
MODEL_FILES = ("model.safetensors", MODEL, "scores.json", "recipe.toml", "run.json")
MASKS = "masks.safetensors"
RUN_FILES = (MASKS, *MODEL_FILES)
EDITABLE = (CSV, PARQUET, SKIPPED)  # files that a person may change
REPORT = "report.html"


def save(
    context: Context,
    results: Results,
    scores: Artifact,
    out: Path,
    *,
    numbers: Mapping[str, Any] | None = None,
) -> None:
    """Write the folder of a run; `numbers` is the content of scores.json, by default only the scores."""
    check_finite("the model", {**results.final_weights, **results.masks}, numbers or scores.facts)
    make_folder(out)
    mark_unfinished(out, "run")
    keep = {f"{name}_mask": t for name, t in results.masks.items()}
    write_tensors(out / MASKS, keep)
    _save_model(context, context.final, results.final_weights, numbers or scores.facts, out)
    _save_suspects(context, results, out)
    _save_ordinary(context, results, scores, out / ORDINARY)
    remove_earlier(out, (REPORT,))
    save_record(context, results, scores, out)


def _save_model(
    context: Context,
    builder: Builder,
    weights: Mapping[str, Tensor],
    numbers: Mapping[str, Any],
    out: Path,
) -> None:
    """Write the files of a network: weights, description, scores and recipe."""
    checksum = write_tensors(out / "model.safetensors", weights)
    _write(out / MODEL, _about_model(context, builder, checksum))
    _write(out / "scores.json", numbers)
    write_bytes(out / "recipe.toml", recipes.dump(context.recipe).encode())


def _save_suspects(context: Context, results: Results, out: Path) -> None:
    """Write suspects.csv; if nothing was mined, rename the file of an earlier run."""
    if "mine" not in results:
        move_aside(out / CSV)
        move_aside(out / PARQUET)
        return
    splits, suspects = context.splits, results.suspects()
    write_suspects(out / CSV, splits.train, splits.classes, suspects, context.corrections)


def _save_ordinary(context: Context, results: Results, scores: Artifact, out: Path) -> None:
    """Write the folder of the ordinary model, unless it is the result of the run or there is none."""
    if "pretrain" not in results or results.last_network == "pretrain":
        _remove_model(out, MODEL_FILES)
        return
    numbers, weights = ordinary_scores(scores.facts), results.weights("pretrain")
    with _folder_of_model(out, "ordinary"):
        _save_model(context, context.builder, weights, numbers, out)
        record_ = record(context, Results(pretrain=results["pretrain"]), scores)
        _write(out / "run.json", {**_origin(context, out), **record_, "model": ORDINARY})


def save_rejected(
    context: Context, results: Results | None, scores: Artifact | None, run_folder: Path
) -> None:
    """Write the folder of a debiased model that is not the result of its run; remove an earlier one."""
    out = run_folder / DEBIASED
    if results is None or scores is None:
        _remove_model(out, RUN_FILES)
        return
    with _folder_of_model(out, "debiased"):
        write_tensors(out / MASKS, {f"{name}_mask": t for name, t in results.masks.items()})
        _save_model(context, context.final, results.final_weights, scores.facts, out)
        about = record(context, results, scores)
        _write(out / "run.json", {**_origin(context, out), **about, "model": DEBIASED})


@contextlib.contextmanager
def _folder_of_model(out: Path, kind: Kind) -> Iterator[None]:
    """Create the folder of another model of a run; seal it when its files are written."""
    make_folder(out)
    sweep(out)
    mark_unfinished(out, kind)
    yield
    seal_folder(out, kind, RUN_FILES)


def _remove_model(out: Path, files: Iterable[str]) -> None:
    """Remove the folder of another model that an earlier run left; a user's files stay."""
    remove_earlier(out, (*files, REPORT, MANIFEST))
    with contextlib.suppress(OSError):  # it does not exist, or contains a user's files
        out.rmdir()


def ordinary_scores(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of the ordinary model in the form of a run's scores, with it as the result."""
    return {
        "evaluated_on": facts["evaluated_on"],
        **dict.fromkeys(("pruned", "mining", "unseen")),
        **dict.fromkeys(("ordinary", "debiased"), facts["ordinary"]),
        "density": {"overall": 1.0, "reachable": 1.0, "macs": 1.0, "layers": {}},
        "selection": {"rule": "last", "reason": "this is the ordinary model of a run"},
        "iterates": {},
    }


def _about_model(context: Context, builder: Builder, checksum: str) -> dict[str, Any]:
    """Return the content of model.json: how to build the network, its classes and its input."""
    return {
        "format": FORMAT,
        "unspur": VERSION,
        "builder": dict(builder.how),
        **about_images(context),
        "sha256": checksum,
    }


def about_images(context: Context) -> dict[str, Any]:
    """Return the classes of a run and the images that its network takes, as model.json has them."""
    return {
        "classes": list(context.splits.classes),
        "input": {
            "shape": list(context.splits.train.shape),
            "scale": 255 if context.splits.train.dtype == torch.uint8 else 1,
            "mean": list(context.recipe.data.mean),
            "std": list(context.recipe.data.std),
            "crop": context.splits.crop,
        },
    }


def save_record(
    context: Context,
    results: Results,
    scores: Artifact,
    out: Path,
    *,
    inspected: Artifact | None = None,
    command: str = "",
    source: str = "",
    size_and_speed: Mapping[str, Any] | None = None,
    corrections: Mapping[str, Any] | None = None,
) -> None:
    """Write run.json, by which a report finds the artifacts, and seal the folder.

    `source` is the folder or table of the user's images, `size_and_speed` has the costs before and after,
    `corrections` are a person's changes of the suspects.
    """
    about = record(context, results, scores, inspected=inspected)
    if size_and_speed:
        about["size_and_speed"] = size_and_speed
    if corrections:
        about["corrections"] = corrections
    _write(out / "run.json", {**_origin(context, out, source), "command": command, **about})
    seal_folder(out, "run", RUN_FILES, editable=EDITABLE)


def _origin(context: Context, out: Path, source: str = "") -> dict[str, Any]:
    """Return the paths of the store and of the user's images, relative to the folder of the run."""
    where = {"command": "", "store": os.path.relpath(context.store.root, out)}
    if source:
        where["source"] = source if is_remote(source) else os.path.relpath(source, out)
    return where


def is_remote(source: str) -> bool:
    """Return whether images are not in local files (`hf:NAME`, `s3://...`)."""
    return source.startswith(hub.PREFIX) or is_address(source)


def with_advice(numbers: Mapping[str, Any], advice: Advice | None) -> dict[str, Any]:
    """Add the judge's answer, if there was a judge, to the scores."""
    if advice is None:
        return dict(numbers)
    answer = {"verdict": advice.verdict, "debias": advice.debias, "text": advice.text}
    return {**numbers, "judge": answer}


def _about_data(splits: Splits) -> dict[str, Any]:
    """Return name and digests of the data, and which of its biases were generated instead of photographed."""
    about: dict[str, Any] = {
        "name": splits.name,
        "digest": splits.digest,
        "train": splits.train.digest,  # by which an evaluation recognises the training images
    }
    generated = [name for name in splits.bias_classes if name.startswith("procedural ")]
    return about | ({"generated": generated} if generated else {})


def with_gain_check(numbers: Mapping[str, Any], check: GainCheck | None) -> dict[str, Any]:
    """Add the check of the gain, if there was one, to the scores."""
    if check is None:
        return dict(numbers)
    counts = {"keep": check.keep, "open": check.is_open, "suspects": check.suspects}
    answer = {**counts, "gain": check.gain}
    return {**numbers, "gain_check": answer}


def record(
    context: Context, results: Results, scores: Artifact, *, inspected: Artifact | None = None
) -> dict[str, Any]:
    """Return the record of a run: artifacts, times, versions, hardware."""
    artifacts = {**results, "evaluate": scores, **({"inspect": inspected} if inspected else {})}
    stages = {name: _times(artifact) for name, artifact in artifacts.items()}
    return {
        "recipe": context.recipe.name,
        "seed": context.recipe.seed,
        "data": _about_data(context.splits),
        "device": context.device.type,
        "stages": stages,
        "seconds": round(sum(times["seconds"] for times in stages.values()), 3),
        "with": environment(),
    }


def _times(artifact: Artifact) -> dict[str, Any]:
    """Return the time of a stage (its share, if several ran side by side) and the versions it ran with."""
    about = artifact.about
    beside = about.get("beside", 1)
    setup = sum(row.get("setup_seconds", 0) for row in artifact.log)
    return {
        "artifact": artifact.path.name,
        "seconds": round(about["seconds"] / beside, 3),
        **({"beside": beside} if beside > 1 else {}),
        **({"setup_seconds": round(setup / beside, 3)} if setup else {}),
        "with": about["with"],
    }


def _write(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())

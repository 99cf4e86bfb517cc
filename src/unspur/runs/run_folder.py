"""What a run leaves in its folder, and the model back from it.

model.safetensors    plain state-dict names, pruned weights exactly zero
masks.safetensors    `<weight>_mask` for every masked weight, as torch's own pruning names them
model.json           how to build the network, classes, preprocessing
scores.json          what was measured
suspects.csv         which training samples contradict the shortcut, to be looked at and given back
recipe.toml          every setting, resolved
run.json             which artifacts of the store it was made of, with times and versions
report.html          all of it on one page
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .. import recipes
from ..data.custom import hub
from ..stages.context import Advice, Context
from ..stages.results import Results
from ..store import Artifact, environment, make_folder, write_bytes, write_tensors
from ..version import VERSION
from .suspects_csv import write_suspects

FORMAT = 1


def save(
    context: Context,
    results: Results,
    scores: Artifact,
    out: Path,
    *,
    numbers: Mapping[str, Any] | None = None,
) -> None:
    """Write the folder of a run; `numbers` are what scores.json gets, by default the scores alone."""
    make_folder(out)
    checksum = write_tensors(out / "model.safetensors", results.final_weights)
    keep = {f"{name}_mask": t for name, t in results.masks.items()}
    write_tensors(out / "masks.safetensors", keep)
    _write(out / "model.json", _about_model(context, checksum))
    _write(out / "scores.json", numbers or scores.facts)
    write_bytes(out / "recipe.toml", recipes.dump(context.recipe).encode())
    if "mine" in results:
        splits = context.splits
        write_suspects(
            out / "suspects.csv",
            splits.train,
            splits.classes,
            results.suspects(),
            context.corrections,
        )
    save_record(context, results, scores, out)


def _about_model(context: Context, checksum: str) -> dict[str, Any]:
    """Say how to build the network, its classes and its input."""
    return {
        "format": FORMAT,
        "unspur": VERSION,
        "builder": dict(context.final.how),
        "classes": list(context.splits.classes),
        "input": {
            "shape": list(context.splits.train.shape),
            "scale": 255 if context.splits.train.dtype == torch.uint8 else 1,
            "mean": list(context.recipe.data.mean),
            "std": list(context.recipe.data.std),
            "crop": context.splits.crop,
        },
        "sha256": checksum,
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
) -> None:
    """Write the record by which a report finds the artifacts; `source` is where the user's images are."""
    about = record(context, results, scores, inspected=inspected)
    where = {"command": command, "store": os.path.relpath(context.store.root, out)}
    if source:
        where["source"] = source if is_remote(source) else os.path.relpath(source, out)
    _write(out / "run.json", {**where, **about})


def is_remote(source: str) -> bool:
    """Return whether images come from elsewhere than a file or a folder (`hf:NAME`)."""
    return source.startswith(hub.PREFIX)


def with_advice(numbers: Mapping[str, Any], advice: Advice | None) -> dict[str, Any]:
    """Add the judge's answer, if it was asked, to what was measured."""
    if advice is None:
        return dict(numbers)
    answer = {"verdict": advice.verdict, "debias": advice.debias, "text": advice.text}
    return {**numbers, "judge": answer}


def record(
    context: Context, results: Results, scores: Artifact, *, inspected: Artifact | None = None
) -> dict[str, Any]:
    """Return where a run came from: artifacts, times, versions, hardware."""
    artifacts = {**results, "evaluate": scores, **({"inspect": inspected} if inspected else {})}
    stages = {name: _times(artifact) for name, artifact in artifacts.items()}
    return {
        "recipe": context.recipe.name,
        "seed": context.recipe.seed,
        "data": {"name": context.splits.name, "digest": context.splits.digest},
        "device": context.device.type,
        "stages": stages,
        "seconds": round(sum(times["seconds"] for times in stages.values()), 3),
        "with": environment(),
    }


def _times(artifact: Artifact) -> dict[str, Any]:
    """Return how long a stage took (its share if several ran at once) and the versions it was made with."""
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

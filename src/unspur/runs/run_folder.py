"""What a run leaves in its folder, and the model back from it.

model.safetensors    plain state-dict names, pruned weights exactly zero
masks.safetensors    `<weight>_mask` for every masked weight, as torch's own pruning names them
model.json           how to build the network, classes, preprocessing
scores.json          what was measured
suspects.csv         which training samples contradict the shortcut, to be looked at and given back
recipes.toml          every setting, resolved
run.json             which artifacts of the store it was made of, with times and versions
report.html          all of it on one page
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import recipes
from ..stages.context import Context, Made, last_stage, masks_of, weights_of
from ..stages.mining import Suspects
from ..store import Artifact, environment, make_folder, write_bytes, write_tensors
from ..version import VERSION
from .suspects_csv import write_suspects

FORMAT = 1


def save(context: Context, made: Made, scores: Artifact, out: Path) -> None:
    """Write the folder of a run."""
    make_folder(out)
    weights, keep = outcome(made)
    checksum = write_tensors(out / "model.safetensors", weights)
    write_tensors(out / "masks.safetensors", {f"{name}_mask": t for name, t in keep.items()})
    about = {
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
    _write(out / "model.json", about)
    _write(out / "scores.json", scores.facts)
    write_bytes(out / "recipe.toml", recipes.dump(context.recipe).encode())
    if "mine" in made:
        found = Suspects.of(made["mine"].tensors, "train")
        write_suspects(
            out / "suspects.csv",
            context.splits.train,
            context.splits.classes,
            found,
            context.corrections,
        )
    save_record(context, made, scores, out)


def save_record(
    context: Context,
    made: Made,
    scores: Artifact,
    out: Path,
    *,
    inspected: Artifact | None = None,
    command: str = "",
) -> None:
    """Write what the folder was made of; a report finds the artifacts by it."""
    about = record(context, made, scores, inspected=inspected)
    where = {"command": command, "store": os.path.relpath(context.store.root, out)}
    _write(out / "run.json", {**where, **about})


def outcome(made: Made) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The final weights and masks of a plan; the ordinary model's, and none, where it ended there."""
    stage = last_stage(made)
    assert stage is not None, "every plan ends in a network"
    return weights_of(made, stage), masks_of(made)


def record(
    context: Context, made: Made, scores: Artifact, *, inspected: Artifact | None = None
) -> dict[str, Any]:
    """Where a run came from: artifacts, times, versions, hardware."""
    artifacts = {**made, "evaluate": scores, **({"inspect": inspected} if inspected else {})}
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
    """How long a stage took, its share where several runs were made at once; with what it was made."""
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

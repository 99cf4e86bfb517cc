"""Describe how a person has corrected the suspects of an earlier run or audit, and how the scores changed.

The corrected table is compared with the copy that the review made before it or, without a review, with the
suspects of the run in the same folder. Scores are compared on images that both runs were scored on and
neither was trained on, with the corrected labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data.splits import with_targets
from ..errors import DataError, StoreError
from ..stages.context import Context
from ..stages.corrections import Corrections, sample_names
from ..stages.evaluate import Scorer
from ..store import Artifact
from .finished import Finished, open_run
from .intervals import bootstrap
from .suspects_csv import read_suspects

BEFORE_REVIEW = "suspects-before-review.csv"
EXAMPLES = 100  # changed images that the report lists
FEWEST = 5  # images in a part that has its own score


def person_changes(context: Context, scores: Artifact) -> dict[str, Any] | None:
    """Return the counts of a run's corrections, with examples and the change of the scores."""
    corrections = context.corrections
    if corrections is None:
        return None
    folder = Path(corrections.source).parent
    earlier = _earlier_run(folder)
    machine = _machine_flags(context, folder, earlier)
    changed = _changed(context, corrections, machine)
    return {
        "file": corrections.source,
        "suspects": int(corrections.conflict.sum()),
        "excluded": int(corrections.excluded.sum()),
        "relabelled": len(corrections.labels),
        "notes": len(corrections.notes),
        "flags": None if machine is None else _flag_changes(corrections, machine),
        "changed": len(changed),
        "examples": _examples(context, corrections, changed),
        "scores": compare_scores(context, scores, earlier, folder),
    }


def _earlier_run(folder: Path) -> Finished | None:
    """Open the run in the folder of the table; return None for an audit or any other folder."""
    try:
        return open_run(folder) if (folder / "run.json").is_file() else None
    except StoreError:
        return None


def _machine_flags(context: Context, folder: Path, earlier: Finished | None) -> Tensor | None:
    """Return the flags before the corrections; None if they are no longer known."""
    kept, names = folder / BEFORE_REVIEW, sample_names(context.splits.train)
    if kept.is_file():
        try:
            classes = context.splits.classes
            return read_suspects(kept, names, classes=classes).conflict
        except DataError:
            return None
    mined = earlier.stages.get("mine") if earlier else None
    flags = None if mined is None else mined.tensors.get("train.conflict")
    return flags if flags is not None and len(flags) == len(names) else None


def _flag_changes(corrections: Corrections, machine: Tensor) -> dict[str, int]:
    kept = corrections.conflict & machine
    return {
        "kept": int(kept.sum()),
        "cleared": int((machine & ~corrections.conflict & ~corrections.excluded).sum()),
        "added": int((corrections.conflict & ~machine).sum()),
    }


def _changed(context: Context, corrections: Corrections, machine: Tensor | None) -> dict[int, str]:
    """Describe the change of every corrected image: new labels first, then exclusions, then flags."""
    classes = context.splits.classes
    what = {i: f"label {classes[new.after]}" for i, new in corrections.labels.items()}
    what |= dict.fromkeys(corrections.excluded.nonzero().flatten().tolist(), "left out")
    if machine is not None:
        changed = (machine != corrections.conflict) & ~corrections.excluded
        for i in changed.nonzero().flatten().tolist():
            flag = "an exception" if corrections.conflict[i] else "not an exception"
            what[i] = f"{what[i]}, {flag}" if i in what else flag
    return what


def _examples(
    context: Context, corrections: Corrections, changed: Mapping[int, str]
) -> list[dict[str, str]]:
    """Return the first corrected images with their labels, changes and notes."""
    classes, targets = context.splits.classes, context.splits.train.targets
    names = sample_names(context.splits.train)
    return [
        {
            "name": names[i],
            "label": classes[
                corrections.labels[i].before if i in corrections.labels else int(targets[i])
            ],
            "what": text,
            "note": corrections.notes.get(i, ""),
        }
        for i, text in list(changed.items())[:EXAMPLES]
    ]


# -- the scores before and after ----------------------------------------------------------------------


def compare_scores(
    context: Context, scores: Artifact, earlier: Finished | None, folder: Path
) -> dict[str, Any]:
    """Return the accuracy before and after on the same images, or why it is not known (`missing`)."""
    if earlier is None:
        return {"missing": f"{folder} is not the folder of a run, so there are no earlier scores."}
    evaluated = earlier.stages.get("evaluate")
    if evaluated is None or "predicted.debiased" not in evaluated.tensors:
        return {"missing": f"the predictions of the run in {folder} are no longer stored."}
    if earlier.scores.get("evaluated_on") != scores.facts["evaluated_on"]:
        return {"missing": f"the run in {folder} was scored on other images."}
    masks = _common(context, evaluated.tensors["targets"])
    if masks is None:
        return {"missing": f"the run in {folder} was scored on other images, or with other labels."}
    before, after, flagged = masks
    tensors = {
        "targets": scores.tensors["targets"][after],
        "predicted.ordinary": evaluated.tensors["predicted.debiased"][before],
        "predicted.debiased": scores.tensors["predicted.debiased"][after],
    }
    return {
        "folder": str(folder),
        "evaluated_on": scores.facts["evaluated_on"],
        "parts": _parts(tensors, flagged),
    }


def _common(context: Context, earlier: Tensor) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Select the images that both runs were scored on; return None if their images do not match.

    Returns a mask over the scored images of the earlier run, one over those of this run, and the person's
    flags of the common images (None outside the training split).
    """
    scorer, corrections = Scorer(context), context.corrections
    assert corrections is not None
    if scorer.among is None:
        targets = context.splits.parts()[scorer.split].targets.cpu()
        everything = torch.ones(len(targets), dtype=torch.bool)
        return (everything, everything, None) if torch.equal(targets, earlier) else None
    original = context.splits.train.targets.clone()
    for index, new in corrections.labels.items():
        original[index] = new.before
    splits = replace(context.splits, train=with_targets(context.splits.train, original))
    held = replace(context, corrections=None, splits=splits).held_out
    if not torch.equal(original[held].cpu(), earlier):
        return None
    both = held & scorer.among
    return both[held], both[scorer.among], corrections.conflict[both]


def _parts(tensors: Mapping[str, Tensor], flagged: Tensor | None) -> dict[str, dict[str, Any]]:
    """Return the count, both accuracies and the interval of the gain, for all images and by flag."""
    everything = torch.ones(len(tensors["targets"]), dtype=torch.bool)
    masks = {"all": everything}
    if flagged is not None:
        masks |= {"suspects": flagged, "others": ~flagged}
    return {
        name: _difference({key: t[mask] for key, t in tensors.items()})
        for name, mask in masks.items()
        if int(mask.sum()) >= FEWEST
    }


def _difference(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    right = {
        name: float((tensors[f"predicted.{name}"] == tensors["targets"]).double().mean())
        for name in ("ordinary", "debiased")
    }
    low, high = bootstrap(tensors).gain["average"]
    return {
        "count": len(tensors["targets"]),
        "before": right["ordinary"],
        "after": right["debiased"],
        "low": low,
        "high": high,
    }

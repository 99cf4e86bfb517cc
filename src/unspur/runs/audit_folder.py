"""The folder of an audit: written once, and read for every report of it.

audit.json             verdict, evidence, thresholds, classes, settings, times, versions
suspects.csv           every training sample with its score and flag, to be corrected and given to debias
pictures.safetensors   the pictures of the report, and what is known of them
report.html            all of it on one page
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from ..audit.auditing import Audit
from ..audit.evidence import Evidence, Seen, Shown
from ..audit.thresholds import THRESHOLDS, Thresholds
from ..audit.verdict import insisted, passes
from ..audit.view_pictures import through
from ..audit.views import VIEWS
from ..errors import StoreError
from ..stages.context import Context
from ..stages.results import Pictures
from ..stages.thumbnails import gallery
from ..store import environment, make_folder, read_json, read_tensors, write_bytes, write_tensors
from ..training.metrics import mining_quality
from .suspects_csv import write_suspects

RECORD, PICTURES, CSV = "audit.json", "pictures.safetensors", "suspects.csv"
FEWEST_RIGHT = 3  # examples that a view sets right, to show those alone


def save(found: Audit, context: Context, out: Path, *, command: str = "", source: str = "") -> None:
    """Write the folder of an audit: audit.json, suspects.csv for debias, and pictures for the report.

    `command` and `source` are what it was asked with, so that the report can say how to go on.
    """
    make_folder(out)
    write_suspects(out / CSV, context.splits.train, context.splits.classes, found.suspects)
    pictures = pictured(found, context)
    notes = {"facts": json.dumps(pictures.facts())}
    checksum = write_tensors(out / PICTURES, pictures.tensors(), notes)
    about = {
        **found.as_json(),
        "truth": _truth(found, context),
        "classes": _classes(found, context),
        "data": {
            "name": context.splits.name,
            "digest": context.splits.train.digest,
            "source": source,
        },
        "network": dict(context.builder.how),
        "settings": context.recipe.model_dump(mode="json", include=SETTINGS),
        "device": context.device.type,
        "command": command,
        "trained": [asdict(each) for each in found.trained],
        "with": environment(),
        "pictures": checksum,
    }
    write_bytes(out / RECORD, (json.dumps(about, indent=1) + "\n").encode())


SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("seed", "model", "mine", "pretrain", "precision", "deterministic"), True),
    "data": {"augment", "mean", "std"},
    "finetune": {"share", "cap"},  # how often suspects are drawn for the taught network
}


def _truth(found: Audit, context: Context) -> dict[str, Any] | None:
    """How right the flags are, where somebody knows."""
    conflicting = context.splits.conflicting("train")
    if conflicting is None:
        return None
    count = int(conflicting.sum())
    return {"contradicting": count, **mining_quality(found.suspects.conflict, conflicting)}


def _classes(found: Audit, context: Context) -> list[dict[str, Any]]:
    """Each class: how many suspects it has, and which class most of them are taken for."""
    targets, names = context.splits.train.targets, context.splits.classes
    told = []
    for label, name in enumerate(names):
        own = targets == label
        taken = torch.bincount(found.suspects.predicted[own & found.mistaken], minlength=len(names))
        told.append(
            {
                "name": name,
                "samples": int(own.sum()),
                "suspects": int(taken.sum()),
                "flagged": int((own & found.suspects.conflict).sum()),
                "taken_for": names[int(taken.argmax())] if bool(taken.any()) else None,
                "taken": int(taken.max()),
            }
        )
    return told


def pictured(found: Audit, context: Context) -> Pictures:
    """Gather the page's pictures: a gallery, and suspects through the views that explain them."""

    def says(index: Tensor) -> dict[str, list[int]]:
        return {name: o.predicted[index].tolist() for name, o in found.opinions.items()}

    marks = {"insisted": found.insisted, "mistaken": found.mistaken}
    views = Pictures()
    for view in hiding(found):
        among = _examples(found, context, view)
        views |= through(context, view, found.suspects, among, says)
    splits = context.splits
    names = {"classes": list(splits.classes), "bias_classes": list(splits.bias_classes)}
    shown = Pictures({}, names) | gallery(context, found.suspects, says, marks)
    return shown | Pictures(views.images, {"views": views.notes})


def _examples(found: Audit, context: Context, view: str) -> Tensor:
    """Suspects that a network behind a view gets right; where these are few, those that are insisted on."""
    right = found.opinions[view].predicted == context.splits.train.targets
    enough = int((right & found.suspects.conflict).sum()) >= FEWEST_RIGHT
    return right if enough else found.insisted


def hiding(found: Audit) -> list[str]:
    """The views that notice the suspects, so that what they cannot see is the shortcut.

    By what they show it with, in the verdict's order (gain, reliance, separation); then the surest first.
    """
    e, limits = found.evidence, THRESHOLDS
    if found.finding.code != "shortcut":
        return []
    passed: dict[str, tuple[int, float]] = {}
    for name in VIEWS:
        for rank, (shown, turn) in enumerate(_tests(e, name, limits)):
            # As in the verdict, the p-value allows for the choice among several networks.
            corrected = Shown(shown.value, min(1.0, shown.p_value * len(e.networks)))
            if passes(corrected, turn, limits):
                passed.setdefault(name, (rank, corrected.p_value))
    return sorted(passed, key=lambda name: passed[name])


def _tests(e: Evidence, name: str, limits: Thresholds) -> list[tuple[Shown, float]]:
    """The numbers by which a network can show a shortcut, and where they turn."""
    seen = e.networks[name]
    tests = [(seen.gain, limits.gain)]
    if seen.reliance and insisted(e, limits, limits.resting):
        tests.append((seen.reliance, limits.reliance))
    if seen.separation and insisted(e, limits, limits.insistence):
        tests.append((seen.separation, limits.separation(e.insistence)))
    return tests


# -- read back ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audited:
    """An audit as its folder tells it; without pictures, facts and tensors are empty."""

    folder: Path
    about: dict[str, Any]
    evidence: Evidence
    thresholds: Thresholds
    facts: dict[str, Any]
    tensors: dict[str, Tensor]


def read(folder: Path) -> Audited:
    """Read the folder of an audit; pictures may be missing, but what is there must be whole."""
    path = folder / RECORD
    about = read_json(path)
    if wrong := [name for name, kind in KINDS.items() if not isinstance(about.get(name), kind)]:
        raise _damaged(path, f"look at {', '.join(wrong)}")
    try:
        found = _evidence(about["evidence"])
        thresholds = Thresholds(**about["thresholds"])
    except (TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, str(error)) from None
    facts, tensors = _pictures(folder / PICTURES, about["pictures"])
    return Audited(folder, about, found, thresholds, facts, tensors)


# What audit.json holds.
KINDS: dict[str, Any] = {
    **dict.fromkeys(("verdict", "text", "device", "command", "pictures"), str),
    **dict.fromkeys(("evidence", "thresholds", "data", "network", "settings", "with"), dict),
    **dict.fromkeys(("classes", "trained"), list),
    "flagged": int,
    "seconds": float,
    "truth": dict | None,
}


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} is damaged, or of another version of unspur ({why}). Give the command of the audit again: "
        "what is stored is not trained twice."
    )


def _evidence(told: Mapping[str, Any]) -> Evidence:
    """Evidence from JSON."""
    networks = {name: _network(seen) for name, seen in told["networks"].items()}
    plain = {k: v for k, v in told.items() if k not in ("networks", "insistence")}
    return Evidence(**plain, networks=networks)


def _network(told: Mapping[str, Any]) -> Seen:
    shown = {name: Shown(**told[name]) for name in ("gain", "separation", "reliance") if told[name]}
    return Seen(
        gain=shown["gain"],
        separation=shown.get("separation"),
        reliance=shown.get("reliance"),
        before=told["before"],
        right=told["right"],
    )


def _pictures(path: Path, checksum: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.exists():
        return {}, {}
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise _damaged(path, f"its checksum differs from the one in {RECORD}")
    with safetensors.safe_open(path, framework="pt") as file:
        facts: dict[str, Any] = json.loads(file.metadata()["facts"])
    return facts, read_tensors(path)

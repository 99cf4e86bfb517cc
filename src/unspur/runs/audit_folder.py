"""Write and read the folder of an audit.

audit.json             verdict, evidence, thresholds, classes, settings, times, versions
suspects.csv           every training sample with its score and flag; can be corrected and passed to debias
pictures.safetensors   the pictures of the report, with their captions
manifest.json          the checksum of every file above; written last
report.html            the report
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from ..audit import audit_networks
from ..audit.border_evidence import BorderEvidence
from ..audit.evidence import Evidence, NetworkEvidence
from ..audit.far_labels import FarLabels
from ..audit.result import Audit
from ..audit.statistics import Statistic
from ..audit.thresholds import Thresholds
from ..audit.verdict import revealing_views
from ..audit.view_pictures import pictures_through
from ..errors import StoreError
from ..stages.context import Context
from ..stages.results import Pictures
from ..stages.thumbnails import gallery
from ..store import (
    check_finite,
    check_folder,
    damage,
    environment,
    make_folder,
    mark_unfinished,
    parse_json,
    read_json,
    read_tensors,
    seal_folder,
    write_bytes,
    write_tensors,
)
from ..training.metrics import mining_quality
from .result_folder import remove_earlier
from .run_folder import EDITABLE, REPORT, is_remote
from .suspects_csv import CSV as CSV
from .suspects_csv import write_suspects

RECORD, PICTURES = "audit.json", "pictures.safetensors"
AUDIT_FILES = (RECORD, PICTURES)
FEWEST_RIGHT = 3  # show only suspects that the network of a view gets right, if there are so many


def save(audit: Audit, context: Context, out: Path, *, command: str = "", source: str = "") -> None:
    """Write the folder of an audit: audit.json, suspects.csv for debias, and pictures for the report.

    `command` is the command line and `source` the data as named on it; the report uses them to suggest the
    next command.
    """
    check_finite("the audit", {"score": audit.suspects.score}, audit.as_json())
    make_folder(out)
    mark_unfinished(out, "audit")
    remove_earlier(out, (REPORT,))
    write_suspects(out / CSV, context.splits.train, context.splits.classes, audit.suspects)
    pictures = pictures_of(audit, context)
    notes = {"facts": json.dumps(pictures.facts())}
    checksum = write_tensors(out / PICTURES, pictures.tensors(), notes)
    about = {
        **audit.as_json(),
        "truth": _truth(audit, context),
        "classes": _classes(audit, context),
        "data": {
            "name": context.splits.name,
            "digest": context.splits.train.digest,
            "source": source,
            **_relative_source(out, source),
        },
        "network": dict(context.builder.how),
        "settings": context.recipe.model_dump(mode="json", include=SETTINGS),
        "device": context.device.type,
        "command": command,
        "trained": [asdict(each) for each in audit.trainings],
        "with": environment(),
        "pictures": checksum,
    }
    write_bytes(out / RECORD, (json.dumps(about, indent=1) + "\n").encode())
    seal_folder(out, "audit", AUDIT_FILES, editable=EDITABLE)


SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("seed", "model", "mine", "pretrain", "precision", "deterministic"), True),
    "data": {"augment", "mean", "std"},
    "finetune": {"share", "cap"},  # how often the network that learns from suspects sees them
}


def _relative_source(out: Path, source: str) -> dict[str, str]:
    """Return the path of the user's images relative to the folder, as `where`; empty if there is none."""
    if not source or is_remote(source):
        return {}
    return {"where": os.path.relpath(source, out)}


def _truth(audit: Audit, context: Context) -> dict[str, Any] | None:
    """Return precision and recall of the flags; None without bias labels."""
    conflicting = context.splits.conflicting("train")
    if conflicting is None:
        return None
    count = int(conflicting.sum())
    return {"contradicting": count, **mining_quality(audit.suspects.conflict, conflicting)}


def _classes(audit: Audit, context: Context) -> list[dict[str, Any]]:
    """Count the suspects of each class, and return which class the miner predicts most often for them."""
    targets, names = context.splits.train.targets, context.splits.classes
    rows = []
    for label, name in enumerate(names):
        members = targets == label
        predicted = audit.suspects.predicted[members & audit.mistakes]
        counts = torch.bincount(predicted, minlength=len(names))
        rows.append(
            {
                "name": name,
                "samples": int(members.sum()),
                "suspects": int(counts.sum()),
                "flagged": int((members & audit.suspects.conflict).sum()),
                "taken_for": names[int(counts.argmax())] if bool(counts.any()) else None,
                "taken": int(counts.max()),
            }
        )
    return rows


def pictures_of(audit: Audit, context: Context) -> Pictures:
    """Return the pictures of the report: a gallery, and suspects in the views that show the shortcut."""

    def predictions(index: Tensor) -> dict[str, list[int]]:
        return {name: p.predicted[index].tolist() for name, p in audit.predictions.items()}

    marks = {"insisted": audit.insisted, "mistaken": audit.mistakes}
    views, splits = Pictures(), context.splits
    for view in revealing_views(audit.evidence):
        among = _examples(audit, context, view)
        views |= pictures_through(context, view, audit.suspects, among, predictions)
    names = {"classes": list(splits.classes), "bias_classes": list(splits.bias_classes)}
    pictures = Pictures({}, names) | gallery(context, audit.suspects, predictions, marks)
    return pictures | Pictures(views.images, {"views": views.notes})


def _examples(audit: Audit, context: Context, view: str) -> Tensor:
    """Select what the network of a view gets right, or the confident errors if that has few suspects."""
    right = audit.predictions[view].predicted == context.splits.train.targets
    enough = int((right & audit.suspects.conflict).sum()) >= FEWEST_RIGHT
    return right if enough else audit.insisted


# -- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SavedAudit:
    """An audit as read from its folder; without pictures, `facts` and `tensors` are empty."""

    folder: Path
    about: dict[str, Any]
    evidence: Evidence
    thresholds: Thresholds
    facts: dict[str, Any]
    tensors: dict[str, Tensor]


def read(folder: Path) -> SavedAudit:
    """Read the folder of an audit. The pictures may be missing; all other files must be undamaged."""
    path = folder / RECORD
    check_folder(folder, RECORD, optional=(PICTURES,))
    about = read_json(path)
    if wrong := [name for name, kind in KINDS.items() if not isinstance(about.get(name), kind)]:
        raise _damaged(path, f"wrong entries: {', '.join(wrong)}")
    try:
        evidence = read_evidence(about["evidence"])
        thresholds = Thresholds.from_record(about["thresholds"])
    except (TypeError, KeyError, AttributeError) as error:
        raise _damaged(path, str(error)) from None
    facts, tensors = _pictures(folder / PICTURES, about["pictures"])
    return SavedAudit(folder, about, evidence, thresholds, facts, tensors)


# The entries of audit.json and their types.
KINDS: dict[str, Any] = {
    **dict.fromkeys(("verdict", "text", "device", "command", "pictures"), str),
    **dict.fromkeys(("evidence", "thresholds", "data", "network", "settings", "with"), dict),
    **dict.fromkeys(("classes", "trained"), list),
    "flagged": int,
    "seconds": float,
    "truth": dict | None,
}


def _damaged(path: Path, why: str) -> StoreError:
    return damage(path, f"or of another version of unspur: {why}", "audit")


def read_evidence(table: Mapping[str, Any]) -> Evidence:
    """Read the evidence of an audit from JSON."""
    networks = {
        audit_networks.find(name).name: _network(each) for name, each in table["networks"].items()
    }
    apart = ("networks", "insistence", "border", "far_labels")
    plain = {k: v for k, v in table.items() if k not in apart}
    far = FarLabels(**table["far_labels"]) if table.get("far_labels") else None
    border = _border(table.get("border"))
    return Evidence(**plain, networks=networks, border=border, far_labels=far)


def _border(table: Mapping[str, Any] | None) -> BorderEvidence | None:
    """Read the evidence of image borders; audits of earlier versions have none."""
    if not table:
        return None
    separation = Statistic(**table["separation"]) if table["separation"] else None
    return BorderEvidence(**{**table, "separation": separation})


def _network(table: Mapping[str, Any]) -> NetworkEvidence:
    names = ("gain", "separation", "reliance")
    statistics = {name: Statistic(**table[name]) for name in names if table[name]}
    return NetworkEvidence(
        gain=statistics["gain"],
        separation=statistics.get("separation"),
        reliance=statistics.get("reliance"),
        before=table["before"],
        right=table["right"],
    )


def _pictures(path: Path, checksum: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.exists():
        return {}, {}
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise _damaged(path, f"its checksum differs from the one in {RECORD}")
    with safetensors.safe_open(path, framework="pt") as file:
        facts: dict[str, Any] = parse_json((file.metadata() or {}).get("facts", ""), path)
    return facts, read_tensors(path)

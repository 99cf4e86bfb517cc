"""Check data, and a model if there is one, against a baseline; unchanged inputs are not measured again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from .. import workflow
from ..audit.result import Audit
from ..data.custom import hub
from ..data.custom.assembly import UserImages
from ..data.custom.labelled import open_labelled
from ..data.custom.sources import USUAL_GROUPS, GroupSource, list_source
from ..data.decoding.files import in_threads
from ..data.splits import Splits
from ..errors import DataError, UsageError
from ..runs.evaluation import Evaluation, score_models
from ..runs.named_models import open_model
from ..stages.place import Place
from ..store.atomic import file_checksum
from .alarms import CheckOutcome, compare_with_baseline, plain
from .baseline import (
    Baseline,
    CheckedData,
    CheckedModel,
    CheckSettings,
    CountedGroup,
    read_baseline,
    write_baseline,
)

CONFLICTING = "images that contradict the shortcut"
MODEL = "model"  # its name among the scored models


@dataclass(frozen=True)
class CheckInput:
    """The inputs of a check: the data, the settings of the audit, and the run of the model to score."""

    source: str
    settings: CheckSettings
    run: Path | None = None
    groups: GroupSource = USUAL_GROUPS
    trust: bool = False
    network: str | None = None


@dataclass(frozen=True)
class CheckResult:
    """The outcome of a check; `is_new` if the baseline was written, `is_idle` if nothing had changed."""

    outcome: CheckOutcome
    is_new: bool = False
    is_idle: bool = False


def check(inputs: CheckInput, baseline: Path, place: Place, *, update: bool = False) -> CheckResult:
    """Compare data with a baseline; write the baseline if there is none, or if `update` is set."""
    before = None if update else read_baseline(baseline)
    if before is None:
        now = measure(inputs, None, place)
        write_baseline(baseline, now)
        return CheckResult(CheckOutcome((), (), tuple(_first_notes(now))), is_new=True)
    if before.settings != inputs.settings:
        raise UsageError(
            f"{baseline} was made with {_settings_text(before.settings)}, but this check has "
            f"{_settings_text(inputs.settings)}. Use the same settings, or write a new baseline "
            "with --update."
        )
    now = measure(inputs, before, place)
    outcome = compare_with_baseline(before, now)
    return CheckResult(
        outcome, is_idle=now.data == before.data and now.model in (None, before.model)
    )


def _settings_text(settings: CheckSettings) -> str:
    """Return the settings as options; 0 stands for the default, which is chosen from the images."""
    chosen = {"steps": settings.steps, "size": settings.size}
    options = [
        f"--{name} {value}" if value else f"the default --{name}" for name, value in chosen.items()
    ]
    return ", ".join([f"--seed {settings.seed}", *options])


def _first_notes(now: Baseline) -> list[str]:
    if now.data.verdict != "shortcut":
        return []
    return [f"Note that the data of the baseline may have a shortcut. {plain(now.data.text)}."]


def measure(inputs: CheckInput, before: Baseline | None, place: Place) -> Baseline:
    """Audit the data and score the model; numbers of unchanged inputs are taken from the baseline."""
    digest = data_digest(inputs.source, inputs.groups)
    if before is not None and before.data.digest == digest:
        data = before.data
    else:
        data = _audit(inputs, digest, place)
    model = None
    if inputs.run is not None:
        known = before.model if before is not None else None
        model = _score(inputs, inputs.run, digest, known, place)
    return Baseline(settings=inputs.settings, data=data, model=model)


def data_digest(source: str, groups: GroupSource) -> str:
    """Hash the files of a data set with their labels, splits and groups; no image is decoded."""
    sha = hashlib.sha256()
    if source.startswith(hub.PREFIX):
        splits = UserImages(source).open(workflow.AUDIT_PIXELS)
        sha.update(f"{splits.digest} {splits.truth_digest}".encode())
        return sha.hexdigest()
    listing = list_source(Path(source), groups)
    rows = sorted(listing.rows, key=lambda row: str(row.path))
    for row, checksum in zip(rows, in_threads(_checksum, [r.path for r in rows]), strict=True):
        name = str(
            row.path.relative_to(listing.root)
            if row.path.is_relative_to(listing.root)
            else row.path
        )
        sha.update(repr((name, row.label, row.part, row.group, checksum)).encode())
    return sha.hexdigest()


def _checksum(path: Path) -> str:
    try:
        return file_checksum(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}). Check its permissions, or remove it."
        ) from None


# -- the data -----------------------------------------------------------------------------------------


def _audit(inputs: CheckInput, digest: str, place: Place) -> CheckedData:
    settings = inputs.settings
    context = workflow.open_audit(
        UserImages(inputs.source),
        place,
        model="convnet",
        size=settings.size,
        seed=settings.seed,
        steps=settings.steps,
    )
    found, _ = workflow.carry_out_audit(context)
    return summarise(found, context.splits, digest)


def summarise(found: Audit, splits: Splits, digest: str) -> CheckedData:
    """Return the part of an audit that a check stores."""
    targets, flagged = splits.train.targets, found.suspects.conflict
    classes = [
        CountedGroup(
            name=name,
            images=int((targets == label).sum()),
            counted=int((flagged & (targets == label)).sum()),
        )
        for label, name in enumerate(splits.classes)
    ]
    return CheckedData(
        digest=digest,
        images=len(splits.train),
        verdict=found.finding.code,
        text=found.finding.full_text.rstrip("."),
        classes=classes,
    )


# -- the model ----------------------------------------------------------------------------------------


def _score(
    inputs: CheckInput, run: Path, digest: str, known: CheckedModel | None, place: Place
) -> CheckedModel:
    """Score the model of a run, unless the model and the data are the same as in the baseline."""
    combined = hashlib.sha256(f"{_model_digest(run)} {digest} {inputs.groups}".encode()).hexdigest()
    if known is not None and known.digest == combined:
        return known
    model = open_model(run, inputs.network, trust=inputs.trust)
    size = (model.shape[1], model.shape[2])
    images = open_labelled(
        inputs.source, size=size, classes=model.classes, crop=model.crop, groups=inputs.groups
    )
    found = score_models({MODEL: model}, images, place.device)
    conflict, groups = images.conflict, count_right(found, MODEL)
    if conflict is not None and bool(conflict.any()):
        right = found.predicted[MODEL] == images.matched(model.classes).part.targets
        groups.insert(0, _counted(CONFLICTING, right[conflict]))
    return CheckedModel(digest=combined, groups=groups)


def count_right(found: Evaluation, model: str) -> list[CountedGroup]:
    """Count the correctly classified images of each group, or of each class if groups are unknown."""
    kind = "group" if any(row.kind == "group" for row in found.rows) else "class"
    return [
        CountedGroup(
            name=row.name,
            images=row.images,
            counted=round(row.accuracy[model].value * row.images) if row.images else 0,
        )
        for row in found.rows
        if row.kind == kind
    ]


def _counted(name: str, right: torch.Tensor) -> CountedGroup:
    return CountedGroup(name=name, images=len(right), counted=int(right.sum()))


def _model_digest(run: Path) -> str:
    """Hash the weights of a run's model."""
    path = run / "model.safetensors"
    if not path.is_file():
        raise UsageError(
            f"{run} is not the folder of a run: it has no {path.name}. Give the folder of a run with --run."
        )
    return file_checksum(path)


def exit_code(result: CheckResult) -> int:
    """Return 1 if there is an alarm, otherwise 0."""
    return 1 if result.outcome.alarms else 0

"""The front door for Python: audit data, debias a model, load one back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from . import models, recipes, runs, stages
from .audit import auditor, preparation
from .audit.result import Audit
from .data import custom
from .data.custom.dataset import collect
from .data.decoding.files import Files
from .data.splits import Split, Splits
from .delivery import deliver
from .errors import DataError, RecipeError
from .recipes.loading import Recipe
from .report import page, terminal
from .runs import audit_folder
from .runs.suspects_csv import read_suspects
from .stages.context import Context, Made, Show
from .stages.corrections import sample_names
from .stages.mining import Suspects
from .store import Artifact, Store

Images = Dataset[Any] | Split | Files


@dataclass(frozen=True)
class Debiased:
    """What debiasing returns."""

    model: nn.Module
    suspects: Suspects | None  # None where the plan mines nothing
    scores: dict[str, Any]
    masks: dict[str, Tensor]
    out: Path | None


def debias(
    model: nn.Module,
    train: Images | Splits | Path | str,
    valid: Images | None = None,
    *,
    test: Images | None = None,
    bias: Mapping[str, Tensor] | None = None,
    classes: tuple[str, ...] | None = None,
    settings: Recipe | Mapping[str, Any] | None = None,
    seed: int | None = None,
    device: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    suspects: Path | str | None = None,
    show: Show | bool = False,
) -> Debiased:
    """Find the samples that contradict the model's shortcut, cut the weights that carry it, retrain the rest.

    `train` is a dataset or a Split, or a whole set: Splits, an image folder, a table of paths and labels.
    The model is not changed; its weights are the starting point. `bias` (labels of the shortcut by split) is
    read by the scores alone. `settings` are a Recipe or dotted changes, as {"pretrain.steps": 2000}. With
    `out`, a run's folder is written; stages are kept in `store` (UNSPUR_STORE or runs/store) and reused.
    Without either nothing is kept. `suspects` is the suspects.csv of a run, corrected by you. `show=True`
    shows progress.
    """
    if isinstance(train, Splits | Path | str):
        splits = _whole(train, valid, test, bias, classes)
    else:
        splits = _splits(train, valid, test, bias, classes)
    with _store(store, keep=out is not None) as kept:
        context = Context(
            recipe=_settings(settings, seed),
            splits=splits,
            builder=models.given(model),
            store=kept,
            device=pick_device(device),
            show=_shown(show),
            corrections=read_suspects(suspects, sample_names(splits.train)) if suspects else None,
        )
        made, scores = stages.run(context)
        if out is not None:
            deliver(context, made, scores, Path(out))
        return _result(context, made, scores, out)


def audit(
    train: Images | Splits | Path | str,
    *,
    model: nn.Module | None = None,
    classes: tuple[str, ...] | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    show: Show | bool = False,
) -> Audit:
    """Is there a shortcut in these training images, and which of them contradict it?

    `train` is as for `debias`. The error rates of the verdict are those of the built-in small network; a
    `model` of yours has others. `settings` are dotted changes, as {"mine.steps": 2000}: `mine` for the
    network that follows what is easy, `pretrain` for all others. With `out`, audit.json, suspects.csv and
    report.html are written; trainings are kept as by `debias`.
    """
    whole = isinstance(train, Splits | Path | str)
    splits = (
        _whole(train, classes) if whole else _splits(train, None, None, None, classes)  # type: ignore[arg-type]
    )
    base = preparation.settings(len(splits.train), name=splits.name, seed=seed)
    changes = [f"{key}={recipes.as_toml(value)}" for key, value in (settings or {}).items()]
    chosen = recipes.change(base, changes)
    own_network = models.builder(chosen.model.name, len(splits.classes), chosen.model.options)
    with _store(store, keep=out is not None) as kept:
        context = Context(
            recipe=chosen,
            splits=splits,
            builder=own_network if model is None else models.given(model),
            store=kept,
            device=pick_device(device),
            show=_shown(show),
        )
        found = auditor.audit(context)
        if out is not None:
            audit_folder.save(found, context, Path(out))
            page.attempt(Path(out))
        return found


def default_store() -> Path:
    """Where stages are kept unless said otherwise."""
    return Path(os.environ.get("UNSPUR_STORE", "runs/store"))


def pick_device(name: str | None = None) -> torch.device:
    """The device asked for, or a GPU if there is one."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise RecipeError(
            f"the device {name!r} cannot be used here ({reason}). Choose cpu, cuda, cuda:1 ..."
        ) from None
    return device


def _result(context: Context, made: Made, scores: Artifact, out: Path | str | None) -> Debiased:
    weights, keep = runs.outcome(made)
    return Debiased(
        model=context.outcome(weights).eval(),
        suspects=Suspects.of(made["mine"].tensors, "train") if "mine" in made else None,
        scores=scores.facts,
        masks=keep,
        out=Path(out) if out is not None else None,
    )


def _settings(settings: Recipe | Mapping[str, Any] | None, seed: int | None) -> Recipe:
    base = settings if isinstance(settings, Recipe) else Recipe()
    changes = [] if isinstance(settings, Recipe) else list((settings or {}).items())
    if seed is not None:
        changes.append(("seed", seed))
    return recipes.change(base, [f"{key}={recipes.as_toml(value)}" for key, value in changes])


def _whole(train: Splits | Path | str, *rest: object) -> Splits:
    """A set that comes with all its splits."""
    if any(part is not None for part in rest):
        raise DataError(
            "a whole set has its own valid, test, bias and classes. Leave them out, or give a split."
        )
    return train if isinstance(train, Splits) else custom.load(train)


def _splits(
    train: Images,
    valid: Images | None,
    test: Images | None,
    bias: Mapping[str, Tensor] | None,
    classes: tuple[str, ...] | None,
) -> Splits:
    given = {"train": train, "valid": valid, "test": test}
    parts = {
        name: part if isinstance(part, Split | Files) else collect(part, name=name)
        for name, part in given.items()
        if part is not None
    }
    for name, part in parts.items():
        if len(part) == 0:
            raise DataError(f"the {name} split is empty.")
    if classes is None:
        count = 1 + max(int(part.targets.max()) for part in parts.values())
        classes = tuple(str(c) for c in range(count))
    return Splits(**parts, classes=classes, bias=bias or {})  # type: ignore[arg-type]


@contextmanager
def _store(store: Path | str | None, *, keep: bool) -> Iterator[Store]:
    if store is not None or keep:
        yield Store(Path(store) if store is not None else default_store())
        return
    with tempfile.TemporaryDirectory(prefix="unspur-") as folder:
        yield Store(Path(folder))


def _shown(show: Show | bool) -> Show:
    """How training is shown: as a user wants it, as on the command line, or not at all."""
    return show if callable(show) else terminal.show(quiet=not show)

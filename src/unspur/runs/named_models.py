"""Open the models of a run's folder: the debiased one and the ordinary one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from .. import models
from ..errors import StoreError
from ..store import read_json
from .classifier import Classifier, load
from .run_folder import DEBIASED, ORDINARY


def open_model(
    folder: Path | str, model: nn.Module | str | None = None, *, trust: bool = False
) -> Classifier:
    """Load the model of a run.

    `model` is its network, if the folder does not say how to build it: a module, or a name such as
    `file.py:builder`. `trust` is as for `unspur.load`.
    """
    return load(folder, build_network(Path(folder), model), trust=trust)


def open_models(
    folder: Path | str, model: nn.Module | str | None = None, *, trust: bool = False
) -> dict[str, Classifier]:
    """Return the models of a run as "ordinary" and "debiased", as far as its folder has them.

    If the run found no shortcut, its only model is the ordinary one; so it is in the folder `ordinary`.
    """
    folder = Path(folder)
    path = folder / "scores.json"
    name = ORDINARY if path.is_file() and returns_ordinary(read_json(path)) else DEBIASED
    folders = {name: folder}
    for other in {ORDINARY, DEBIASED} - {name}:
        if (folder / other / "model.json").is_file():
            folders[other] = folder / other
    return {
        each: open_model(folders[each], model, trust=trust)
        for each in (ORDINARY, DEBIASED)
        if each in folders
    }


def returns_ordinary(scores: Mapping[str, Any]) -> bool:
    """Return whether the model of a run is the ordinary one.

    It is if there is no shortcut, if debiasing cost too much, or if the plan has only the ordinary model.
    """
    judge, check = scores.get("judge"), scores.get("gain_check")
    found_none = isinstance(judge, dict) and judge.get("debias") is False
    too_much = isinstance(check, dict) and check.get("keep") is False
    return found_none or too_much or is_only_ordinary(scores)


def is_only_ordinary(scores: Mapping[str, Any]) -> bool:
    """Return whether the scores are those of one model, not of two whose scores happen to be equal."""
    ordinary = scores.get("ordinary")
    if not ordinary or ordinary != scores.get("debiased") or scores.get("pruned"):
        return False
    chosen = scores.get("selection")
    return not (isinstance(chosen, dict) and "step" in chosen) and "refit" not in scores


def build_network(folder: Path, model: nn.Module | str | None) -> nn.Module | None:
    """Return a network for the weights of a folder; None if the folder says how to build it."""
    if model is None:
        return None
    if isinstance(model, nn.Module):
        return model  # loading copies it
    classes = read_json(folder / "model.json").get("classes")
    if not isinstance(classes, list):
        raise StoreError(f"{folder / 'model.json'} is damaged (no classes).")
    return models.builder(model, len(classes)).make()

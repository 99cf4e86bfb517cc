"""Open the models of a run's folder: the debiased one and the ordinary one."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from .. import models
from ..errors import StoreError
from ..store import read_json
from .classifier import Classifier, load

ORDINARY = "ordinary"  # the folder of the ordinary model within the folder of a run


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

    If the run found no shortcut, its only model is the ordinary one.
    """
    folder = Path(folder)
    name = ORDINARY if _is_ordinary(folder) else "debiased"
    found = {name: open_model(folder, model, trust=trust)}
    if (folder / ORDINARY / "model.json").is_file():
        found = {"ordinary": open_model(folder / ORDINARY, model, trust=trust)} | found
    return found


def _is_ordinary(folder: Path) -> bool:
    """Return whether the judge advised against debiasing, so that a run returned the ordinary model."""
    path = folder / "scores.json"
    judge = read_json(path).get("judge") if path.is_file() else None
    return isinstance(judge, dict) and judge.get("debias") is False


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

"""The one front door: data and settings in, a plan with its keys, run, save, report.

The functions of `api`, every command, `bench` and the audit go through here, so that the same verb gives the
same result from Python and from the shell:

    open_debias(images, ...)      ──> Run        settings from the number of images; the judge is asked first
    open_recipe(recipe, ...)      ──> Run        a recipe as it is written
    carry_out(run, out)           ──> Outcome    ask the judge, run the plan, save the folder, write the page
    open_audit(images, ...)       ──> Context    an audit and nothing else
    carry_out_audit(context, out) ──> Audit      train its networks, save its folder, write the page
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from . import data, models, recipes, runs, stages
from .audit import auditor, preparation
from .audit.recommendation import Judge
from .audit.result import Audit
from .data import Splits
from .data.custom.assembly import UserImages
from .data.splits import shrink
from .errors import DataError, ModelError, RecipeError
from .recipes import Recipe, budget
from .report import page
from .runs import audit_folder
from .runs.suspects_csv import read_suspects
from .stages.context import Advice, Context
from .stages.corrections import sample_names
from .stages.inspection import inspect
from .stages.place import Place
from .stages.results import Results
from .store import Artifact

AUDIT_PIXELS = 64  # largest side of an image in an audit; its small networks see no more


@dataclass(frozen=True)
class Outcome:
    """The results of a run, its scores, the judge's advice, and the page if there is one."""

    context: Context
    results: Results
    scores: Artifact
    advice: Advice | None = None
    page: Path | None = None

    @property
    def numbers(self) -> dict[str, Any]:
        """The scores, with the judge's advice where it was asked."""
        return runs.with_advice(self.scores.facts, self.advice)


def open_debias(
    images: UserImages,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    init: str = "",
    pretrained: bool = False,
    size: int = 0,
    settings: Recipe | Mapping[str, Any] | None = None,
    suspects: Path | str | None = None,
    anyway: bool = False,
) -> stages.Run:
    """Prepare the debiasing of a user's images.

    `settings` are changes of what the number of images and the device suggest, or a whole recipe. With
    `pretrained`, images in files become squares of the size the published weights expect, or of `size`.
    """
    size = size or (settings.data.size if isinstance(settings, Recipe) else 0)
    known = settings.model.name if isinstance(settings, Recipe) else budget.NETWORK
    start = models.StartingPoint(known if model is None else model, init, pretrained)
    pixels = size or start.pixels or budget.of(place.device).pixels
    splits = images.open(pixels, square=start.published is not None)
    recipe = _debias_recipe(settings, splits, place, start)
    if anyway or suspects is not None or "mine" not in recipe.stages:
        recipe = recipe.model_copy(update={"judge": False})
    context = open_context(recipe, splits, place, model=model, suspects=suspects)
    judged = splits
    if recipe.judge and images.in_files and (size or _is_larger(splits, audit_pixels(place))):
        judged = _open_for_judge(images, place)
    return stages.Run(add_judge(context, judged, place))


def _is_larger(splits: Splits, pixels: int) -> bool:
    return max(splits.train.shape[1:]) > pixels


def _open_for_judge(images: UserImages, place: Place) -> Splits:
    """Open files again at the audit's size; what is wrong with them was said the first time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return images.open(audit_pixels(place))


def _debias_recipe(
    settings: Recipe | Mapping[str, Any] | None,
    splits: Splits,
    place: Place,
    start: models.StartingPoint,
) -> Recipe:
    """Return the user's recipe with the network asked for, or one by the number of images, with changes."""
    if isinstance(settings, Recipe):
        return budget.with_network(settings, start.name, start.init, start.pretrained)
    recipe = budget.settings(
        len(splits.train),
        place.device,
        name=splits.name,
        model=start.name or budget.NETWORK,
        init=start.init,
        pretrained=start.pretrained,
        **start.normalisation,
    )
    return recipes.change(recipe, settings or {})


def add_judge(context: Context, splits: Splits, place: Place) -> Context:
    """Add a judge to the context if its recipe asks for one: an audit of these images.

    Warns and adds none where the images cannot be audited, for example because there are too few.
    """
    recipe = context.recipe
    if not recipe.judge or "pretrain" not in recipe.stages:  # no ordinary model to return
        return context
    audit = audit_context(shrink(splits, audit_pixels(place)), place, seed=recipe.seed)
    try:
        preparation.check(audit)
    except DataError as error:
        warnings.warn(f"the judge was not asked whether there is a shortcut: {error}", stacklevel=3)
        return context
    return replace(context, judge=Judge(audit))


def open_recipe(
    recipe: Recipe,
    place: Place,
    *,
    root: Path | None = None,
    load: Callable[..., Splits] = data.load,
) -> stages.Run:
    """Prepare a recipe that names its data; `load` finds the data."""
    wanted = recipe.data
    if wanted.name == "given":
        raise RecipeError(
            f"{recipe.name}: data.name is not set. Choose one of {', '.join(data.dataset_names())}."
        )
    splits = load(wanted.name, root=root, ratio=wanted.ratio, seed=wanted.seed, size=wanted.size)
    context = open_context(recipe, splits, place)
    return stages.Run(add_judge(context, splits, place))


def open_context(
    recipe: Recipe,
    splits: Splits,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    suspects: Path | str | None = None,
) -> Context:
    """Return what the stages of a run share; `suspects` is a suspects.csv that a person has corrected."""
    corrections = read_suspects(suspects, sample_names(splits.train)) if suspects else None
    return Context(
        recipe=recipe,
        splits=splits,
        builder=_builder(recipe, splits, model),
        store=place.store,
        device=place.device,
        show=place.show,
        corrections=corrections,
    )


def _builder(recipe: Recipe, splits: Splits, model: nn.Module | str | None) -> models.Builder:
    """Return the builder of the network: copies of a module, or what the recipe names."""
    wanted, pretrained = recipe.model, recipe.start.pretrained
    if model is not None and not isinstance(model, str):
        if wanted.init:
            raise ModelError(
                f"init = {wanted.init!r} is for a network by name, and the model is a module. Load the "
                "weights into it, and leave init out."
            )
        return models.copies_of(model)
    return models.builder(
        wanted.name,
        len(splits.classes),
        wanted.options,
        init=wanted.init,
        pretrained=pretrained,
    )


def carry_out(run: stages.Run, out: Path | None = None, *, command: str = "") -> Outcome:
    """Ask the judge if there is one, run the plan, and with `out` save the run and its page."""
    ((results, scores),) = stages.run_together([run])
    outcome = Outcome(run.context, results, scores, run.advice)
    return outcome if out is None else save_outcome(outcome, out, command=command)


def save_outcome(outcome: Outcome, out: Path, *, command: str = "") -> Outcome:
    """Write the folder of a run and its page; `command` is what the run was started with."""
    context, results, scores = outcome.context, outcome.results, outcome.scores
    runs.save(context, results, scores, out, numbers=outcome.numbers)
    _save_skipped(context.splits, out)
    # The model is safe by now: no trouble with pictures may cost it.
    inspected = _inspected(context, results)
    runs.save_record(context, results, scores, out, inspected=inspected, command=command)
    with context.show("report"):
        return replace(outcome, page=page.attempt(out, context.store.root))


def _inspected(context: Context, results: Results) -> Artifact | None:
    """Return the pictures for the report; a network that cannot be looked into is still a result."""
    try:
        with context.show("inspect"):
            return inspect(context, results)
    except (RuntimeError, ModelError) as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(f"the report has no pictures of this network: {reason}.", stacklevel=4)
        return None


def _save_skipped(splits: Splits, folder: Path) -> None:
    """List the images that could not be read."""
    path = folder / "skipped.csv"
    if not splits.skipped:
        path.unlink(missing_ok=True)  # of an earlier run
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "reason"), *splits.skipped.items()])


# -- the audit ----------------------------------------------------------------------------------------


def open_audit(
    images: UserImages,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    size: int = 0,
    seed: int = 0,
    steps: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Context:
    """Prepare an audit of a user's images; raises if they cannot be audited."""
    limit = size or audit_pixels(place)
    splits = shrink(images.open(limit), limit)
    context = audit_context(splits, place, model=model, seed=seed, steps=steps, changes=changes)
    preparation.check(context)
    return context


def audit_pixels(place: Place) -> int:
    """Return the largest side of an image in an audit."""
    return min(AUDIT_PIXELS, budget.of(place.device).pixels)


def audit_context(
    splits: Splits,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    seed: int = 0,
    steps: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Context:
    """Return the context of an audit: short trainings of the built-in small network, or of `model`."""
    name = model if isinstance(model, str) else preparation.NETWORK
    recipe = preparation.settings(
        len(splits.train), name=splits.name, model=name, seed=seed, steps=steps
    )
    recipe = recipes.change(recipe, changes or {})
    return open_context(recipe, splits, place, model=model)


def carry_out_audit(
    context: Context, out: Path | None = None, *, command: str = "", source: str = ""
) -> tuple[Audit, Path | None]:
    """Audit the training split, and with `out` save the audit's folder and page."""
    found = auditor.audit(context)
    if out is None:
        return found, None
    audit_folder.save(found, context, out, command=command, source=source)
    _save_skipped(context.splits, out)
    return found, page.attempt(out)

"""Debias a user's images or run a recipe: prepare the run, carry it out, write its folder and its report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from .. import data, masks, models, recipes, runs, stages
from ..audit import crossfit_miner, preparation
from ..audit.recommendation import Judge
from ..data import Splits
from ..data.custom.assembly import UserImages
from ..data.image_sizes import in_colour
from ..data.splits import open_splits
from ..deploy.before_after import BeforeAfter, compare
from ..errors import DataError, MaskError, ModelError, RecipeError, StoreError
from ..parallel import alone, is_first
from ..recipes import Recipe, budget, own_methods
from ..report import page
from ..runs.person_changes import person_changes
from ..runs.result_folder import save_skipped, write_together
from ..runs.run_folder import save_rejected
from ..stages.context import Context
from ..stages.corrections import relabel
from ..stages.inspection import inspect
from ..stages.log_hook import log_scores
from ..stages.new_weights import warn_of_new_weights
from ..stages.place import Place
from ..stages.results import Results
from ..store import Artifact
from .announcing import expect_relative_costs
from .contexts import audit_context, audit_pixels, open_context, open_corrections, shrink_once
from .outcome import Outcome


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
    method: str = own_methods.DEFAULT,
    anyway: bool = False,
) -> stages.Run:
    """Prepare the debiasing of a user's images.

    `settings` are changes of the defaults for the number of images, the device and the method, or a complete
    recipe. Images in files are resized to squares of the size that the published weights or the network
    itself expect, if that is known, or of `size`.
    """
    size = size or (settings.data.size if isinstance(settings, Recipe) else 0)
    known = settings.model.name if isinstance(settings, Recipe) else budget.NETWORK
    start = models.StartingPoint(known if model is None else model, init, pretrained, model is None)
    pixels = size or start.pixels or budget.bounds_for(place.device).pixels
    opened = images.open(pixels, square=start.pixels > 0)
    if not isinstance(model, nn.Module):  # networks that are named take images in colour
        opened = in_colour(opened)
    corrections = open_corrections(suspects, opened)
    splits = relabel(opened, corrections)
    recipe = _debias_recipe(settings, splits, place, start, method)
    if anyway or suspects is not None or "mine" not in recipe.stages:
        recipe = recipe.model_copy(update={"judge": False})
    context = open_context(recipe, splits, place, model=model, corrections=corrections)
    if not isinstance(settings, Recipe) and "prune.unit" not in (settings or {}):
        context = _with_masks_that_fit(context)
    judged, audited = splits, recipe.judge or crossfit_miner.is_used(recipe)
    if audited and images.in_files and (size or _is_larger(splits, audit_pixels(place))):
        judged = relabel(_open_for_judge(images, place), corrections)
    run = stages.Run(add_audit(context, judged, place))
    if isinstance(model, nn.Module):
        warn_of_new_weights(run)
    return run


def _with_masks_that_fit(context: Context) -> Context:
    """Mask single weights, with a warning, if whole channels of the network cannot be removed."""
    if context.recipe.prune.unit == "weight" or "prune" not in context.recipe.stages:
        return context
    try:
        masks.attach(context.network(context.initial), unit="channel", example=context.probe)
    except (MaskError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(
            f"whole channels of this network cannot be removed ({reason}) Single weights are masked instead: "
            "the result is sparse, but its file is neither smaller nor faster.",
            stacklevel=4,
        )
        return replace(context, recipe=budget.with_single_weights(context.recipe))
    return context


def _is_larger(splits: Splits, pixels: int) -> bool:
    return max(splits.train.shape[1:]) > pixels


def _open_for_judge(images: UserImages, place: Place) -> Splits:
    """Open files again at the audit's size; their warnings were shown the first time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return images.open(audit_pixels(place))


def _debias_recipe(
    settings: Recipe | Mapping[str, Any] | None,
    splits: Splits,
    place: Place,
    start: models.StartingPoint,
    method: str,
) -> Recipe:
    """Return the user's recipe with the chosen network, or the default recipe for the images with changes."""
    if isinstance(settings, Recipe):
        if method != own_methods.DEFAULT:
            raise RecipeError(f"a recipe has its own plan. Leave the method {method!r} out.")
        return budget.with_network(settings, start.name, start.init, start.pretrained)
    name, options = start.name or budget.NETWORK, dict[str, Any]()
    if start.is_default and "model.name" not in (settings or {}):
        name, options = budget.fitting_network(max(splits.train.shape[1:]))
    known = name if start.is_default else start.name or ""  # a module has no name
    known = str((settings or {}).get("model.name", known))
    precision = budget.fitting_precision(place.device, known, splits.train.shape)
    recipe = budget.settings(
        len(splits.train),
        place.device,
        name=splits.name,
        model=name,
        options=options,
        init=start.init,
        pretrained=start.pretrained,
        precision=precision,
        **(start.normalisation or budget.normalisation(splits.train.shape[0])),
    )
    changes = own_methods.method_changes(method, recipe) | dict(settings or {})
    if "mine.how" not in changes:
        recipe = crossfit_miner.choose(recipe, splits.train)
    return recipes.change(recipe, changes)


def add_audit(context: Context, splits: Splits, place: Place) -> Context:
    """Add a judge and a miner that work by an audit of these images, if the recipe has them.

    Warns and adds no judge if the images cannot be audited, for example because there are too few.
    """
    recipe = context.recipe
    asks = recipe.judge and "pretrain" in recipe.stages  # without it there is no ordinary model
    mines = crossfit_miner.is_used(recipe)
    if not asks and not mines:
        return context
    audit = audit_context(shrink_once(splits, audit_pixels(place)), place, seed=recipe.seed)
    if mines:
        context = replace(context, miner=crossfit_miner.of(audit, recipe))
    try:
        preparation.check(audit)
    except DataError as error:
        warnings.warn(f"no audit checked whether there is a shortcut: {error}", stacklevel=3)
        return context
    return replace(context, judge=Judge(audit) if asks else None)


def open_recipe(
    recipe: Recipe,
    place: Place,
    *,
    root: Path | None = None,
    load: Callable[..., Splits] = data.load,
) -> stages.Run:
    """Prepare the run of a recipe that names its data; `load` loads the data."""
    settings = recipe.data
    if settings.name == "given":
        raise RecipeError(
            f"{recipe.name}: data.name is not set. Choose one of {', '.join(data.dataset_names())}."
        )
    splits = open_splits(
        lambda: load(
            settings.name,
            root=root,
            ratio=settings.ratio,
            seed=settings.seed,
            size=settings.size,
        )
    )
    context = open_context(recipe, splits, place)
    return stages.Run(add_audit(context, splits, place))


def carry_out(
    run: stages.Run,
    out: Path | None = None,
    *,
    command: str = "",
    source: str = "",
    on_scores: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Ask the judge if there is one, and run the plan; with `out`, write the run's folder and its report.

    `on_scores` is called with the outcome as soon as the model and its scores are saved, before the report.
    """
    expect_relative_costs(run)
    with write_together(out, "run", source):
        ((results, scores),) = stages.run_together([run])
        outcome = Outcome(
            *(run.context, results, scores, run.advice),
            gain_check=run.gain_check,
            rejected=run.rejected,
        )
        if (hook := run.context.on_log) is not None:
            log_scores(hook, scores.facts)
        if out is None or not is_first():
            return outcome
        with alone():
            outcome = replace(outcome, size_and_speed=_size_and_speed(outcome))
            return save_outcome(outcome, out, command=command, source=source, on_scores=on_scores)


def _size_and_speed(outcome: Outcome) -> BeforeAfter | None:
    """Compare the ordinary with the debiased network; None if nothing was pruned."""
    context, results = outcome.context, outcome.results
    if results.pruned is None or "pretrain" not in results:
        return None
    ordinary, debiased = results.weights("pretrain"), results.final_weights
    try:
        return compare(context.network(ordinary), context.final_network(debiased), context.probe)
    except (RuntimeError, ModelError):  # channels cannot be removed; the run is valid anyway
        return None


def save_outcome(
    outcome: Outcome,
    out: Path,
    *,
    command: str = "",
    source: str = "",
    on_scores: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Write the folder of a run and its report; `command` is the command line, `source` the user's images."""
    context, results, scores = outcome.context, outcome.results, outcome.scores
    # This reads an earlier run in the folder, which is replaced below.
    changed = person_changes(context, scores)
    runs.save(context, results, scores, out, numbers=outcome.numbers)
    save_skipped(context.splits, out)
    save_rejected(context, outcome.rejected, outcome.rejected_scores, out)
    if on_scores is not None:
        on_scores(outcome)
    # The model is saved by now, so that a problem with the pictures cannot lose it.
    inspected = _inspected(context, results)
    measured = outcome.size_and_speed
    runs.save_record(
        context,
        results,
        scores,
        out,
        inspected=inspected,
        command=command,
        source=source,
        size_and_speed=measured.as_json() if measured else None,
        corrections=changed,
    )
    with context.show("report"):
        return replace(outcome, page=page.write_if_possible(out, context.store.root))


def _inspected(context: Context, results: Results) -> Artifact | None:
    """Return the pictures for the report; None, with a warning, if the network does not allow them."""
    try:
        with context.show("inspect"):
            return inspect(context, results)
    except (OSError, StoreError):
        raise
    except Exception as error:  # a user's network can raise anything
        reason = str(error).partition("\n")[0]
        warnings.warn(f"the report has no pictures of this network: {reason}.", stacklevel=4)
        return None

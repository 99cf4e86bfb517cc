"""The front door for Python: audit data, debias a model, compare methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from . import models, workflow
from .audit.power import PowerPlan
from .audit.power_measurement import PowerMeasurement
from .audit.result import Audit
from .boundary import explain_system
from .data.custom.assembly import Images, Source, UserImages
from .errors import DataError, RecipeError
from .parallel import joined
from .recipes import Recipe, budget, own_methods
from .report import terminal
from .runs.classifier import Classifier
from .runs.comparison_record import MethodComparison
from .runs.run_folder import about_images
from .stages.context import Show
from .stages.log_hook import LogHook
from .stages.place import Place, find_place, temporary_place
from .stages.suspects import Suspects, crowded_classes
from .store import refuse_file


@dataclass(frozen=True)
class DebiasedModel:
    """A debiased model, its suspects, scores and masks, and the folder they were saved to."""

    model: nn.Module
    suspects: Suspects | None  # None where nothing was mined
    scores: dict[str, Any]
    masks: dict[str, Tensor]
    out: Path | None
    classifier: Classifier  # the model with its preprocessing: images in, logits out


@explain_system()
@joined()
def debias(
    train: Source,
    valid: Images | None = None,
    *,
    model: nn.Module | str | None = None,
    test: Images | None = None,
    bias: Mapping[str, Tensor] | str | None = None,
    classes: tuple[str, ...] | None = None,
    init: str = "",
    pretrained: bool = False,
    size: int = 0,
    settings: Recipe | Mapping[str, Any] | None = None,
    seed: int | None = None,
    device: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    suspects: Path | str | None = None,
    method: str = own_methods.DEFAULT,
    prefer: str = "balanced",
    anyway: bool = False,
    show: Show | bool = False,
    on_log: LogHook | None = None,
) -> DebiasedModel:
    """Find the samples that contradict the model's shortcut, cut the weights that carry it, retrain the rest.

    `train` is a dataset or a Split, or a whole set: Splits, an image folder, a table of paths and labels.
    `model` is an nn.Module, whose weights are the starting point and which is not changed, or a name as on
    the command line (`resnet18`, `timm:NAME`, `file.py:builder`); by default ResNet-18, or a small
    convolutional network for images of at most 28 pixels. `pretrained` starts from its published weights,
    `init` from those in a file. Steps follow the size
    of the data and the device; `settings` are changes of them, as {"pretrain.steps": 2000}, or a Recipe,
    which is run as it is. An audit is asked first: without a sign of a shortcut the ordinary model is
    returned, unless `anyway`. Only the scores read `bias`: labels of the shortcut by split, or for files
    the name of a column or a pattern of file names ('*_{group}.png').
    With `out`, a run's folder is written; stages are stored in `store` (UNSPUR_STORE or runs/store) and
    reused. Without either nothing is stored. `suspects` is the suspects.csv of a run, corrected by you.
    `method` is another method in place of our preset ("jtt", "dfr-mined", ...; `unspur methods` lists them).
    `prefer` moves the result towards images that follow the shortcut ("aligned") or contradict it
    ("conflicting"). `show=True` shows progress. `on_log(stage, step, values)` is called with the losses
    while a stage trains and with the scores at the end; `unspur.trackers` has hooks for TensorBoard,
    Weights & Biases and MLflow.
    """
    _refuse_model(train, "debias")
    folder = _folder(out)
    images = UserImages(train, valid, test, bias, classes)
    with _place(device, store, show, keep=out is not None, on_log=on_log) as place:
        run = workflow.open_debias(
            images,
            place,
            model=model,
            init=init,
            pretrained=pretrained,
            size=size,
            settings=_seeded(_preferring(settings, prefer), seed),
            suspects=suspects,
            method=method,
            anyway=anyway,
        )
        return _result(workflow.carry_out(run, folder, source=images.source), folder)


@explain_system()
@joined()
def audit(
    train: Source,
    *,
    model: nn.Module | str | None = None,
    classes: tuple[str, ...] | None = None,
    size: int = 0,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    explain: Path | str | None = None,
    power: PowerPlan | bool = False,
    show: Show | bool = False,
) -> Audit:
    """Decide whether there is a shortcut in these training images, and which of them contradict it.

    `train` is as for `debias`. The error rates of the verdict are those of the built-in small network; a
    `model` of yours has others. `settings` are dotted changes, as {"mine.steps": 2000}: `mine` for the
    network that follows what is easy, `pretrain` for all others. With `out`, audit.json, suspects.csv and
    report.html are written; trainings are stored as by `debias`. `explain` is a table with columns that may
    explain the suspects; what is known of the files and their pixels is tried anyway (`explanation`). With
    `power`, shortcuts are planted into the images to measure which would be found: True, or what to plant.
    """
    _refuse_model(train, "audit")
    folder = _folder(out)
    with _place(device, store, show, keep=out is not None) as place:
        context = workflow.open_audit(
            UserImages(train, classes=classes),
            place,
            model=model,
            size=size,
            seed=seed,
            changes=settings,
        )
        source = str(train) if isinstance(train, Path | str) else ""
        table = Path(explain) if explain is not None else None
        plan = PowerPlan() if power is True else power or None
        found = workflow.carry_out_audit(
            context,
            folder,
            source=source,
            table=table,
            measure=(lambda context: PowerMeasurement(context, plan).carry_out()) if plan else None,
        )[0]
    if crowded := crowded_classes(
        found.suspects, context.splits.train.targets, context.splits.classes
    ):
        warnings.warn(crowded, stacklevel=2)
    return found


@explain_system()
@joined()
def compare(
    train: Source,
    methods: Sequence[str] = workflow.METHODS,
    *,
    valid: Images | None = None,
    test: Images | None = None,
    model: nn.Module | str | None = None,
    bias: Mapping[str, Tensor] | str | None = None,
    classes: tuple[str, ...] | None = None,
    init: str = "",
    size: int = 0,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    suspects: Path | str | None = None,
    show: Show | bool = False,
) -> MethodComparison:
    """Train several methods on the same images and return their scores beside each other.

    `methods` are names that `unspur methods` lists for own images; the rest is as for `debias`. With `out`,
    every method gets a folder below it, beside comparison.json and comparison.html. No audit is asked.
    """
    _refuse_model(train, "compare")
    folder = _folder(out)
    images = UserImages(train, valid, test, bias, classes)
    with _place(device, store, show, keep=out is not None) as place:
        opened = workflow.open_comparison(
            images,
            place,
            methods,
            model=model,
            init=init,
            size=size,
            settings={**(settings or {}), "seed": seed},
            suspects=suspects,
        )
        return workflow.carry_out_comparison(opened, folder, source=images.source)


def _refuse_model(train: object, verb: str) -> None:
    """Raise if a network stands where the data belong."""
    if isinstance(train, nn.Module):
        raise DataError(
            f"the first argument is a network; data come first. Write unspur.{verb}(data, model=network)."
        )


def _folder(out: Path | str | None) -> Path | None:
    """Return the folder for results; raise before anything is done if it cannot be made."""
    if out is None:
        return None
    refuse_file(Path(out))
    return Path(out)


def _preferring(
    settings: Recipe | Mapping[str, Any] | None, prefer: str
) -> Recipe | Mapping[str, Any]:
    """Return the settings with a preference for aligned or conflicting images."""
    changes = budget.preference(prefer)
    if not isinstance(settings, Recipe):
        return {**changes, **(settings or {})}
    if changes:
        raise RecipeError(f"a whole recipe has its own settings; leave prefer={prefer!r} out.")
    return settings


def _seeded(
    settings: Recipe | Mapping[str, Any] | None, seed: int | None
) -> Recipe | Mapping[str, Any]:
    """Return the settings with a seed, if one is given."""
    if isinstance(settings, Recipe):
        return settings if seed is None else settings.seeded(seed)
    return {**(settings or {}), **({} if seed is None else {"seed": seed})}


def _result(outcome: workflow.Outcome, out: Path | None) -> DebiasedModel:
    results = outcome.results
    if crowded := outcome.numbers.get("crowded"):
        warnings.warn(crowded, stacklevel=3)
    model = outcome.context.outcome(results.final_weights).eval()
    return DebiasedModel(
        model=models.restore_output(model),
        suspects=results.suspects() if "mine" in results else None,
        scores=outcome.numbers,
        masks=results.masks,
        out=out,
        classifier=Classifier(model, about_images(outcome.context)),
    )


@contextmanager
def _place(
    device: str | None,
    store: Path | str | None,
    show: Show | bool,
    *,
    keep: bool,
    on_log: LogHook | None = None,
) -> Iterator[Place]:
    """Return where to work; the store is temporary unless one is named or results are to be kept."""
    shown = show if callable(show) else terminal.show(quiet=not show)
    if store is not None or keep:
        yield find_place(device, store, shown, on_log)
        return
    with temporary_place(device, shown, on_log) as place:
        yield place

"""The Python interface: audit data, debias a model, compare methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from . import recipes, workflow
from .audit.power import PowerPlan
from .audit.power_measurement import PowerMeasurement
from .audit.result import Audit
from .boundary import explain_system
from .data.custom.assembly import Images, Source, UserImages
from .errors import DataError, RecipeError
from .parallel import joined
from .recipes import Recipe, budget, own_methods
from .report import terminal
from .runs.comparison_record import MethodComparison
from .stages.context import Show
from .stages.log_hook import LogHook
from .stages.place import Place, find_place, temporary_place
from .stages.suspects import crowded_classes
from .store import refuse_file
from .workflow.debiased_model import DebiasedModel, debiased_model


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
    """Remove the shortcut from a classifier: find the images that contradict it, prune, and retrain.

    An audit first decides whether there is a shortcut. If it finds none, the ordinary model is returned.

    Args:
        train: The training images: a dataset or a Split, or a whole data set (Splits, an image folder, a
            table of paths and labels, `hf:NAME`).
        valid: Validation images, if `train` is only a training split.
        model: An nn.Module, whose weights are the starting point and which is not changed; or a name as on
            the command line (`resnet18`, `timm:NAME`, `file.py:builder`). By default ResNet-18, or a small
            convolutional network for images of at most 28 pixels.
        test: Test images, if `train` is only a training split. They are used only for scores.
        bias: The bias labels of the images by split, used only for scores unless the method needs them. For
            images in files: the name of a column, or a pattern of file names ('*_{group}.png').
        classes: The names of the classes, for a dataset without them.
        init: A file with the initial weights of a network that is given by name.
        pretrained: Whether to start from the published weights of the network.
        size: The largest side of images in files, in pixels.
        settings: Changes of the default settings, such as {"pretrain.steps": 2000}. The defaults depend on
            the number of images and the device. Or a complete Recipe.
        seed: The seed of training.
        device: "cpu" or "cuda"; by default a GPU if there is one.
        out: A folder for the results of the run.
        store: Where stages are stored and found again; by default UNSPUR_STORE or runs/store. Without `out`
            and `store` nothing is kept.
        suspects: The suspects.csv of an earlier run, corrected by you.
        method: Another method than our preset, such as "jtt" or "dfr-mined"; `unspur methods` lists them.
        prefer: "aligned" or "conflicting" favours the accuracy on such images; "balanced" favours neither.
        anyway: Whether to debias without an audit before and without a check after training.
        show: True shows progress.
        on_log: A function of (stage, step, values) that is called with the losses while a stage trains and
            with the scores at the end; `unspur.trackers` has some for common trackers.
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
            settings=_add_seed(_add_preference(settings, prefer), seed),
            suspects=suspects,
            method=method,
            anyway=anyway,
        )
        outcome = workflow.carry_out(run, folder, source=images.source)
    if crowded := outcome.numbers.get("crowded"):
        warnings.warn(crowded, stacklevel=2)
    return debiased_model(outcome, folder)


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
    """Decide whether there is a shortcut in training images, and which images contradict it.

    Args:
        train: The training images, as for `debias`.
        model: Another network than the built-in small one. The documented error rates of the verdict hold
            only for the built-in network.
        classes: The names of the classes, for a dataset without them.
        size: The largest side of an image in pixels; larger images are shrunk.
        settings: Changes of settings, such as {"mine.steps": 2000}: `mine` for the biased network that
            finds the suspects, `pretrain` for all other networks.
        seed: The seed of training.
        device: "cpu" or "cuda"; by default a GPU if there is one.
        out: A folder for audit.json, suspects.csv and report.html.
        store: Where trainings are stored, as for `debias`.
        explain: A table with columns that may explain the suspects. Properties of the files and of the
            pixels are always tried; `explanation` of the result has what was found.
        power: True, or a plan, measures which shortcuts the audit would find: artificial ones are added to
            the images.
        show: True shows progress.
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
    pretrained: bool = False,
    size: int = 0,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    suspects: Path | str | None = None,
    show: Show | bool = False,
) -> MethodComparison:
    """Train several methods on the same images, and compare their scores.

    `methods` are names that `unspur methods` lists for your own images; the other arguments are as for
    `debias`. With `out`, every method has a folder below it, next to comparison.json and comparison.html.
    There is no audit.
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
            pretrained=pretrained,
            size=size,
            settings={**(settings or {}), "seed": seed},
            suspects=suspects,
        )
        return workflow.carry_out_comparison(opened, folder, source=images.source)


def _refuse_model(train: object, verb: str) -> None:
    """Raise DataError if a network is passed in place of the data."""
    if isinstance(train, nn.Module):
        raise DataError(
            "the first argument is a network, and must be the data. Write "
            f"unspur.{verb}(data, model=network)."
        )


def _folder(out: Path | str | None) -> Path | None:
    """Return the folder for results; raise before any work begins if it cannot be created."""
    if out is None:
        return None
    refuse_file(Path(out))
    return Path(out)


def _add_preference(
    settings: Recipe | Mapping[str, Any] | None, prefer: str
) -> Recipe | Mapping[str, Any]:
    """Return the settings with a preference for aligned or conflicting images."""
    changes = budget.preference(prefer)
    if not isinstance(settings, Recipe | Mapping | None):
        raise RecipeError(
            f"settings must be a mapping such as {{'pretrain.steps': 2000}}, or a Recipe, not {settings!r}."
        )
    if not isinstance(settings, Recipe):
        return {**changes, **(settings or {})}
    if changes:
        raise RecipeError(
            f"a recipe is complete, so prefer={prefer!r} has no effect. Leave it out."
        )
    return settings


def _add_seed(
    settings: Recipe | Mapping[str, Any] | None, seed: int | None
) -> Recipe | Mapping[str, Any]:
    """Return the settings with a seed, if one is given."""
    if isinstance(settings, Recipe):
        return settings if seed is None else recipes.change(settings, {"seed": seed})
    return {**(settings or {}), **({} if seed is None else {"seed": seed})}


@contextmanager
def _place(
    device: str | None,
    store: Path | str | None,
    show: Show | bool,
    *,
    keep: bool,
    on_log: LogHook | None = None,
) -> Iterator[Place]:
    """Yield the device, store and progress display; the store is temporary unless results are kept."""
    shown = show if callable(show) else terminal.show(quiet=not show)
    if store is not None or keep:
        yield find_place(device, store, shown, on_log)
        return
    with temporary_place(device, shown, on_log) as place:
        yield place

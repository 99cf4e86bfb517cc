"""The Python interface to a finished run: classify images, score the model, export it, write the report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from . import data
from .boundary import explain_system
from .data.custom.labelled import LabelledImages, of_dataset, of_splits, open_labelled
from .data.custom.sources import GroupSource
from .data.splits import Part, Splits
from .deploy import export as deploy_export
from .deploy.check_images import check_images, find_source
from .deploy.export import BLOCK, FORMATS, Exported
from .errors import DataError, RecipeError, StoreError
from .report import page
from .runs.classifier import Classifier
from .runs.evaluation import Evaluation, score_models
from .runs.evaluation_files import evaluation_files, save_evaluation
from .runs.named_models import build_network, open_model, open_models
from .runs.predictions import Prediction, image_files
from .runs.predictions import predictions as predict_files
from .runs.training_images import count_training_images
from .stages.place import pick_device

RunOrModel = Path | str | Classifier
Network = nn.Module | str | None


@explain_system()
def predict(
    run: RunOrModel,
    images: Path | str | Iterable[Path | str],
    *,
    model: Network = None,
    trust: bool = False,
    device: str | None = None,
) -> list[Prediction]:
    """Classify image files, or all image files in folders. Unreadable files are left out, with a warning.

    `run` is the folder of a run, or its model as `unspur.load` returns it. `model` is needed only if the run
    was made with an nn.Module: pass that module again, or `file.py:builder`. `trust` is as for `unspur.load`.
    """
    found = run if isinstance(run, Classifier) else open_model(run, model, trust=trust)
    paths = [images] if isinstance(images, Path | str) else list(images)
    return list(predict_files(found.to(pick_device(device)), image_files(paths)))


@explain_system()
def evaluate(
    run: RunOrModel,
    images: Path | str | Dataset[Any] | Part | Splits,
    *,
    model: Network = None,
    trust: bool = False,
    group: str | Tensor | Sequence[Any] | None = None,
    pattern: str = "",
    classes: tuple[str, ...] | None = None,
    device: str | None = None,
    out: Path | str | None = None,
    ratio: str = "1pct",
    data_root: Path | None = None,
) -> Evaluation:
    """Score the debiased and the ordinary model of a run on labelled images.

    Gives a warning if it sees that these are training images of the run.

    Args:
        run: The folder of a run, or a model from `unspur.load`.
        images: A folder, a table, `hf:NAME`, the name of a benchmark, a dataset, a Split or Splits. If there
            are splits, the test split is scored.
        model: As for `predict`.
        trust: As for `unspur.load`.
        group: The name of the column with the groups; for a dataset or a Split, the group of every image.
        pattern: A pattern that reads classes or groups from file names, such as '*_{class}_{group}.png'.
        classes: The names of the model's outputs, if the run had only numbers. Classes are matched by name.
        device: "cpu" or "cuda"; by default a GPU if there is one.
        out: Writes the scores to OUT.json, OUT.csv and OUT.md; replaces only an earlier evaluation.
        ratio: The share of conflicting images of a benchmark, such as "1pct".
        data_root: The folder with the files of benchmarks.
    """
    if out is not None:
        evaluation_files(Path(out))
    models = {"model": run} if isinstance(run, Classifier) else open_models(run, model, trust=trust)
    first = next(iter(models.values()))
    if classes is not None:
        _rename(models.values(), classes)
    opened = _open_scored(images, first, group, pattern, ratio, data_root)
    found = score_models(models, opened, pick_device(device))
    if not isinstance(run, Classifier):
        source = str(images) if isinstance(images, Path | str) else ""
        known = count_training_images(Path(run), _source_of(Path(run)), opened, source)
        found = replace(found, training_images=known)
    if found.doubt:
        warnings.warn(found.doubt, stacklevel=3)
    if out is not None:
        save_evaluation(found, Path(out))
    return found


def _open_scored(
    images: Path | str | Dataset[Any] | Part | Splits,
    model: Classifier,
    group: str | Tensor | Sequence[Any] | None,
    pattern: str,
    ratio: str,
    data_root: Path | None,
) -> LabelledImages:
    """Return the images to score, with their labels and groups."""
    if isinstance(images, Path | str):
        if not isinstance(group, str | None):
            raise DataError(
                "the groups of files are read from a table or from their names. Name the column, as in "
                "group='colour', or give pattern='*_{group}.png'."
            )
        groups = GroupSource(group or "", pattern)
        return open_images(str(images), model, groups, ratio, data_root)
    if isinstance(images, Splits):
        if group is not None or pattern:
            raise DataError(
                "Splits have their own groups, the bias labels. Leave group and pattern out."
            )
        return of_splits(images)
    if isinstance(group, str) or pattern:
        raise DataError(
            "groups cannot be read from a dataset, which has neither columns nor file names. Pass the group "
            "of each image, as in group=[0, 1, ...]."
        )
    return of_dataset(images, model.classes, group)


def _source_of(run: Path) -> str:
    """Return where a run found its images; "" if they came from Python or it is not known."""
    try:
        return find_source(run)
    except (DataError, StoreError):
        return ""


def _rename(models: Iterable[Classifier], classes: tuple[str, ...]) -> None:
    """Set the class names of models, in place."""
    for each in models:
        if len(classes) != len(each.classes):
            raise DataError(
                f"{len(classes)} class names were given, and the model has {len(each.classes)} classes. "
                "Give one name for each."
            )
        each.classes = tuple(classes)


def open_images(
    source: str, model: Classifier, groups: GroupSource, ratio: str, root: Path | None
) -> LabelledImages:
    """Open a benchmark by name, a folder in the layout of one, or a user's own images."""
    if source in data.DATASETS and not Path(source).exists():
        side = model.shape[1] if source in data.SIZED else 0
        return of_splits(data.load(source, root=root, ratio=ratio, size=side))
    if (Path(source) / ratio / "align").is_dir():
        return of_splits(data.load("folder", root=Path(source), ratio=ratio))
    size = (model.shape[1], model.shape[2])
    return open_labelled(source, size=size, classes=model.classes, crop=model.crop, groups=groups)


@explain_system()
def export(
    run: Path | str,
    out: Path | str | None = None,
    *,
    formats: Sequence[str] = ("safetensors",),
    slim: bool = False,
    multiple: int = BLOCK,
    hub: bool = False,
    license: str = "",
    images: Path | str | None = None,
    model: Network = None,
    trust: bool = False,
    data_root: Path | None = None,
) -> Exported:
    """Write the model of a run as files to deploy, and check each file against the model.

    Args:
        run: The folder of a run.
        out: The folder to write, by default RUN/export.
        formats: Any of safetensors, packed, onnx and pt2.
        slim: Whether to remove dead channels.
        multiple: With `slim`, the number of channels stays a multiple of this.
        hub: Whether to write the files that Hugging Face reads.
        license: The licence on the model card, such as "mit".
        images: A folder of images for the check; by default the data of the run, if available.
        model: As for `predict`.
        trust: As for `unspur.load`.
        data_root: The folder with the files of benchmarks.
    """
    formats = [formats] if isinstance(formats, str) else formats
    if unknown := [name for name in formats if name not in FORMATS]:
        raise RecipeError(f"there is no format {unknown[0]!r}. Choose from {', '.join(FORMATS)}.")
    folder = Path(run)
    network = build_network(folder, model)
    named = Path(images) if images else None
    found = check_images(folder, named, data_root, model=network, trust=trust)
    return deploy_export.export(
        folder,
        Path(out) if out else folder / "export",
        found.images,
        make_slim=slim,
        kinds=tuple(formats),
        multiple=multiple,
        hub=hub,
        license=license,
        model=network,
        trust=trust,
    )


@explain_system()
def report(
    run: Path | str, out: Path | str | None = None, *, store: Path | str | None = None
) -> Path:
    """Write the report of a run or an audit again, by default as report.html in its folder."""
    return page.write(Path(run), Path(store) if store else None, out=Path(out) if out else None)

"""The Python function `unspur.probe`: open models and images, change the images, measure the effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from . import data, recipes
from .boundary import explain_system
from .data.custom.labelled import LabelledImages, of_dataset, of_splits
from .data.custom.sources import USUAL_GROUPS
from .data.splits import Part, Splits
from .deploy.check_images import find_source
from .errors import DataError, StoreError, UsageError
from .probe.findings import Probe
from .probe.image_changes import Change, ImageFunction, as_change, every_change
from .probe.measuring import ProbedImages, measure
from .report.probe_page import save_probe
from .run_api import open_images
from .runs.classifier import Classifier
from .runs.named_models import open_models
from .runs.training_images import count_training_images
from .stages.place import pick_device

RATIO = "1pct"  # the variant that is used of a folder in the layout of a benchmark
MOST = 500  # images to classify, spread evenly over the classes
Models = Path | str | nn.Module | Mapping[str, nn.Module]
ProbeSource = Path | str | Tensor | Dataset[Any] | Part | Splits | None
Changes = str | Change | ImageFunction | Sequence[Any] | None


@explain_system()
def probe(
    model: Models,
    images: ProbeSource = None,
    change: Changes = None,
    *,
    control: ImageFunction | None = None,
    labels: Tensor | None = None,
    classes: Sequence[str] | None = None,
    network: nn.Module | str | None = None,
    trust: bool = False,
    most: int = MOST,
    seed: int = 0,
    device: str | None = None,
    data_root: Path | None = None,
    out: Path | str | None = None,
    command: str = "",
    follow: Callable[[str], None] = lambda name: None,
) -> Probe:
    """Change images on purpose, and measure how the predictions of a model change.

    - `model`: the folder of a run, whose ordinary and debiased models are compared on the same images; or a
      model that `unspur.load` returned; or any module that takes a batch of `images`; or a dict of modules.
    - `images`: as for `unspur.evaluate`, or a batch (N, C, H, W), with or without `labels`. By default, the
      data of the run.
    - `change`: what to hide ("border", "corners", "colour", "light", "detail", "background", "text",
      "region X,Y,W,H"), or a function from image to image, or a list of changes. By default, all built-in
      changes are tried and ranked.
    - `control`: for a function, a second function that damages images equally.
    - `most`: the largest number of images to classify.
    - `network` and `trust`: as `model` and `trust` of `unspur.evaluate`.
    - `out`: a folder for probe.json and probe.html. By default, nothing is written.
    """
    models = _models(model, network, trust=trust)
    probed = _thin(_open(model, models, images, labels, classes, data_root), most)
    changes, left_out = _changes(change, control, probed.images.shape[1])
    place = pick_device(device)
    found = measure(models, probed, changes, place, seed=seed, left_out=left_out, follow=follow)
    if out is not None:
        save_probe(found, Path(out), command=command)
    return found


def _models(model: Models, network: nn.Module | str | None, *, trust: bool) -> dict[str, nn.Module]:
    if isinstance(model, nn.Module):
        return {"model": model}
    if isinstance(model, Mapping):
        if not model:
            raise UsageError("there is no model to probe. Give at least one.")
        return dict(model)
    return dict(open_models(model, network, trust=trust))


def _changes(
    change: Changes, control: ImageFunction | None, channels: int
) -> tuple[list[Change], list[str]]:
    if change is None:
        return every_change(channels)
    several = change if isinstance(change, list | tuple) else [change]
    if not several:
        raise UsageError(
            "there is no change to try. Leave `change` out to try all built-in changes."
        )
    return [as_change(each, control) for each in several], []


def _open(
    model: Models,
    models: Mapping[str, nn.Module],
    images: ProbeSource,
    labels: Tensor | None,
    classes: Sequence[str] | None,
    root: Path | None,
) -> ProbedImages:
    """Open the images to classify; labels become indices into the model's classes."""
    first = next(iter(models.values()))
    known = tuple(classes) if classes else first.classes if isinstance(first, Classifier) else ()
    if isinstance(images, Tensor):
        return _of_tensor(images, labels, known, first)
    if not isinstance(first, Classifier):
        return _of_labelled(of_dataset(_dataset(images), known or _numbers(images)), known)
    if isinstance(images, Splits):
        opened = of_splits(images)
    elif images is None or isinstance(images, Path | str):
        folder = Path(model) if isinstance(model, Path | str) else None
        opened = _open_source(images, folder, first, root)
    else:
        opened = of_dataset(images, first.classes)
    doubt = _doubt(Path(model), images, opened) if isinstance(model, Path | str) else ""
    return replace(_of_labelled(opened.matched(first.classes), first.classes), doubt=doubt)


def _doubt(run: Path, images: ProbeSource, opened: LabelledImages) -> str:
    """Say how many of the images are training images of the run; "" if none is known to be."""
    try:
        source = find_source(run)
    except (DataError, StoreError):
        source = ""
    given = str(images) if isinstance(images, Path | str) else source if images is None else ""
    known, total = count_training_images(run, source, opened, given), len(opened.part)
    if not known:
        return ""
    which = (
        "All images" if known == total else f"{known:,} of the {total:,} images of {opened.name}"
    )
    return (
        f"{which} are training images of this run. On new images, accuracies are usually lower, and "
        "effects can differ. To probe other images, name them: unspur probe RUN DATA."
    )


def _dataset(images: ProbeSource) -> Any:
    if images is None or isinstance(images, Path | str | Splits):
        raise UsageError(
            "the image size of a module is unknown. Give a batch of images, a dataset or a split, or give "
            "the folder of a run instead of the module."
        )
    return images


def _numbers(images: Any) -> tuple[str, ...]:
    """Return the class numbers of a split as names."""
    targets = getattr(images, "targets", None)
    if targets is None:
        raise UsageError("the classes of a module have no names. Give classes=(...).")
    return tuple(str(number) for number in range(int(torch.as_tensor(targets).max()) + 1))


def _of_tensor(
    images: Tensor, labels: Tensor | None, classes: tuple[str, ...], model: nn.Module
) -> ProbedImages:
    if images.ndim != 4:
        raise DataError(f"images must be a batch (N, C, H, W), not {tuple(images.shape)}.")
    if labels is not None and len(labels) != len(images):
        raise DataError(f"{len(images)} images need as many labels, but there are {len(labels)}.")
    if not classes:
        with torch.no_grad():
            outputs = model.cpu().eval()(images[:2])
        classes = tuple(str(number) for number in range(outputs.shape[1]))
    return ProbedImages(images.cpu(), labels, classes)


def _open_source(
    images: Path | str | None, folder: Path | None, model: Classifier, root: Path | None
) -> LabelledImages:
    """Open images by their path, or the data of the run by default."""
    if images is None and folder is None:
        raise UsageError(
            "there are no images to probe the model with, and no run to take them from. Give images."
        )
    if images is None and folder is not None:
        settings = recipes.load(str(folder / "recipe.toml")).data
        if settings.name != "given":
            parts = {"ratio": settings.ratio, "seed": settings.seed, "size": settings.size}
            return of_splits(data.load(settings.name, root=root, **parts))  # type: ignore[arg-type]
        images = _source_of(folder)
    return open_images(str(images), model, USUAL_GROUPS, RATIO, root)


def _source_of(folder: Path) -> str:
    try:
        return find_source(folder)
    except DataError:
        raise UsageError(
            f"the images of {folder} came from Python and are not stored. Give images to probe it with: "
            "unspur probe RUN DATA."
        ) from None


def _of_labelled(opened: LabelledImages, classes: Sequence[str]) -> ProbedImages:
    part = opened.part
    index = torch.sort(part.targets, stable=True).indices
    return ProbedImages(
        part.take(index),
        part.targets[index],
        tuple(classes) or opened.classes,
        tuple(part.names[i] for i in index.tolist()) if part.names else None,
        opened.name,
    )


def _thin(probed: ProbedImages, most: int) -> ProbedImages:
    """Return at most `most` images, evenly spread."""
    count = len(probed.images)
    if count <= most:
        return probed
    index = (torch.arange(most) * count) // most
    labels = None if probed.labels is None else probed.labels[index]
    names = tuple(probed.names[i] for i in index.tolist()) if probed.names else None
    return ProbedImages(probed.images[index], labels, probed.classes, names, probed.title)

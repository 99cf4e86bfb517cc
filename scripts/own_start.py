"""Compare the preset from random weights with a start from self-supervision on the same images.

    python scripts/own_start.py --out results/own-start.json.gz --data-root DIR

DIR holds MNIST and CIFAR-10. The sets are those of `own_augmentation.py` that have a planted shortcut. Before
the run, the network learns without labels to tell images apart (SimCLR, Chen et al., 2020): two views of an
image, which are random crops with exchanged spectra and styles, are trained to have similar features, and
views of other images different ones. All stages of the preset then start from these weights. The
self-supervision takes as many steps as pretraining, with twice the images. A third variant spends these
steps on the stage `adapt` instead, from random weights. Runs that are already in the record are not
repeated. `make pages` writes the table.
"""

from __future__ import annotations

import tempfile

import torch
import torch.nn.functional as F
from gain_check import SETTINGS, measure
from own_trials import trials
from safetensors.torch import save_file
from torch import Tensor, nn

from unspur import models
from unspur.data.augmentation import augment_images
from unspur.data.mixing import mix_spectrum, mix_style
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages.place import temporary_place

STEPS, BATCH, RATE, TEMPERATURE = 470, 64, 1e-3, 0.2  # steps of pretraining for 1,500 images
LONGER, SELF_SUPERVISED = "random weights, longer", "self-supervision"
VARIANTS = ("random weights", LONGER, SELF_SUPERVISED)


def learn_without_labels(splits: Splits, seed: int) -> dict[str, Tensor]:
    """Return the weights of the preset's network after self-supervision, with its initial head."""
    options = SETTINGS["model.options"]
    model = models.builder("convnet", len(splits.classes), options).build(seed)
    name = next(n for n, m in reversed(list(model.named_modules())) if isinstance(m, nn.Linear))
    head = model.get_submodule(name)
    model.set_submodule(name, nn.Identity())
    width = head.in_features
    project = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 64))
    parameters = [*model.parameters(), *project.parameters()]
    optimiser = torch.optim.Adam(parameters, RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    generator = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        index = torch.randint(len(splits.train), (BATCH,), generator=generator)
        images = splits.train.take(index)
        views = [view(images, 2 * seed + number, torch.tensor(step)) for number in (0, 1)]
        optimiser.zero_grad()
        contrast(project(model(torch.cat(views)))).backward()
        optimiser.step()
        schedule.step()
    model.set_submodule(name, head)
    return {key: value.contiguous() for key, value in model.state_dict().items()}


def view(images: Tensor, seed: int, step: Tensor) -> Tensor:
    """Return crops of images as network input, with exchanged spectra and styles."""
    crops = augment_images(images, "resized-crop-flip", seed=seed, step=step)
    x = (crops.float() / 255 - 0.5) / 0.5
    return mix_style(mix_spectrum(x, 0.5, seed=seed, step=step), 1.0, seed=seed, step=step)


def contrast(features: Tensor) -> Tensor:
    """Return the NT-Xent loss of two views of each image, the first views first."""
    z = F.normalize(features, dim=1)
    similar = (z @ z.T / TEMPERATURE).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(similar, torch.arange(len(z)).roll(len(z) // 2))


def main() -> None:
    for trial in trials(__doc__, "results/own-start.json.gz", VARIANTS):
        for variant in trial.variants:
            with (
                tempfile.TemporaryDirectory() as folder,
                temporary_place("cpu", terminal.show(quiet=True)) as place,
            ):
                changes: dict[str, object] = {}
                if variant == LONGER:
                    changes["adapt.steps"] = 3 * STEPS
                if variant == SELF_SUPERVISED:
                    changes["model.init"] = f"{folder}/start.safetensors"
                    weights = learn_without_labels(trial.pair.train, trial.seed)
                    save_file(weights, changes["model.init"])
                trial.record(variant, measure(trial.pair, trial.seed, place, changes))


if __name__ == "__main__":
    main()

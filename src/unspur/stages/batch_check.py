"""Check before training, and in a dry run, that batches fit the data and the memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from ..data.free_memory import free_memory
from ..errors import RecipeError
from ..models.head import evaluating
from ..parallel import process_count
from ..training.sections import TrainingSettings
from .context import Context

ALWAYS_ALLOWED = 1024  # a batch size that may be larger than the data


def check_batches(context: Context, stages: Iterable[str]) -> None:
    """Raise if the batch of a stage has more images than the data, or more than fit into memory."""
    batches = dict(_batches(context, stages))
    if not batches:
        return
    images = int((~context.held_out).sum())  # reserved suspects are not known before training
    needed, free, processes = _bytes_of_image(context), _free(context.device), process_count()
    for stage, batch in batches.items():
        if batch < processes:
            raise RecipeError(
                f"{stage}.batch = {batch}, but there are {processes} processes, and each needs at least one "
                "image of every batch. Start fewer processes, or give a larger batch."
            )
        if batch > max(images, ALWAYS_ALLOWED):
            raise RecipeError(
                f"{stage}.batch = {batch:,}, but there are {images:,} images to train on. Give at most "
                f"{max(images, ALWAYS_ALLOWED):,}."
            )
        share = math.ceil(batch / processes)
        if share * needed > free:
            raise RecipeError(
                f"{stage}.batch = {batch:,} needs at least {share * needed / 2**30:.1f} GiB of memory with "
                f"this network, and {free / 2**30:.1f} GiB are free. Give at most "
                f"{processes * free // (2 * needed):,}."
            )


def _batches(context: Context, stages: Iterable[str]) -> Iterator[tuple[str, int]]:
    for stage in stages:
        settings = context.recipe.table(stage)
        if isinstance(settings, TrainingSettings):
            yield stage, settings.batch


def _bytes_of_image(context: Context) -> int:
    """Return a lower bound on the bytes per image of a batch: the outputs of all trainable layers."""
    probe, model, sizes = context.probe, context.network(context.initial), [0]

    def count(module: nn.Module, args: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel())

    for module in model.modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            module.register_forward_hook(count)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), evaluating(model):
        model(probe)
    width = 2 if context.recipe.precision == "bf16" else 4
    return (width * sum(sizes) + 4 * probe.numel()) // len(probe)


def _free(device: torch.device) -> int:
    """Return the free memory of a device in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_memory()

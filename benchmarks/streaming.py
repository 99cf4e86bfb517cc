"""Compare images that stay on the device with JPEG files that are decoded when needed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unspur.data.batches import Preprocess, Resident, Source
from unspur.data.decoding.files import Files
from unspur.data.decoding.pixel_cache import decode
from unspur.data.splits import Split
from unspur.data.streaming import Streaming
from unspur.methods import ERM
from unspur.training import sampling
from unspur.training.inputs import Training

from .timing import OPTIONS, network, photographs, time_steps


def streaming(device: torch.device, workers: int) -> list[dict[str, Any]]:
    """Compare images that stay on the device with JPEG files that are decoded when needed."""
    cuda = device.type == "cuda"
    count, size, batch = (2048, 128, 256) if cuda else (256, 64, 32)
    options = replace(OPTIONS, precision="bf16" if cuda else "fp32")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = photographs(Path(folder), count, size)
        targets = torch.arange(count) % 10
        split = Split(decode(paths, size=size, cache=Path(folder) / "cache"), targets)
        how: dict[str, Any] = {"device": device, "preprocess": Preprocess()}
        sources: dict[str, Callable[[], Source]] = {
            "resident": lambda: Resident(split, **how),
            "files, decoded on the way": lambda: Streaming(
                Files(tuple(paths), targets, (size, size)), **how
            ),
            "decoded once, read from disk": lambda: Streaming(split, **how),
        }
        for name, make in sources.items():
            model = network("resnet18", device)
            order = sampling.Passes(torch.arange(count, device=device), batch=batch, seed=0)
            timing = time_steps(
                [Training(ERM(model), make(), order, options)], steps=150 if cuda else 10
            )
            rate = batch / timing.step_us * 1e6
            share = rate / rows[0]["images_per_second"] if rows else 1.0
            rows.append(
                {"source": name, "us": timing.step_us, "images_per_second": rate, "share": share}
            )
    return rows

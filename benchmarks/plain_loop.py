"""Compare our training step with the same step in a plain torch loop, in CPU seconds of one process.

The plain loop has the images as a tensor, the same network, memory layout and optimiser, and nothing
else. The two loops alternate, and the fastest turn of each counts, so other programs change the ratio
little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from unspur.data.splits import Split
from unspur.training.loop_state import Loop

from .timing import network, noise_images, training

TURNS = 5


def plain_steps(model: nn.Module, split: Split, batch: int) -> Callable[[int], None]:
    """Return a function that carries out a number of plain steps."""
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    generator = torch.Generator().manual_seed(0)

    def steps(count: int) -> None:
        for _ in range(count):
            index = torch.randint(len(split), (batch,), generator=generator)
            images = split.images[index].to(memory_format=torch.channels_last).float() / 255
            loss = F.cross_entropy(model(images), split.targets[index])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return steps


def our_steps(kind: str, model: nn.Module, split: Split, batch: int) -> Callable[[int], None]:
    """Return a function that carries out a number of our steps, which are dense or learn masks."""
    made = training(kind, model, split, batch=batch)
    loop, order = Loop(made), made.order

    def steps(count: int) -> None:
        for index in order.draw(loop.step, count):
            loop.set_rate()
            loop.advance(index)
            loop.step += 1

    return steps


def compare(name: str, pixels: int, batch: int, steps: int) -> list[dict[str, Any]]:
    """Return a row for each kind of step, with the microseconds of both loops and their ratio."""
    split, cpu = noise_images(max(256, batch), pixels), torch.device("cpu")
    loops = {"plain": plain_steps(network(name, cpu), split, batch)}
    loops |= {
        kind: our_steps(kind, network(name, cpu), split, batch) for kind in ("dense", "masks")
    }
    best: dict[str, float] = {}
    for turn in range(TURNS + 1):  # the first one warms up
        for kind, run in loops.items():
            began = time.process_time()
            run(steps)
            spent = (time.process_time() - began) / steps * 1e6
            best[kind] = spent if turn <= 1 else min(best[kind], spent)
    about = {"network": name, "pixels": pixels, "batch": batch, "plain_us": best["plain"]}
    return [
        {**about, "step": kind, "us": best[kind], "times": best[kind] / best["plain"]}
        for kind in ("dense", "masks")
    ]

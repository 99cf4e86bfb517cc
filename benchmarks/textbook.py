"""A training loop as in a tutorial: image files, a DataLoader with workers, an eager step.

The mask stage builds its weighted loader again at every step, as the method's released code does.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from unspur.data.splits import Split
from unspur.training import losses


class Files(Dataset[tuple[Tensor, int]]):
    """A data set with one image file for each sample."""

    def __init__(self, folder: Path, split: Split):
        self.targets = split.targets.tolist()
        self.paths = [folder / f"{i}.png" for i in range(len(split))]
        for path, image in zip(self.paths, split.images, strict=True):
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        pixels = np.array(Image.open(self.paths[i]))
        return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255, self.targets[i]


class Gated(nn.Module):
    """A network whose convolutional and linear weights are multiplied by sampled masks."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model.requires_grad_(False)
        self.names = [n for n, p in model.named_parameters() if p.dim() > 1]
        weights = dict(model.named_parameters())
        self.logits = nn.ParameterList(torch.full_like(weights[n], 1.5) for n in self.names)

    def forward(self, x: Tensor) -> Tensor:
        gated = {}
        for name, logits in zip(self.names, self.logits, strict=True):
            u, v = torch.rand_like(logits), torch.rand_like(logits)
            g = -torch.log(torch.log(u + 1e-10) / torch.log(v + 1e-10) + 1e-10)
            soft = torch.sigmoid(logits + g)
            gate = (soft > 0.5).float() + soft - soft.detach()
            gated[name] = self.model.get_parameter(name) * gate
        out: Tensor = torch.func.functional_call(self.model, gated, (x,))
        return out


def steps_per_second(
    split: Split, model: nn.Module, *, batch: int, workers: int, steps: int, masked: bool
) -> float:
    """Return the steps per second of pretraining or of mask learning, on files in a temporary folder."""
    device = next(model.parameters()).device
    with tempfile.TemporaryDirectory() as folder:
        data = Files(Path(folder), split)
        loader = DataLoader(data, batch, shuffle=True, num_workers=workers, drop_last=True)
        batches = _rebuilt(data, batch, workers) if masked else _endless(loader)
        step = _mask_step(Gated(model)) if masked else _plain_step(model)
        for count, (x, y) in enumerate(batches):
            if count == 2:  # the first two steps warm up
                began = time.perf_counter()
            step(x.to(device), y.to(device))
            if count == steps + 1:
                break
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return steps / (time.perf_counter() - began)


def _endless(loader: DataLoader[tuple[Tensor, int]]) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from loader


def _rebuilt(data: Files, batch: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    weights = [80.0 if i % 100 == 0 else 1.0 for i in range(len(data))]
    for _ in itertools.count():
        sampler = WeightedRandomSampler(weights, batch)
        yield from DataLoader(data, batch, sampler=sampler, num_workers=workers)


def _plain_step(model: nn.Module) -> Callable[[Tensor, Tensor], None]:
    optimiser = torch.optim.Adam(model.parameters())

    def step(x: Tensor, y: Tensor) -> None:
        loss = F.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        loss.item()  # such loops log the loss at every step

    return step


def _mask_step(model: Gated) -> Callable[[Tensor, Tensor], None]:
    optimiser = torch.optim.Adam(model.logits.parameters())
    head = next(m for m in model.model.modules() if isinstance(m, nn.Linear))
    seen: list[Tensor] = []
    head.register_forward_pre_hook(lambda m, args: seen.append(args[0]))

    def step(x: Tensor, y: Tensor) -> None:
        logits = model(x)
        align = losses.alignment(seen.pop(), y, torch.arange(len(y), device=y.device) % 3 == 0)
        loss = F.cross_entropy(logits, y) + 0.05 * align
        loss = loss + 1e-8 * losses.sparsity(model.logits)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        loss.item()

    return step

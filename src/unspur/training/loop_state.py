"""The state of one training between two steps: networks, optimisers, clock, losses, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from .. import masks
from ..data.batches import Batch
from ..errors import TrainingError
from ..parallel import current, sharded_step
from ..parallel.exchange import average_gradients
from .fit_options import FitOptions, Optimiser
from .inputs import Progress, Training, Watcher
from .method import Player
from .numerics import autocast, compile_if
from .prediction import under
from .sampling import Order

BLOCK = 64  # batches whose indices are drawn at once
SHOWN_EVERY = 1.0  # seconds between two looks at the progress


class Loop:
    """The state of a training between two steps."""

    def __init__(self, training: Training) -> None:
        self.method, self.source, self.options = training.method, training.source, training.options
        self.order, self.watchers, self.checkpointer = (
            training.order,
            training.watchers,
            training.checkpointer,
        )
        self.players = self.method.players()
        self.optimisers = [
            self.options.optimiser.build(player.parameters, player.body) for player in self.players
        ]
        self.device = next(self.method.parameters()).device
        self.step = 0
        self.rate = math.nan
        self.clock = torch.zeros((), dtype=torch.int64, device=self.device)
        self.health = torch.zeros(
            (), device=self.device
        )  # 0, and no number from the first bad loss on
        self.healthy = torch.zeros_like(self.clock)  # how many steps it was 0
        self.losses: dict[str, Tensor] = {}  # sums since the last reading, on the device
        self.losses_since = self.began_at = 0
        self.began = time.perf_counter()
        self.shown, self.last_loss = (
            -math.inf,
            math.nan,
        )  # when progress was shown, and with which loss
        self.team = current()
        compiles = self.options.compile and self.team is None  # hooks and exchanges cannot be fused
        self._batch = compile_if(self.source.batch, compiles)
        self._forward = compile_if(self._losses, compiles)
        self.method.train()
        masks.follow(self.method, self.clock)

    @property
    def pace(self) -> FitOptions:
        """What loops must have in common to advance in lockstep."""
        return replace(self.options, seed=0, optimiser=Optimiser())

    def feed(self) -> Iterator[tuple[Tensor, ...]]:
        """Yield the inputs of every remaining step."""
        return self.source.feed(_indices(self.order, self.step, self.options.steps))

    def ready(self, seconds: float) -> None:
        """Record how long compiling and recording the step took, and start the clock of the log."""
        self.began = time.perf_counter()
        if self.checkpointer and self.device.type == "cuda":
            self.checkpointer.log({"step": self.step, "setup_seconds": round(seconds, 3)})

    def set_rate(self) -> None:
        """Set the learning rate of the next step."""
        how = self.options.optimiser
        rate = how.rate_at(self.step, self.options.steps)
        if rate == self.rate and not how.head_first:
            return
        self.rate = rate
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                since = group.get("since", 0)
                rate = how.rate_at(self.step, self.options.steps, since=since)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def advance(self, *inputs: Tensor) -> None:
        """Update every player once. Reads and writes tensors on the device, and nothing else."""
        with self._divided(len(inputs[0])):
            batch = self._batch(inputs[0], self.clock, *inputs[1:])
            for player, optimiser in zip(self.players, self.optimisers, strict=True):
                losses = self._forward(batch, player.name)
                optimiser.zero_grad(set_to_none=True)
                losses["loss"].backward()  # type: ignore[no-untyped-call]
                if self.team is not None:
                    average_gradients(player.parameters, self.team)
                optimiser.step()
                self._add_up(player, losses)
        self.healthy += self.health == 0
        self.clock += 1

    def _divided(self, size: int) -> AbstractContextManager[None]:
        """Divide a step over the processes that train together, if there are several."""
        if self.team is None:
            return nullcontext()
        whole = self.method.mixes_images
        return sharded_step(self.team, size, self.method, whole_images=whole)

    def _losses(self, batch: Batch, player: str) -> dict[str, Tensor]:
        """Return the named losses of a player, and their sum as `loss`."""
        with autocast(self.device, self.options.precision):
            losses = self.method(batch, player)
        return {**losses, "loss": reduce(torch.add, losses.values())}

    def _add_up(self, player: Player, losses: Mapping[str, Tensor]) -> None:
        prefix = "" if len(self.players) == 1 else f"{player.name}."
        for name, loss in losses.items():
            if prefix + name not in self.losses:
                self.losses[prefix + name] = torch.zeros_like(loss.detach())
        sums = [self.losses[prefix + name] for name in losses]
        torch._foreach_add_(sums, [loss.detach() for loss in losses.values()])
        self.health.add_(losses["loss"].detach() * 0)

    def finish_step(self, progress: Progress | None) -> None:
        """Count a step, log what is due and call the watchers."""
        self.step = done = self.step + 1
        last = done == self.options.steps
        if last or done % self.options.log_every == 0:
            row = self.read_losses()
            self.last_loss, self.shown = row["loss"], -math.inf
            if self.checkpointer:
                self.checkpointer.log(row)
        if progress:
            self._show_progress(progress)
        for watcher in self.watchers:
            if last or done % watcher.every == 0:
                seen = self._show(watcher)
                if self.checkpointer and seen:
                    self.checkpointer.log({"step": done, **seen})
        if last:
            self.check_weights()

    def _show_progress(self, progress: Progress) -> None:
        """Show how far training is: after the first step, every second, and with every new loss."""
        now = time.perf_counter()
        if now - self.shown >= SHOWN_EVERY:
            self.shown = now
            progress.update(self.step, self.options.steps, self.last_loss)

    def _show(self, watcher: Watcher) -> Mapping[str, float]:
        """Call a watcher with the method in eval mode."""
        self.method.eval()
        seen = watcher(self.method, self.step)
        self.method.train()
        return seen

    def read_losses(self) -> dict[str, Any]:
        """Return mean losses since the last reading; raise if one of them was not finite."""
        count = self.step - self.losses_since
        names = list(self.losses)
        seen = [*self.losses.values(), self.health, self.healthy]
        *packed, health, healthy = torch.stack([t.double() for t in seen]).tolist()  # host sync
        if health != 0:
            raise TrainingError(
                f"the loss is no longer a number since step {self.began_at + int(healthy)}. The "
                "checkpoint before it is kept. Lower the learning rate, or look for images that are "
                "not finite."
            )
        self.losses_since = self.step
        for total in self.losses.values():
            total.zero_()
        means = {name: value / count for name, value in zip(names, packed, strict=True)}
        if "loss" not in means:
            means["loss"] = sum(v for name, v in means.items() if name.endswith(".loss"))
        return {
            "step": self.step,
            **means,
            "rate": self.options.optimiser.rate_at(self.step - 1, self.options.steps),
            "seconds": round(time.perf_counter() - self.began, 6),
        }

    def check_weights(self) -> None:
        """Raise if a step with a finite loss made weights that are no numbers."""
        finish_step = [p for player in self.players for p in player.parameters]
        if not torch.stack([torch.isfinite(p).all() for p in finish_step]).all():
            raise TrainingError(
                f"weights are no longer numbers after step {self.step - 1}, though its loss was one. "
                "The checkpoint before it is kept. Lower the learning rate."
            )

    def save(self) -> None:
        """Checkpoint everything the next step depends on."""
        if self.checkpointer is None:
            return
        if self.step > self.losses_since:
            self.checkpointer.log(
                self.read_losses()
            )  # also: never checkpoint what is no longer a number
        self.check_weights()
        tensors = {f"method.{k}": v for k, v in self.method.state_dict().items()}
        tensors |= {f"optimiser.{name}": t for name, t in self.memory().items()}
        for number, watcher in enumerate(self.watchers):
            tensors |= {f"watcher.{number}.{k}": v for k, v in watcher.state().items()}
        self.checkpointer.checkpoint(tensors, {"step": self.step})

    def memory(self) -> dict[str, Tensor]:
        """Return the optimisers' state, by optimiser, parameter and name."""
        return {
            f"{number}.{key}.{name}": value
            for number, optimiser in enumerate(self.optimisers)
            for key, state in optimiser.state_dict()["state"].items()
            for name, value in state.items()
            if value is not None
        }

    def _remember(self, number: int, player: Player, memory: Mapping[str, Tensor]) -> None:
        """Give an optimiser its memory back, laid out as its parameters are: fused kernels rely on it."""
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in memory.items():
            key, _, what = name.partition(".")
            like = player.parameters[int(key)]
            if tensor.shape == like.shape:
                tensor = torch.empty_like(like).copy_(tensor)
            state.setdefault(int(key), {})[what] = tensor
        optimiser = self.optimisers[number]
        optimiser.load_state_dict({**optimiser.state_dict(), "state": state})

    def restore(self) -> None:
        """Take up the checkpointer's checkpoint, if there is one."""
        checkpoint = self.checkpointer.resume() if self.checkpointer else None
        if checkpoint is None:
            return
        tensors, facts = checkpoint
        self.method.load_state_dict(under(tensors, "method."))
        for number, player in enumerate(self.players):
            self._remember(number, player, under(tensors, f"optimiser.{number}."))
        for number, watcher in enumerate(self.watchers):
            watcher.restore(under(tensors, f"watcher.{number}."))
        self.step = self.losses_since = self.began_at = facts["step"]
        self.clock += self.step


def _indices(order: Order, first: int, steps: int) -> Iterator[Tensor]:
    for start in range(first, steps, BLOCK):
        yield from order.draw(start, min(BLOCK, steps - start))

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
SHOW_EVERY = 1.0  # seconds between two updates of the progress


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
        # NaN as soon as any loss was not finite, otherwise 0.
        self.health = torch.zeros((), device=self.device)
        self.healthy_steps = torch.zeros_like(self.clock)  # the number of steps with finite losses
        self.losses: dict[str, Tensor] = {}  # sums since the last reading, on the device
        self.losses_since = self.began_at = 0
        self.began = 0.0  # when the first step began
        self.shown_at, self.last_loss = -math.inf, math.nan  # of the progress display
        self.team = current()
        # Hooks and communication between processes cannot be compiled.
        compiles = self.options.compile and self.team is None
        self._batch = compile_if(self.source.batch, compiles)
        self._forward = compile_if(self._losses, compiles)
        self.method.train()
        masks.follow(self.method, self.clock)

    @property
    def pace(self) -> FitOptions:
        """The options that must be equal for loops to advance in lockstep."""
        return replace(self.options, steps=0, seed=0, optimiser=Optimiser())

    @property
    def steps_left(self) -> int:
        return self.options.steps - self.step

    def feed(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Yield the inputs of the next `count` steps."""
        return self.source.feed(_indices(self.order, self.step, self.step + count))

    def ready(self, seconds: float) -> None:
        """Record how long compiling and recording the step took, and start the clock of the log."""
        self.began = self.began or time.perf_counter()
        if self.checkpointer and self.device.type == "cuda":
            self.checkpointer.log({"step": self.step, "setup_seconds": round(seconds, 3)})

    def set_rate(self) -> None:
        """Set the learning rate of the next step."""
        schedule = self.options.optimiser
        rate = schedule.rate_at(self.step, self.options.steps)
        if rate == self.rate and not schedule.head_first:
            return
        self.rate = rate
        for optimiser in self.optimisers:
            for group in optimiser.groups:
                optimiser.set_rate(
                    group, schedule.rate_at(self.step, self.options.steps, since=group.since)
                )

    def advance(self, *inputs: Tensor) -> None:
        """Update every player once. Only reads and writes tensors on the device."""
        with self._divide_step(len(inputs[0])):
            batch = self._batch(inputs[0], self.clock, *inputs[1:])
            for player, optimiser in zip(self.players, self.optimisers, strict=True):
                losses = self._forward(batch, player.name)
                optimiser.clear_gradients()
                losses["loss"].backward()  # type: ignore[no-untyped-call]
                if self.team is not None:
                    average_gradients(player.parameters, self.team)
                optimiser.step()
                self._add_up(player, losses)
        self.healthy_steps += self.health == 0
        self.clock += 1

    def _divide_step(self, size: int) -> AbstractContextManager[None]:
        """Divide the batch of a step over the processes that train together, if there are several."""
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
            self.last_loss, self.shown_at = row["loss"], -math.inf
            if self.checkpointer:
                self.checkpointer.log(row)
        if progress:
            self._show_progress(progress)
        for watcher in self.watchers:
            if last or done % watcher.every == 0:
                facts = self._call_watcher(watcher)
                if self.checkpointer and facts:
                    self.checkpointer.log({"step": done, **facts})
        if last:
            self.check_weights()

    def _show_progress(self, progress: Progress) -> None:
        """Show the progress: after the first step, once a second, and with every new loss."""
        now = time.perf_counter()
        if now - self.shown_at >= SHOW_EVERY:
            self.shown_at = now
            progress.update(self.step, self.options.steps, self.last_loss)

    def _call_watcher(self, watcher: Watcher) -> Mapping[str, float]:
        """Call a watcher with the method in eval mode."""
        self.method.eval()
        facts = watcher(self.method, self.step)
        self.method.train()
        return facts

    def read_losses(self) -> dict[str, Any]:
        """Return the mean losses since the last call; raise if one of them was not finite."""
        count = self.step - self.losses_since
        names = list(self.losses)
        values = [*self.losses.values(), self.health, self.healthy_steps]
        packed = torch.stack([t.double() for t in values])
        *sums, health, healthy_steps = packed.tolist()  # host sync
        if health != 0:
            raise TrainingError(
                f"the loss is not finite since step {self.began_at + int(healthy_steps)}. The last "
                "checkpoint before that step is kept. Lower the learning rate, or look for images "
                "with values that are not finite."
            )
        self.losses_since = self.step
        for total in self.losses.values():
            total.zero_()
        means = {name: value / count for name, value in zip(names, sums, strict=True)}
        if "loss" not in means:
            means["loss"] = sum(v for name, v in means.items() if name.endswith(".loss"))
        return {
            "step": self.step,
            **means,
            "rate": self.options.optimiser.rate_at(self.step - 1, self.options.steps),
            "seconds": round(time.perf_counter() - self.began, 6),
        }

    def check_weights(self) -> None:
        """Raise if a step with a finite loss gave weights that are not finite."""
        parameters = [p for player in self.players for p in player.parameters]
        if not torch.stack([torch.isfinite(p).all() for p in parameters]).all():
            raise TrainingError(
                f"some weights are not finite after step {self.step - 1}, though its loss was finite. "
                "The last checkpoint before that step is kept. Lower the learning rate."
            )

    def save(self) -> None:
        """Checkpoint everything the next step depends on."""
        if self.checkpointer is None:
            return
        if self.step > self.losses_since:
            self.checkpointer.log(self.read_losses())  # raises if a loss was not finite
        self.check_weights()
        tensors = {f"method.{k}": v for k, v in self.method.state_dict().items()}
        tensors |= {f"optimiser.{name}": t for name, t in self.optimiser_state().items()}
        for number, watcher in enumerate(self.watchers):
            tensors |= {f"watcher.{number}.{k}": v for k, v in watcher.state().items()}
        self.checkpointer.checkpoint(tensors, {"step": self.step})

    def optimiser_state(self) -> dict[str, Tensor]:
        """Return the state of the optimisers, by optimiser, parameter and name."""
        return {
            f"{number}.{key}.{name}": value
            for number, optimiser in enumerate(self.optimisers)
            for key, state in enumerate(optimiser.states)
            for name, value in state.items()
        }

    def restore(self) -> None:
        """Continue from the checkpointer's checkpoint, if there is one."""
        checkpoint = self.checkpointer.resume() if self.checkpointer else None
        if checkpoint is None:
            return
        tensors, facts = checkpoint
        self.method.load_state_dict(under(tensors, "method."))
        for number, optimiser in enumerate(self.optimisers):
            optimiser.load(_by_parameter(under(tensors, f"optimiser.{number}.")))
        for number, watcher in enumerate(self.watchers):
            watcher.restore(under(tensors, f"watcher.{number}."))
        self.step = self.losses_since = self.began_at = facts["step"]
        self.clock += self.step


def _indices(order: Order, first: int, steps: int) -> Iterator[Tensor]:
    for start in range(first, steps, BLOCK):
        yield from order.draw(start, min(BLOCK, steps - start))


def _by_parameter(saved: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Return the saved state of an optimiser by the numbers of its parameters."""
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in saved.items():
        number, _, what = name.partition(".")
        states.setdefault(int(number), {})[what] = tensor
    return states

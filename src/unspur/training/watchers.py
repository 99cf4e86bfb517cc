"""Watchers of training: they look at a method now and then, note how it does, keep weights worth keeping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from .. import masks
from ..data.batches import Source
from ..errors import TrainingError
from .method import Method
from .metrics import surprise
from .prediction import predict, under


class Unseen:
    """Samples that no stage trains on: some of a source, in order."""

    def __init__(self, source: Source, among: Tensor):
        self.source, self.among = source, None if bool(among.all()) else among
        self.targets = source.targets.cpu()[among]

    def inputs(self) -> Iterator[Tensor]:
        return self.source.plain(among=self.among)


class Curve:
    """A watcher that notes the accuracy on unseen samples."""

    def __init__(self, unseen: Unseen, *, every: int):
        self.unseen, self.every = unseen, every

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        # The device decides on the class: many small results are slow to fetch and to go through here.
        predicted = predict(lambda x: method.predict(x).argmax(1), self.unseen.inputs())
        return {"unseen_accuracy": float((predicted == self.unseen.targets).double().mean())}

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


class Best:
    """A watcher that keeps the iterate with the lowest balanced loss on samples outside training.

    The loss is 1 - p of the true class: bounded, so that a few confident mistakes do not decide.
    """

    def __init__(self, unseen: Unseen, conflict: Tensor, *, every: int):
        self.unseen, self.conflict, self.every = unseen, conflict, every
        self.loss, self.step = float("inf"), 0
        self.weights: dict[str, Tensor] = {}

    @property
    def sizes(self) -> dict[str, int]:
        return {"suspects": int(self.conflict.sum()), "others": int((~self.conflict).sum())}

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        return self.consider(method, step, predict(method.predict, self.unseen.inputs()))

    def consider(self, method: Method, step: int, logits: Tensor) -> Mapping[str, float]:
        """Keep the iterate if its loss is the lowest so far; `logits` are its answers."""
        each = surprise(logits, self.unseen.targets)
        suspects, others = each[self.conflict].mean(), each[~self.conflict].mean()
        loss = float(suspects + others) / 2
        if not math.isfinite(loss):
            raise TrainingError(
                f"at step {step} the network gives no finite prediction for samples outside training. "
                "Look for images among them that are not numbers, or blank ones that it divides by zero."
            )
        if loss < self.loss:
            self.loss, self.step = loss, step
            self.weights = masks.plain_state(cast(nn.Module, method.model))
        return {"heldout_suspects": float(suspects), "heldout_others": float(others)}

    def state(self) -> dict[str, Tensor]:
        mark = torch.tensor([self.loss, self.step], dtype=torch.float64)
        return {"mark": mark, **{f"weights.{k}": v for k, v in self.weights.items()}}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.loss, self.step = float(state["mark"][0]), int(state["mark"][1])
        self.weights = under(state, "weights.")


class Iterates:
    """A watcher that keeps the weights of the steps a recipe lists, for `evaluate` to score."""

    def __init__(self, steps: tuple[int, ...]):
        self.every = math.gcd(*steps) or 1
        self.steps = frozenset(steps)
        self.weights_by_step: dict[str, Tensor] = {}

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        if step in self.steps:
            weights = masks.plain_state(cast(nn.Module, method.model))
            self.weights_by_step |= {f"{step}.{name}": t for name, t in weights.items()}
        return {}

    def state(self) -> dict[str, Tensor]:
        return self.weights_by_step

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.weights_by_step = dict(state)


class EpochScores:
    """A watcher that averages each sample's surprise over the passes of training."""

    def __init__(
        self, inputs: Callable[[], Iterator[Tensor]], targets: Tensor, *, every: int, steps: int
    ):
        self.inputs, self.targets, self.every, self.steps = inputs, targets, every, steps
        self.score = torch.zeros(len(targets))

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        if step % self.every == 0:
            logits = predict(method.predict, self.inputs())
            self.score += surprise(logits, self.targets) * (self.every / self.steps)
        return {}

    def state(self) -> dict[str, Tensor]:
        return {"score": self.score}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.score = state["score"]

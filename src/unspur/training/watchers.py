"""Watchers of training: they measure a method from time to time and keep the weights of some steps."""

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
    """Samples of a source that no stage trains on, in order."""

    def __init__(self, source: Source, among: Tensor):
        self.source, self.among = source, None if bool(among.all()) else among
        self.targets = source.targets.cpu()[among]

    def inputs(self) -> Iterator[Tensor]:
        return self.source.plain(among=self.among)


class Curve:
    """A watcher that logs the accuracy on unseen samples."""

    def __init__(self, unseen: Unseen, *, every: int):
        self.unseen, self.every = unseen, every

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        # argmax runs on the device, because fetching all logits is slow.
        predicted = predict(lambda x: method.predict(x).argmax(1), self.unseen.inputs())
        return {"unseen_accuracy": float((predicted == self.unseen.targets).double().mean())}

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


class Best:
    """A watcher that keeps the weights of the step with the lowest balanced loss on held-out samples.

    The loss is 1 - p of the true class. It is bounded, so that a few confident errors do not dominate it.
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
        """Keep the weights if the loss of their predictions `logits` is the lowest so far."""
        each = surprise(logits, self.unseen.targets)
        suspects, others = each[self.conflict].mean(), each[~self.conflict].mean()
        loss = float(suspects + others) / 2
        if not math.isfinite(loss):
            raise TrainingError(
                f"at step {step} the predictions of the network for held-out samples are not finite. "
                "Look among these samples for images with values that are not finite, or for blank images "
                "whose normalisation divides by zero."
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
    """A watcher that averages the score of each sample (1 - p of its label) over the passes of training."""

    def __init__(
        self, inputs: Callable[..., Iterator[Tensor]], targets: Tensor, *, every: int, steps: int
    ):
        self.inputs, self.targets, self.every, self.steps = inputs, targets, every, steps
        self.score = torch.zeros(len(targets))

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        if step % self.every == 0:
            logits = predict(method.predict, self.inputs_at(step))
            self.score += surprise(logits, self.targets) * (self.every / self.steps)
        return {}

    def inputs_at(self, step: int) -> Iterator[Tensor]:
        """Return the images that are scored at a step: always the same."""
        return self.inputs()

    def state(self) -> dict[str, Tensor]:
        return {"score": self.score}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.score = state["score"]

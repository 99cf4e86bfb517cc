"""Select the best step, and score each sample with a step that was selected without it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .method import Method
from .metrics import surprise
from .prediction import predict
from .watchers import Best, Unseen

FOLDS = 5


class CrossValidated(Best):
    """A watcher that keeps the weights of the best step, and the predictions of every step for each sample.

    The best of many steps is a little better on the samples that selected it than on others. So each sample
    is scored by the step that the samples outside its fold select.
    """

    def __init__(self, unseen: Unseen, conflict: Tensor, *, every: int):
        super().__init__(unseen, conflict, every=every)
        self.surprise = torch.zeros(0, len(conflict))  # (steps, samples)
        self.right = torch.zeros(0, len(conflict), dtype=torch.bool)

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        logits = predict(method.predict, self.unseen.inputs())
        targets = self.unseen.targets
        self.surprise = torch.cat([self.surprise, surprise(logits, targets)[None]])
        self.right = torch.cat([self.right, (logits.argmax(1) == targets)[None]])
        return self.consider(method, step, logits)

    def right_when_unseen(self) -> Tensor:
        """Return for each sample whether the step that the other folds select predicts it correctly."""
        fold_of = _folds(self.conflict)
        right = torch.zeros(len(fold_of), dtype=torch.bool)
        for fold in range(FOLDS):
            members = fold_of == fold
            right[members] = self.right[self._select(~members)][members]
        return right

    def _select(self, among: Tensor) -> int:
        """Return the index of the step with the lowest balanced loss on some samples."""
        parts = [part for part in (self.conflict & among, ~self.conflict & among) if part.any()]
        losses = torch.stack([self.surprise[:, part].mean(1) for part in parts])
        return int(losses.sum(0).argmin())

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "surprise": self.surprise, "right": self.right}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        super().restore(state)
        self.surprise, self.right = state["surprise"], state["right"]


def _folds(conflict: Tensor) -> Tensor:
    """Return the fold of each sample; suspects and others are spread evenly over the folds."""
    fold_of = torch.zeros(len(conflict), dtype=torch.int64)
    for part in (conflict, ~conflict):
        fold_of[part] = torch.arange(int(part.sum())) % FOLDS
    return fold_of

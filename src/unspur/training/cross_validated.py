"""Select an iterate, and say how well one does that was selected without the samples it is scored on."""

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
    """A watcher that keeps the best iterate, and remembers what every iterate said of each sample.

    The best of many iterates on some samples does a little better on them than on others. So a sample is
    scored by the iterate that all samples outside its fold select.
    """

    def __init__(self, unseen: Unseen, conflict: Tensor, *, every: int):
        super().__init__(unseen, conflict, every=every)
        self.surprise = torch.zeros(0, len(conflict))  # of each iterate, for each sample
        self.right = torch.zeros(0, len(conflict), dtype=torch.bool)

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        logits = predict(method.predict, self.unseen.inputs())
        targets = self.unseen.targets
        self.surprise = torch.cat([self.surprise, surprise(logits, targets)[None]])
        self.right = torch.cat([self.right, (logits.argmax(1) == targets)[None]])
        return self.consider(method, step, logits)

    def right_when_unseen(self) -> Tensor:
        """Return which samples the iterate gets right that the other folds select."""
        fold_of = _folds(self.conflict)
        right = torch.zeros(len(fold_of), dtype=torch.bool)
        for fold in range(FOLDS):
            here = fold_of == fold
            right[here] = self.right[self._selected(~here)][here]
        return right

    def _selected(self, among: Tensor) -> int:
        """Return the number of the iterate with the lowest balanced loss on some samples."""
        parts = [part for part in (self.conflict & among, ~self.conflict & among) if part.any()]
        losses = torch.stack([self.surprise[:, part].mean(1) for part in parts])
        return int(losses.sum(0).argmin())

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "surprise": self.surprise, "right": self.right}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        super().restore(state)
        self.surprise, self.right = state["surprise"], state["right"]


def _folds(conflict: Tensor) -> Tensor:
    """Deal suspects and others into folds, each by turns."""
    fold_of = torch.zeros(len(conflict), dtype=torch.int64)
    for part in (conflict, ~conflict):
        fold_of[part] = torch.arange(int(part.sum())) % FOLDS
    return fold_of

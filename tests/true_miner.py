"""A miner that knows the bias labels, a judge that always says yes, and runs on own images with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import toys
from toys import shapes_set
from unspur.data.splits import Splits
from unspur.stages.context import Context
from unspur.stages.suspects import Suspects, oracle


@dataclass(frozen=True)
class TrueMiner:
    """A miner that knows the bias labels and records whether it was called."""

    splits: Splits
    asked: list[bool]

    @property
    def keys(self) -> Mapping[str, str]:
        return {"truth": "1"}

    def __call__(self) -> Mapping[str, Suspects]:
        self.asked.append(True)
        found = {}
        for name, part in self.splits.parts().items():
            conflicting = self.splits.conflicting(name)
            assert conflicting is not None
            found[name] = oracle(conflicting, part.targets)
        return found

    def cost(self) -> tuple[int, float]:
        return 0, 0.0


def train_only(splits: Splits) -> Splits:
    return replace(splits, valid=None, test=None, bias={"train": splits.bias["train"]})


def own(store: Path, splits: Splits) -> Context:
    context = toys.context(store, ["mine.how=crossfit", "select.minimum=2"], splits=splits)
    return replace(context, miner=TrueMiner(splits, []))


@dataclass(frozen=True)
class Yes:
    """A judge that always finds a shortcut."""

    verdict: str = "shortcut"
    debias: bool = True
    text: str = "A shortcut is likely: told so."

    def __call__(self) -> Yes:
        return self


def judged(store: Path) -> Context:
    """Return the context of a run without bias labels for which a judge finds a shortcut."""
    splits = train_only(shapes_set(samples=600, conflicting=200, seed=1))
    return replace(own(store, splits), judge=Yes())

"""A stage of a run as one record: name, needed stages, key, cost and work.

The work of a stage is a generator. It yields the trainings to run, one at a time, and returns a typed result.
A stage also works if a plan leaves out earlier stages: without suspects batches are uniform, without
pretraining it starts from the initial network, and without masks it uses all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from ..recipes import Recipe
from ..store.hashing import digest
from ..training.inputs import Training
from .context import Context
from .results import Results, StageResult

Work = Generator[Training, None, StageResult]


def nothing_more(context: Context, mined: bool) -> dict[str, Any]:
    """Add nothing to a key."""
    return {}


def usual_key(context: Context) -> dict[str, Any] | None:
    """Return None, for the usual key of settings, data and network."""
    return None


def always(recipe: Recipe) -> bool:
    """Mix the batches of a stage if the recipe asks for it."""
    return True


def never(recipe: Recipe) -> bool:
    """Never mix the batches of a stage."""
    return False


def no_demands(context: Context) -> None:
    """Require nothing of the context."""


def no_preparation(context: Context) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Stage:
    """One stage of a run; its settings are the recipe's table of the same name.

    Increase `version` if the same settings give another result. `needs` are the stages whose results it uses
    if the plan has them. `more_key(context, mined)` returns what else its result depends on; `mined` is True
    if the plan has a mining stage before. `whole_key(context)` returns all that its result depends on, or
    None for the usual key of settings, data and network. A step takes about as long as `cost` ordinary steps,
    and `copies` networks are stored. `check` raises before training if a requirement is missing. `prepare`
    is called when a run begins, and starts in the background what the stage needs later.
    `mixes(recipe)` returns whether its batches are mixed if the recipe asks for mixing.
    """

    name: str
    work: Callable[[Context, Results], Work]
    version: int = 1
    needs: tuple[str, ...] = ()
    more_key: Callable[[Context, bool], dict[str, Any]] = nothing_more
    whole_key: Callable[[Context], dict[str, Any] | None] = usual_key
    cost: float = 1.0
    copies: int = 1
    check: Callable[[Context], None] = no_demands
    prepare: Callable[[Context], None] = no_preparation
    mixes: Callable[[Recipe], bool] = always

    def ingredients(self, context: Context, parents: Mapping[str, str]) -> dict[str, Any]:
        """Return what the result depends on; `parents` are the keys of the earlier stages."""
        recipe, whole = context.recipe, self.whole_key(context)
        if whole is not None:
            return {"stage": self.name, "version": self.version, **whole}
        parts: dict[str, Any] = {
            "stage": self.name,
            "version": self.version,
            "settings": recipe.table(self.name).model_dump(mode="json"),
            "seed": recipe.seed,
            "parents": {name: parents[name] for name in self.needs if name in parents},
            "device": context.device.type,
            "precision": recipe.precision,
            "deterministic": recipe.deterministic,
            "compile": recipe.compile,
            "data": context.splits.digest,
            "input": self._input(recipe),
            "kept_out": context.kept_out_digest,
            "builder": context.builder.source,
            "initial": context.initial_digest,
        }
        # A file of weights to start from is covered by `initial`.
        if recipe.start.warmup or recipe.start.head_first:
            parts["start"] = recipe.start.model_dump(include={"warmup", "head_first"})
        if context.corrections is not None and bool(context.corrections.excluded.any()):
            parts["held_out"] = digest("", context.held_out)
        return parts | self.more_key(context, "mine" in parents)

    def _input(self, recipe: Recipe) -> dict[str, Any]:
        """Return the settings of the network input; mixing is included only if it is on."""
        parts = recipe.data.model_dump(mode="json", include={"augment", "mean", "std"})
        if not self.mixes(recipe):
            return parts
        mixing = recipe.data.model_dump(mode="json", include={"spectrum", "style", "mix"})
        return parts | {name: value for name, value in mixing.items() if value}

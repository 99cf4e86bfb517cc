"""Mine: find the training samples that contradict the shortcut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..data.batches import CHUNK, Source
from ..errors import RecipeError
from ..methods import ERM, Amplified, Confident
from ..parallel import process_count
from ..store import Artifact
from ..training.inputs import Watcher
from ..training.method import Method
from ..training.numerics import deterministic, matmul_precision
from ..training.prediction import predict
from ..training.watchers import EpochScores
from .context import Context
from .corrections import Corrections
from .results import MinedSuspects, Results
from .stage import Stage, Work, never
from .stage_groups import group_of, threads_of
from .suspects import Suspects, above, misclassified, oracle
from .trainings import make_training, training_source

ENSEMBLES = ("epoch-ensemble", "augmented-ensemble")
SPLIT_NAMES = {"train": "training", "valid": "validation"}


def mine(context: Context, results: Results) -> Work:
    """Find suspects. If a user has corrected the flags, these replace the mined ones."""
    if context.corrections is None or "given" not in MINE.ingredients(context, {}):
        return (yield from _mine(context))
    # The scores are those of the mining before the corrections. If it is not stored, because the user
    # excluded samples, the miner runs again.
    before = mining_before(context)
    mined = MinedSuspects.of(before) if before else (yield from _mine(context))
    assert isinstance(mined, MinedSuspects)
    train = mined.splits["train"]
    corrected = Suspects(train.score, context.corrections.conflict, train.predicted)
    return MinedSuspects({**mined.splits, "train": corrected})


def mining_before(context: Context) -> Artifact | None:
    """Return the stored mining that the user's corrections refer to, or None if there is none."""
    ingredients = MINE.ingredients(context, {})
    ingredients.pop("given", None)
    with threads_of(context, group_of(context, "mine")):
        return context.store.find(ingredients)


def _are_unchanged(context: Context, corrections: Corrections) -> bool:
    """Return whether the user's flags are the same as the mined ones."""
    if bool(corrections.excluded.any()):
        return False
    before = mining_before(replace(context, corrections=None))
    if before is None:
        return False
    return torch.equal(MinedSuspects.of(before).splits["train"].conflict, corrections.conflict)


def _mine(context: Context) -> Work:
    settings = context.recipe.mine
    if settings.how == "oracle":
        return _ask_oracle(context)
    if context.miner is not None:
        return MinedSuspects(context.miner())
    samples = _ScoredSamples(context)
    method = context.place(_miner(context))
    epochs = samples.epoch_scores()
    watchers: list[Watcher] = [epochs] if settings.how in ENSEMBLES else []
    # The miner should learn the shortcut, so images are not mixed.
    source = training_source(context, context.seed("mine"), mixes=False)
    yield make_training(
        context, "mine", method, settings, source=source, watchers=watchers, begins=True
    )
    with matmul_precision(context.recipe.precision), deterministic(context.recipe.deterministic):
        logits = predict(method.eval().predict, samples.inputs())
    if watchers:
        suspects = above(epochs.score, logits, threshold=settings.threshold)
    else:
        suspects = misclassified(logits, samples.targets)
    return samples.by_split(suspects)


def _miner(context: Context) -> Method:
    """Build the miner, which learns easy samples first."""
    settings, model = context.recipe.mine, context.network(seed="miner")
    released = settings.gce_form == "released"
    warm_up = settings.warm_up * (int((~context.kept_out).sum()) // settings.batch)
    kinds: dict[str, Callable[[], Method]] = {
        "gce": lambda: Amplified(model, q=settings.q, released=released, warm_up=warm_up),
        "early-stopped": lambda: ERM(model),
        **dict.fromkeys(ENSEMBLES, lambda: Confident(model, eta=settings.eta, warm_up=warm_up)),
    }
    return kinds[settings.how]()


class _AugmentedScores(EpochScores):
    """Epoch scores over images that are augmented anew in every pass."""

    def inputs_at(self, step: int) -> Iterator[Tensor]:
        return self.inputs(step)


class _ScoredSamples:
    """The samples that a miner scores: the training split and, if there is one, the validation split."""

    def __init__(self, context: Context):
        self.context = context
        self.sources: dict[str, Source] = {"train": context.train}
        if context.valid is not None:
            self.sources["valid"] = context.valid
        self.targets = torch.cat([source.targets.cpu() for source in self.sources.values()])

    def inputs(self) -> Iterator[Tensor]:
        """Yield the images of all splits as network input."""
        for source in self.sources.values():
            yield from source.plain()

    def epoch_scores(self) -> EpochScores:
        """Return a watcher that scores every sample once per pass."""
        settings = self.context.recipe.mine
        one_pass = int((~self.context.kept_out).sum()) // settings.batch
        every = max(1, min(one_pass, settings.steps))
        if settings.how == "augmented-ensemble":
            return _AugmentedScores(self.augmented, self.targets, every=every, steps=settings.steps)
        return EpochScores(self.inputs, self.targets, every=every, steps=settings.steps)

    def augmented(self, step: int = 0) -> Iterator[Tensor]:
        """Yield the images of all splits as network input, augmented as in training, anew at each step."""
        context = self.context
        for name, plain in self.sources.items():
            source = context.source(
                context.splits.parts()[name],
                augment=context.recipe.data.augment,
                seed=context.seed(f"scores of {name}"),
            )
            every = torch.arange(len(plain.targets), device=context.device)
            portions = torch.split(every, CHUNK)
            for number, index in enumerate(portions):
                time = torch.tensor(step * len(portions) + number, device=context.device)
                yield source.batch(index, time).x

    def by_split(self, suspects: Suspects) -> MinedSuspects:
        """Divide the suspects of all samples by split."""
        parts, start = {}, 0
        for name, source in self.sources.items():
            parts[name] = suspects[start : start + len(source.targets)]
            start += len(source.targets)
        return MinedSuspects(parts)


def _ask_oracle(context: Context) -> MinedSuspects:
    """Return the truly conflicting samples of each split."""
    splits, suspects = context.splits, {}
    for name in [name for name in SPLIT_NAMES if name in splits.parts()]:
        conflicting = splits.conflicting(name)
        if conflicting is None:
            raise RecipeError(
                f'mine.how = "oracle" needs bias labels of the {SPLIT_NAMES[name]} split; there are none.'
            )
        suspects[name] = oracle(conflicting, splits.parts()[name].targets)
    return MinedSuspects(suspects)


def _more_key(context: Context, mined: bool) -> dict[str, Any]:
    """Add the bias labels (for the oracle) and the user's corrections to the key."""
    more: dict[str, Any] = {}
    if context.recipe.mine.how == "oracle":
        more["truth"] = context.splits.truth_digest
    if context.corrections is not None and not _are_unchanged(context, context.corrections):
        more["given"] = context.corrections.digest
    return more


def _whole_key(context: Context) -> dict[str, Any] | None:
    """Return the key of suspects from networks outside the plan: their keys, and the user's corrections."""
    if context.miner is None:
        return None
    more = _more_key(context, mined=False)
    return {"crossfit": dict(context.miner.keys), **more}


def check(context: Context) -> None:
    """Raise if the recipe needs an audit to find suspects and there is none."""
    if context.recipe.mine.how == "crossfit" and context.miner is None:
        raise RecipeError(
            'mine.how = "crossfit" needs an audit of the images, which `unspur debias` and `unspur run` '
            "make from at least two classes. Open the run with unspur.workflow, or choose another miner."
        )
    if context.recipe.mine.how == "augmented-ensemble" and process_count() > 1:
        raise RecipeError(
            f'mine.how = "augmented-ensemble" works in one process, not in {process_count()}. Choose '
            '"epoch-ensemble", or start one process.'
        )


MINE = Stage(
    "mine",
    mine,
    more_key=_more_key,
    whole_key=_whole_key,
    check=check,
    copies=0,
    mixes=never,
)

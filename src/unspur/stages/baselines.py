"""The stages of what debiasing is compared with: control masks, a refitted head, methods of one stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import masks
from ..data.batches import Source
from ..errors import ModelError, RecipeError
from ..masks import ranking
from ..methods import DisEnt, EnD, GroupDRO, LfF, ReBias, dfr
from ..models.head import find_head, penultimate
from ..recipes.settings import MethodSettings
from ..training import metrics, sampling
from ..training.loop import under
from ..training.method import Method
from ..training.numerics import deterministic, matmul_precision
from ..training.watchers import Iterates
from .chain import Work, make_training, pruned, trained
from .context import Context, Made, weights_of
from .mining import Suspects


def control(context: Context, made: Made) -> Work:
    """Masks by chance or by size that keep as many weights as the learned ones."""
    settings, learned = context.recipe.control, under(made["prune"].tensors, "keep.")
    model = context.network(weights_of(made, "pretrain"))
    weights = {name: p.detach() for name, p in model.named_parameters() if name in learned}
    score: dict[str, Callable[[], dict[str, Tensor]]] = {
        "random": lambda: ranking.chance(weights, seed=context.seed("control")),
        "magnitude": lambda: ranking.magnitude(weights),
    }
    scores = score[settings.how]()
    if settings.spread == "layer":
        keep = ranking.keep_counts(scores, learned)
    else:
        keep = ranking.keep_share(scores, masks.density(learned))
    masks.apply(context.place(model), keep)
    yield from ()  # nothing to train
    return pruned(context, made, model)


def refit(context: Context, made: Made) -> Work:
    """The ordinary model with a new head, fitted to balanced groups."""
    settings = context.recipe.refit
    among, conflict = _groups(context, made)
    source = context.resident(settings.on)
    model = context.place(context.network(weights_of(made, "pretrain")))
    with matmul_precision(context.recipe.precision), deterministic(context.recipe.deterministic):
        features = penultimate(model, context.head, source.plain(among=among))
    head, facts = dfr.refit(
        features,
        source.targets.cpu()[among],
        conflict[among],
        classes=len(context.splits.classes),
        strengths=settings.strengths,
        subsets=settings.subsets,
        seed=context.seed("refit"),
        device=context.device
        if context.device.type == "cuda"
        else None,  # others have no doubles, or no need
    )
    weights = {**model.state_dict(), **_layer(context, head)}
    yield from ()  # nothing to train
    chosen = {"rule": "last", "reason": "the head was refitted"}
    tensors = {f"weights.{name}": t for name, t in weights.items()}
    return tensors, {"refit": facts, "selection": chosen}


def check_refit(context: Context) -> None:
    """Raise if there is nothing to refit, or nothing to refit it to."""
    if context.recipe.refit.on not in context.splits.parts():
        raise RecipeError(
            'refit.on = "valid" needs a validation split; there is none. Use "train".'
        )
    if f"{context.head}.bias" not in context.initial:
        raise ModelError(
            f"{context.head} has no bias, and a refitted head needs one. Give it a bias."
        )


def _groups(context: Context, made: Made) -> tuple[Tensor, Tensor]:
    """Which samples of the split are refitted to, and which of the split contradict the bias."""
    split = context.recipe.refit.on
    if "mine" in made:
        conflict = Suspects.of(made["mine"].tensors, split).conflict
    else:
        context.bias(split)
        conflict = context.splits.conflicting(split)  # type: ignore[assignment]
    return ~context.kept_out if split == "train" else torch.ones_like(conflict), conflict


def _layer(context: Context, head: dfr.Head) -> dict[str, Tensor]:
    """The new head under its names in the network."""
    return {
        f"{context.head}.weight": head.weight.float(),
        f"{context.head}.bias": head.bias.float(),
    }


def train(name: str, context: Context, made: Made) -> Work:
    """A method that is one stage of its own, from the initial network."""
    settings: MethodSettings = getattr(context.recipe, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(context.seed("heads"))  # layers a method adds are a function of the seed
        method = context.place(MAKE[name](context, context.network(context.initial)))
    iterates = Iterates(settings.iterates)
    watchers = [iterates] if settings.iterates else []
    source, order = _batches(context, name, method, settings)
    yield make_training(
        context, name, method, settings, source=source, order=order, watchers=watchers
    )
    chosen = {"rule": "last", "step": settings.steps, "reason": "asked for"}
    weights = masks.plain_state(cast(nn.Module, method.model))
    return trained(weights, iterates), {"selection": chosen}


def _batches(
    context: Context, name: str, method: Method, settings: MethodSettings
) -> tuple[Source | None, sampling.Order | None]:
    """Data with bias labels for a method that uses them; groups equally often for GroupDRO."""
    if not method.uses_bias_labels:
        return None, None
    seed, train = context.seed(name), context.splits.train
    source = context.source(
        train, augment=context.recipe.data.augment, seed=seed, bias=context.bias()
    )
    if name != "groupdro":
        return source, None
    held = _group_counts(context)[train.targets, context.bias()]
    odds = torch.where(context.kept_out, 0.0, 1 / held.double()).to(context.device)
    return source, sampling.Weighted(odds, batch=settings.batch, seed=seed)


def _group_counts(context: Context) -> Tensor:
    """How many training samples every (target, bias) cell holds."""
    biases, classes = int(context.bias().max()) + 1, len(context.splits.classes)
    return metrics.group_counts(
        context.splits.train.targets[~context.kept_out],
        context.bias()[~context.kept_out],
        classes=classes,
        biases=biases,
    )


def _lff(context: Context, model: nn.Module) -> Method:
    settings = context.recipe.lff
    return LfF(model, **_second(context), q=settings.q, memory=settings.memory)


def _disent(context: Context, model: nn.Module) -> Method:
    own = {"biased_weight", "swap_weight", "swap_biased_weight", "swap_start", "q", "memory"}
    options = context.recipe.disent.model_dump(include=own)
    head = find_head(model, context.probe)
    return DisEnt(model, **_second(context), head=head, seed=context.seed("swap"), **options)


def _second(context: Context) -> dict[str, Any]:
    """A second network, and the labels of all training samples."""
    return {"biased": context.network(seed="biased"), "targets": context.splits.train.targets}


def _end(context: Context, model: nn.Module) -> Method:
    options = context.recipe.end.model_dump(include={"disentangle", "entangle", "pairs"})
    return EnD(model, head=context.head, **options)


def _rebias(context: Context, model: nn.Module) -> Method:
    settings = context.recipe.rebias
    biased = context.biased.build(context.seed("biased"))
    biased_head = settings.network.head or find_head(biased, context.probe)
    options = settings.model_dump(include={"weight", "biased_weight", "radius"})
    return ReBias(model, biased=biased, head=context.head, biased_head=biased_head, **options)


def _groupdro(context: Context, model: nn.Module) -> Method:
    options = context.recipe.groupdro.model_dump(include={"eta", "adjustment"})
    return GroupDRO(model, counts=_group_counts(context), **options)


MAKE: dict[str, Callable[[Context, nn.Module], Method]] = {
    "lff": _lff,
    "disent": _disent,
    "end": _end,
    "rebias": _rebias,
    "groupdro": _groupdro,
}

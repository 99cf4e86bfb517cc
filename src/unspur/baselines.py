"""The stages of what debiasing is compared with: control masks, a refitted head, methods of one stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from . import masks, metrics, sampling
from .chain import Work, job, pruned, trained
from .data.source import Source
from .errors import ModelError, RecipeError
from .features import find_head, penultimate
from .lab import Lab, Made, weights_of
from .method import Method
from .methods import DisEnt, EnD, GroupDRO, LfF, ReBias, cutting, dfr
from .mining import Suspects
from .runtime import deterministic, matmul_precision
from .settings import Alone
from .train import under
from .watchers import Iterates


def control(lab: Lab, made: Made) -> Work:
    """Masks by chance or by size that keep as many weights as the learned ones."""
    settings, learned = lab.recipe.control, under(made["prune"].tensors, "keep.")
    model = lab.network(weights_of(made, "pretrain"))
    weights = {name: p.detach() for name, p in model.named_parameters() if name in learned}
    score: dict[str, Callable[[], dict[str, Tensor]]] = {
        "random": lambda: cutting.chance(weights, seed=lab.seed("control")),
        "magnitude": lambda: cutting.magnitude(weights),
    }
    scores = score[settings.how]()
    if settings.spread == "layer":
        keep = cutting.keep_counts(scores, learned)
    else:
        keep = cutting.keep_share(scores, masks.density(learned))
    masks.apply(lab.place(model), keep)
    yield from ()  # nothing to train
    return pruned(lab, made, model)


def refit(lab: Lab, made: Made) -> Work:
    """The ordinary model with a new head, fitted to balanced groups."""
    settings = lab.recipe.refit
    among, conflict = _groups(lab, made)
    source = lab.resident(settings.on)
    model = lab.place(lab.network(weights_of(made, "pretrain")))
    with matmul_precision(lab.recipe.precision), deterministic(lab.recipe.deterministic):
        features = penultimate(model, lab.head, source.plain(among=among))
    head, facts = dfr.refit(
        features,
        source.targets.cpu()[among],
        conflict[among],
        classes=len(lab.splits.classes),
        strengths=settings.strengths,
        subsets=settings.subsets,
        seed=lab.seed("refit"),
        device=lab.device
        if lab.device.type == "cuda"
        else None,  # others have no doubles, or no need
    )
    weights = {**model.state_dict(), **_layer(lab, head)}
    yield from ()  # nothing to train
    chosen = {"rule": "last", "reason": "the head was refitted"}
    tensors = {f"weights.{name}": t for name, t in weights.items()}
    return tensors, {"refit": facts, "selection": chosen}


def check_refit(lab: Lab) -> None:
    """Raise if there is nothing to refit, or nothing to refit it to."""
    if lab.recipe.refit.on not in lab.splits.parts():
        raise RecipeError(
            'refit.on = "valid" needs a validation split; there is none. Use "train".'
        )
    if f"{lab.head}.bias" not in lab.initial:
        raise ModelError(f"{lab.head} has no bias, and a refitted head needs one. Give it a bias.")


def _groups(lab: Lab, made: Made) -> tuple[Tensor, Tensor]:
    """Which samples of the split are refitted to, and which of the split contradict the bias."""
    split = lab.recipe.refit.on
    if "mine" in made:
        conflict = Suspects.of(made["mine"].tensors, split).conflict
    else:
        lab.bias(split)
        conflict = lab.splits.conflicting(split)  # type: ignore[assignment]
    return ~lab.kept_out if split == "train" else torch.ones_like(conflict), conflict


def _layer(lab: Lab, head: dfr.Head) -> dict[str, Tensor]:
    """The new head under its names in the network."""
    return {f"{lab.head}.weight": head.weight.float(), f"{lab.head}.bias": head.bias.float()}


def train(name: str, lab: Lab, made: Made) -> Work:
    """A method that is one stage of its own, from the initial network."""
    settings: Alone = getattr(lab.recipe, name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(lab.seed("heads"))  # layers a method adds are a function of the seed
        method = lab.place(MAKE[name](lab, lab.network(lab.initial)))
    iterates = Iterates(settings.iterates)
    watchers = [iterates] if settings.iterates else []
    source, order = _batches(lab, name, method, settings)
    yield job(lab, name, method, settings, source=source, order=order, watchers=watchers)
    chosen = {"rule": "last", "step": settings.steps, "reason": "asked for"}
    weights = masks.plain_state(cast(nn.Module, method.model))
    return trained(weights, iterates), {"selection": chosen}


def _batches(
    lab: Lab, name: str, method: Method, settings: Alone
) -> tuple[Source | None, sampling.Order | None]:
    """Data with bias labels for a method that uses them; groups equally often for GroupDRO."""
    if not method.uses_bias_labels:
        return None, None
    seed, train = lab.seed(name), lab.splits.train
    source = lab.source(train, augment=lab.recipe.data.augment, seed=seed, bias=lab.bias())
    if name != "groupdro":
        return source, None
    held = _group_counts(lab)[train.targets, lab.bias()]
    odds = torch.where(lab.kept_out, 0.0, 1 / held.double()).to(lab.device)
    return source, sampling.Weighted(odds, batch=settings.batch, seed=seed)


def _group_counts(lab: Lab) -> Tensor:
    """How many training samples every (target, bias) cell holds."""
    biases, classes = int(lab.bias().max()) + 1, len(lab.splits.classes)
    return metrics.group_counts(
        lab.splits.train.targets[~lab.kept_out],
        lab.bias()[~lab.kept_out],
        classes=classes,
        biases=biases,
    )


def _lff(lab: Lab, model: nn.Module) -> Method:
    settings = lab.recipe.lff
    return LfF(model, **_second(lab), q=settings.q, memory=settings.memory)


def _disent(lab: Lab, model: nn.Module) -> Method:
    own = {"biased_weight", "swap_weight", "swap_biased_weight", "swap_start", "q", "memory"}
    options = lab.recipe.disent.model_dump(include=own)
    head = find_head(model, lab.probe)
    return DisEnt(model, **_second(lab), head=head, seed=lab.seed("swap"), **options)


def _second(lab: Lab) -> dict[str, Any]:
    """A second network, and the labels of all training samples."""
    return {"biased": lab.network(seed="biased"), "targets": lab.splits.train.targets}


def _end(lab: Lab, model: nn.Module) -> Method:
    options = lab.recipe.end.model_dump(include={"disentangle", "entangle", "pairs"})
    return EnD(model, head=lab.head, **options)


def _rebias(lab: Lab, model: nn.Module) -> Method:
    settings = lab.recipe.rebias
    biased = lab.biased.build(lab.seed("biased"))
    biased_head = settings.network.head or find_head(biased, lab.probe)
    options = settings.model_dump(include={"weight", "biased_weight", "radius"})
    return ReBias(model, biased=biased, head=lab.head, biased_head=biased_head, **options)


def _groupdro(lab: Lab, model: nn.Module) -> Method:
    options = lab.recipe.groupdro.model_dump(include={"eta", "adjustment"})
    return GroupDRO(model, counts=_group_counts(lab), **options)


MAKE: dict[str, Callable[[Lab, nn.Module], Method]] = {
    "lff": _lff,
    "disent": _disent,
    "end": _end,
    "rebias": _rebias,
    "groupdro": _groupdro,
}

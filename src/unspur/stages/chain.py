"""The stages of debiasing: mine, pretrain, prune, finetune, and the pieces other stages share with them.

A stage is a generator. It yields the trainings it wants done, one at a time, and returns its result: tensors
to keep, and facts. What a plan leaves out is done without: no suspects means uniform batches, no pretrained
network means the initial one, no masks means all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import masks
from ..data.batches import Source
from ..data.splits import Splits
from ..errors import RecipeError
from ..masks import multiply_adds, ranking
from ..masks.reachable import reachable
from ..methods import ERM, Amplified, Confident, Debiased, MaskSearch, grasp
from ..recipes.settings import Debias, TrainingSettings
from ..training import sampling
from ..training.inputs import Training, Watcher
from ..training.loop import predict
from ..training.method import Method
from ..training.numerics import deterministic, matmul_precision
from ..training.watchers import Best, Curve, EpochScores, Iterates, Unseen
from . import channel_pruning, mining
from .context import Context, Made, Result, last_stage, masks_of, weights_of
from .mining import Suspects

Work = Generator[Training, None, Result]


def mine(context: Context, made: Made) -> Work:
    """Which training samples contradict the shortcut: as mined, corrected by a user who has looked."""
    if context.corrections is None:
        return (yield from _mine(context))
    # What was mined before the user looked, unless samples were excluded since: then it is mined anew.
    ingredients = context.ingredients("mine", {})
    del ingredients["given"]
    before = context.store.find(ingredients)
    tensors, facts = (before.tensors, before.facts) if before else (yield from _mine(context))
    flagged = int(context.corrections.conflict.sum())
    return {**tensors, "train.conflict": context.corrections.conflict}, {
        **facts,
        "flagged": flagged,
    }


def _mine(context: Context) -> Work:
    settings, splits = context.recipe.mine, context.splits
    if settings.how == "oracle":
        return _ask_oracle(splits), {}
    model = context.network(seed="miner")
    methods: dict[str, Callable[[], Method]] = {
        "gce": lambda: Amplified(model, q=settings.q, released=settings.gce_form == "released"),
        "early-stopped": lambda: ERM(model),
        "epoch-ensemble": lambda: Confident(model, eta=settings.eta),
    }
    method = context.place(methods[settings.how]())
    scored = [("train", context.train), *([("valid", context.valid)] if context.valid else [])]
    targets = torch.cat([source.targets.cpu() for _, source in scored])

    def inputs() -> Iterator[Tensor]:
        for _, source in scored:
            yield from source.plain()

    passed = int((~context.kept_out).sum()) // settings.batch
    every = max(1, min(passed, settings.steps))
    epochs = EpochScores(inputs, targets, every=every, steps=settings.steps)
    watchers = [epochs] if settings.how == "epoch-ensemble" else []
    yield make_training(context, "mine", method, settings, watchers=watchers)
    with matmul_precision(context.recipe.precision), deterministic(context.recipe.deterministic):
        logits = predict(method.eval().predict, inputs())
    if watchers:
        suspects = mining.above(epochs.score, logits, threshold=settings.threshold)
    else:
        suspects = mining.misclassified(logits, targets)
    tensors: dict[str, Tensor] = {}
    start = 0
    for name, source in scored:
        part = slice(start, start := start + len(source.targets))
        piece = Suspects(suspects.score[part], suspects.conflict[part], suspects.predicted[part])
        tensors |= piece.tensors(name)
    return tensors, {"flagged": int(tensors["train.conflict"].sum())}


def _ask_oracle(splits: Splits) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    spoken = {"train": "training", "valid": "validation"}
    for name in spoken.keys() & splits.parts().keys():
        conflicting = splits.conflicting(name)
        if conflicting is None:
            raise RecipeError(
                f'mine.how = "oracle" needs bias labels of the {spoken[name]} split; there are none.'
            )
        tensors |= mining.oracle(conflicting, splits.parts()[name].targets).tensors(name)
    return tensors


def pretrain(context: Context, made: Made) -> Work:
    """The ordinary, biased model."""
    method = context.place(ERM(context.network(context.initial)))
    yield make_training(context, "pretrain", method, context.recipe.pretrain)
    return dict(method.model.state_dict()), {}


def prune(context: Context, made: Made) -> Work:
    """Which weights survive: by masks that are learned, or by a score."""
    settings = context.recipe.prune
    model = context.network(latest(context, made))
    logits: dict[str, Tensor] = {}
    if settings.how == "learned":
        yield _mask_search(context, made, model)
        logits = {name: p.detach().clone() for name, p in masks.logits(model).items()}
        if settings.unit == "channel" and settings.cut == "share":
            channel_pruning.fit(context, model)
    else:
        masks.apply(context.place(model), _cut(context, model))
    tensors, facts = pruned(context, made, model)
    return {**{f"logits.{name}": t for name, t in logits.items()}, **tensors}, facts


def _mask_search(context: Context, made: Made, model: nn.Module) -> Training:
    settings = context.recipe.prune
    masks.attach(
        model,
        init=settings.init,
        noise=settings.noise,
        keep_zero=settings.keep_zero,
        seed=context.seed("masks"),
        unit=settings.unit,
        weigh=settings.weigh,
        example=context.probe,
    )
    search = MaskSearch(
        model,
        head=context.head,
        sparsity=settings.sparsity,
        penalty=settings.penalty,
        **_loss(settings),
    )
    source, order = drawn(context, "prune", settings, made)
    return make_training(
        context, "prune", context.place(search), settings, source=source, order=order
    )


def _cut(context: Context, model: nn.Module) -> dict[str, Tensor]:
    """The masks of a rule that needs no training."""
    settings, names = context.recipe.prune, whole(context).keys()
    if settings.unit == "channel":
        return channel_pruning.cut(context, model)
    weights = {name: p.detach() for name, p in model.named_parameters() if name in names}
    score: dict[str, Callable[[], dict[str, Tensor]]] = {
        "magnitude": lambda: ranking.magnitude(weights),
        "random": lambda: ranking.chance(weights, seed=context.seed("masks")),
        "grasp": lambda: _flow(context, list(weights)),
    }
    return ranking.keep_share(score[settings.how](), settings.keep)


def _flow(context: Context, names: Sequence[str]) -> dict[str, Tensor]:
    """GraSP's scores at the initial weights, the highest being those to keep."""
    model, targets = context.place(context.network(context.initial)), context.train.targets.cpu()
    index = grasp.balanced(targets, ~context.kept_out, each=10, seed=context.seed("grasp"))
    among = torch.zeros(len(targets), dtype=torch.bool)
    among[index] = True
    x = torch.cat(list(context.train.plain(among=among)))[torch.argsort(torch.argsort(index))]
    with matmul_precision(context.recipe.precision):
        scores = grasp.scores(model, names, x, targets[index].to(x.device))
    return {name: -score for name, score in scores.items()}


def pruned(context: Context, made: Made, model: nn.Module) -> Result:
    """A masked model as a result: masks fixed, batch norm estimated anew under them, weights baked."""
    settings = context.recipe.prune
    keep = masks.harden(model)
    source, order = drawn(context, "prune", settings, made)
    with matmul_precision(context.recipe.precision), deterministic(context.recipe.deterministic):
        refresh_batch_norm(
            model, source, order, first=settings.steps, batches=settings.batch_norm_batches
        )
    masks.bake(model)
    weights = {name: t for name, t in keep.items() if t.dim() > 1}  # not the scales of channels
    reach = reachable(context.network(), context.probe[:1], list(weights))
    times = multiply_adds.uses(context.network(), context.probe, list(weights))
    return {
        **{f"keep.{name}": t for name, t in keep.items()},
        **{f"weights.{name}": t for name, t in model.state_dict().items()},
    }, {**density_facts(weights, reach), "macs": multiply_adds.share_kept(weights, times)}


def density_facts(keep: Mapping[str, Tensor], reach: Mapping[str, Tensor]) -> dict[str, Any]:
    """The share of weights kept: overall, among those that touch data, and by layer."""
    return {
        "overall": masks.density(keep),
        "reachable": masks.density(keep, reach),
        "layers": {name: masks.density({name: t}) for name, t in keep.items()},
    }


def finetune(context: Context, made: Made) -> Work:
    """The survivors, retrained."""
    settings = context.recipe.finetune
    model = context.network(
        context.initial if settings.start == "initial" else latest(context, made)
    )
    keep = masks_of(made) or (whole(context) if settings.drop else {})
    masks.apply(model, keep, drop=settings.drop, seed=context.seed("drop"))
    method = context.place(Debiased(model, head=context.head, **_loss(settings)))
    source, order = drawn(context, "finetune", settings, made)
    best = _heldout(context, made)
    iterates = Iterates(settings.iterates)
    watchers: list[Watcher] = [best] if best else []
    watchers += [iterates] if settings.iterates else []
    yield make_training(
        context, "finetune", method, settings, source=source, order=order, watchers=watchers
    )
    weights = best.weights if best else masks.plain_state(model)
    return trained(weights, iterates), {"selection": _selection(context, made, best)}


def trained(weights: Mapping[str, Tensor], iterates: Iterates) -> dict[str, Tensor]:
    """A trained network as tensors to keep, with the iterates asked for."""
    return {
        **{f"weights.{name}": t for name, t in weights.items()},
        **{f"iterate.{name}": t for name, t in iterates.state().items()},
    }


def _selection(context: Context, made: Made, best: Best | None) -> dict[str, Any]:
    """Which iterate is the result, and why."""
    if best:
        return {"rule": "heldout", "step": best.step, "loss": best.loss, **best.sizes}
    select = context.recipe.select
    few = f"fewer than {select.minimum} suspects outside the training data"
    few = few if "mine" in made else "this plan looks for no suspects to choose by"
    reason = "asked for" if select.rule == "last" else few
    return {"rule": "last", "step": context.recipe.finetune.steps, "reason": reason}


def _heldout(context: Context, made: Made) -> Best | None:
    """Follows unseen suspects and others, if selection asks for it and there are enough."""
    if context.recipe.select.rule == "last" or context.unseen is None or "mine" not in made:
        return None
    split, among = context.unseen
    conflict = Suspects.of(made["mine"].tensors, split).conflict[among]
    if int(conflict.sum()) < context.recipe.select.minimum or bool(conflict.all()):
        return None
    return Best(Unseen(context.resident(split), among), conflict, every=context.recipe.select.every)


# -- pieces the stages share --------------------------------------------------------------------------


def latest(context: Context, made: Made) -> dict[str, Tensor]:
    """The weights that the stages before have come to."""
    stage = last_stage(made)
    return weights_of(made, stage) if stage else context.initial


def whole(context: Context) -> dict[str, Tensor]:
    """Masks that keep every weight."""
    model = context.network()
    masks.attach(model)
    return masks.harden(model)


def make_training(
    context: Context,
    stage: str,
    method: Method,
    settings: TrainingSettings,
    *,
    source: Source | None = None,
    order: sampling.Order | None = None,
    watchers: Sequence[Watcher] = (),
) -> Training:
    """The training of a method under the recipe; by default on permuted passes through the data."""
    recipe = context.recipe
    seed = context.seed(stage)
    if source is None:
        source = context.source(context.splits.train, augment=recipe.data.augment, seed=seed)
    if order is None:
        order = passes(context, settings.batch, seed)
    plan = recipe.fit_options(settings, seed=seed)
    if context.unseen is not None:
        curve = Curve(
            Unseen(context.resident(context.unseen[0]), context.unseen[1]), every=recipe.watch_every
        )
        watchers = [*watchers, curve]
    return Training(method, source, order, plan, watchers)


def passes(context: Context, batch: int, seed: int) -> sampling.Passes:
    """Permuted passes through all the samples that stages train on."""
    among = (~context.kept_out).nonzero().squeeze(1).to(context.device)
    return sampling.Passes(among, batch=batch, seed=seed)


def drawn(
    context: Context, stage: str, settings: Debias, made: Made
) -> tuple[Source, sampling.Order]:
    """The training data with suspects marked, and an order that draws them more often."""
    seed, train = context.seed(stage), context.splits.train
    augment = context.recipe.data.augment
    if "mine" not in made:
        return context.source(train, augment=augment, seed=seed), passes(
            context, settings.batch, seed
        )
    conflict = Suspects.of(made["mine"].tensors, "train").conflict
    odds = torch.where(context.kept_out, 0.0, _odds(context, settings, conflict)).to(context.device)
    source = context.source(train, augment=augment, seed=seed, conflict=conflict)
    return source, sampling.Weighted(odds, batch=settings.batch, seed=seed)


def _odds(context: Context, settings: Debias, conflict: Tensor) -> Tensor:
    """How often each sample is drawn: fixed upweighting of suspects, or derived from their number."""
    if settings.up:
        return sampling.fixed_odds(conflict, up=settings.up)
    among, odds = ~context.kept_out, torch.zeros(len(conflict), dtype=torch.float64)
    targets = context.splits.train.targets.cpu()[among]
    odds[among] = sampling.derived_odds(
        conflict[among], targets, share=settings.share, cap=settings.cap
    )
    return odds


def _loss(settings: Debias) -> dict[str, Any]:
    return settings.model_dump(include={"align", "positives", "temperature", "group_weight"})


@torch.no_grad()
def refresh_batch_norm(
    model: nn.Module, source: Source, order: sampling.Order, *, first: int, batches: int
) -> None:
    """Estimate batch-norm statistics anew under the model's present weights, in place; from 0 batches not."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms or not batches:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average over the batches
    model.eval()  # what drops out in training is there afterwards
    for norm in norms:
        norm.train()
    step = torch.tensor(first, device=source.targets.device)
    for offset, index in enumerate(order.draw(first, batches)):
        model(source.batch(index, step + offset).x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum

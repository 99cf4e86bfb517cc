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

from . import masks, mining, sampling, slimming
from .channels import cost
from .data.source import Source
from .data.splits import Splits
from .errors import RecipeError
from .job import Job, Watcher
from .lab import Lab, Made, Result, last_stage, masks_of, weights_of
from .method import Method
from .methods import ERM, Amplified, Confident, Debiased, MaskSearch, cutting, grasp
from .mining import Suspects
from .reach import reachable
from .runtime import deterministic, matmul_precision
from .settings import Debias, Training
from .train import predict
from .watchers import Best, Curve, Iterates, Unseen

Work = Generator[Job, None, Result]


def mine(lab: Lab, made: Made) -> Work:
    """Which training samples contradict the shortcut: as mined, corrected by a user who has looked."""
    if lab.given is None:
        return (yield from _mine(lab))
    # What was mined before the user looked, unless samples were excluded since: then it is mined anew.
    ingredients = lab.ingredients("mine", {})
    del ingredients["given"]
    before = lab.store.find(ingredients)
    tensors, facts = (before.tensors, before.facts) if before else (yield from _mine(lab))
    flagged = int(lab.given.conflict.sum())
    return {**tensors, "train.conflict": lab.given.conflict}, {**facts, "flagged": flagged}


def _mine(lab: Lab) -> Work:
    settings, splits = lab.recipe.mine, lab.splits
    if settings.how == "oracle":
        return _ask_oracle(splits), {}
    model = lab.network(seed="miner")
    methods: dict[str, Callable[[], Method]] = {
        "gce": lambda: Amplified(model, q=settings.q, released=settings.gce_form == "released"),
        "early-stopped": lambda: ERM(model),
        "epoch-ensemble": lambda: Confident(model, eta=settings.eta),
    }
    method = lab.place(methods[settings.how]())
    scored = [("train", lab.train), *([("valid", lab.valid)] if lab.valid else [])]
    targets = torch.cat([source.targets.cpu() for _, source in scored])

    def inputs() -> Iterator[Tensor]:
        for _, source in scored:
            yield from source.plain()

    passed = int((~lab.kept_out).sum()) // settings.batch
    every = max(1, min(passed, settings.steps))
    epochs = mining.EpochScores(inputs, targets, every=every, steps=settings.steps)
    watchers = [epochs] if settings.how == "epoch-ensemble" else []
    yield job(lab, "mine", method, settings, watchers=watchers)
    with matmul_precision(lab.recipe.precision), deterministic(lab.recipe.deterministic):
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


def pretrain(lab: Lab, made: Made) -> Work:
    """The ordinary, biased model."""
    method = lab.place(ERM(lab.network(lab.initial)))
    yield job(lab, "pretrain", method, lab.recipe.pretrain)
    return dict(method.model.state_dict()), {}


def prune(lab: Lab, made: Made) -> Work:
    """Which weights survive: by masks that are learned, or by a score."""
    settings = lab.recipe.prune
    model = lab.network(latest(lab, made))
    logits: dict[str, Tensor] = {}
    if settings.how == "learned":
        yield _mask_search(lab, made, model)
        logits = {name: p.detach().clone() for name, p in masks.logits(model).items()}
        if settings.unit == "channel" and settings.cut == "share":
            slimming.fit(lab, model)
    else:
        masks.apply(lab.place(model), _cut(lab, model))
    tensors, facts = pruned(lab, made, model)
    return {**{f"logits.{name}": t for name, t in logits.items()}, **tensors}, facts


def _mask_search(lab: Lab, made: Made, model: nn.Module) -> Job:
    settings = lab.recipe.prune
    masks.attach(
        model,
        init=settings.init,
        noise=settings.noise,
        keep_zero=settings.keep_zero,
        seed=lab.seed("masks"),
        unit=settings.unit,
        weigh=settings.weigh,
        example=lab.probe,
    )
    search = MaskSearch(
        model,
        head=lab.head,
        sparsity=settings.sparsity,
        penalty=settings.penalty,
        **_loss(settings),
    )
    source, order = drawn(lab, "prune", settings, made)
    return job(lab, "prune", lab.place(search), settings, source=source, order=order)


def _cut(lab: Lab, model: nn.Module) -> dict[str, Tensor]:
    """The masks of a rule that needs no training."""
    settings, names = lab.recipe.prune, whole(lab).keys()
    if settings.unit == "channel":
        return slimming.cut(lab, model)
    weights = {name: p.detach() for name, p in model.named_parameters() if name in names}
    score: dict[str, Callable[[], dict[str, Tensor]]] = {
        "magnitude": lambda: cutting.magnitude(weights),
        "random": lambda: cutting.chance(weights, seed=lab.seed("masks")),
        "grasp": lambda: _flow(lab, list(weights)),
    }
    return cutting.keep_share(score[settings.how](), settings.keep)


def _flow(lab: Lab, names: Sequence[str]) -> dict[str, Tensor]:
    """GraSP's scores at the initial weights, the highest being those to keep."""
    model, targets = lab.place(lab.network(lab.initial)), lab.train.targets.cpu()
    index = grasp.balanced(targets, ~lab.kept_out, each=10, seed=lab.seed("grasp"))
    among = torch.zeros(len(targets), dtype=torch.bool)
    among[index] = True
    x = torch.cat(list(lab.train.plain(among=among)))[torch.argsort(torch.argsort(index))]
    with matmul_precision(lab.recipe.precision):
        scores = grasp.scores(model, names, x, targets[index].to(x.device))
    return {name: -score for name, score in scores.items()}


def pruned(lab: Lab, made: Made, model: nn.Module) -> Result:
    """A masked model as a result: masks fixed, batch norm estimated anew under them, weights baked."""
    settings = lab.recipe.prune
    keep = masks.harden(model)
    source, order = drawn(lab, "prune", settings, made)
    with matmul_precision(lab.recipe.precision), deterministic(lab.recipe.deterministic):
        refresh_batch_norm(
            model, source, order, first=settings.steps, batches=settings.batch_norm_batches
        )
    masks.bake(model)
    weights = {name: t for name, t in keep.items() if t.dim() > 1}  # not the scales of channels
    reach = reachable(lab.network(), lab.probe[:1], list(weights))
    times = cost.uses(lab.network(), lab.probe, list(weights))
    return {
        **{f"keep.{name}": t for name, t in keep.items()},
        **{f"weights.{name}": t for name, t in model.state_dict().items()},
    }, {**density_facts(weights, reach), "macs": cost.share_kept(weights, times)}


def density_facts(keep: Mapping[str, Tensor], reach: Mapping[str, Tensor]) -> dict[str, Any]:
    """The share of weights kept: overall, among those that touch data, and by layer."""
    return {
        "overall": masks.density(keep),
        "reachable": masks.density(keep, reach),
        "layers": {name: masks.density({name: t}) for name, t in keep.items()},
    }


def finetune(lab: Lab, made: Made) -> Work:
    """The survivors, retrained."""
    settings = lab.recipe.finetune
    model = lab.network(lab.initial if settings.start == "initial" else latest(lab, made))
    keep = masks_of(made) or (whole(lab) if settings.drop else {})
    masks.apply(model, keep, drop=settings.drop, seed=lab.seed("drop"))
    method = lab.place(Debiased(model, head=lab.head, **_loss(settings)))
    source, order = drawn(lab, "finetune", settings, made)
    best = _heldout(lab, made)
    iterates = Iterates(settings.iterates)
    watchers: list[Watcher] = [best] if best else []
    watchers += [iterates] if settings.iterates else []
    yield job(lab, "finetune", method, settings, source=source, order=order, watchers=watchers)
    weights = best.weights if best else masks.plain_state(model)
    return trained(weights, iterates), {"selection": _selection(lab, made, best)}


def trained(weights: Mapping[str, Tensor], iterates: Iterates) -> dict[str, Tensor]:
    """A trained network as tensors to keep, with the iterates asked for."""
    return {
        **{f"weights.{name}": t for name, t in weights.items()},
        **{f"iterate.{name}": t for name, t in iterates.state().items()},
    }


def _selection(lab: Lab, made: Made, best: Best | None) -> dict[str, Any]:
    """Which iterate is the result, and why."""
    if best:
        return {"rule": "heldout", "step": best.step, "loss": best.loss, **best.sizes}
    select = lab.recipe.select
    few = f"fewer than {select.minimum} suspects outside the training data"
    few = few if "mine" in made else "this plan looks for no suspects to choose by"
    reason = "asked for" if select.rule == "last" else few
    return {"rule": "last", "step": lab.recipe.finetune.steps, "reason": reason}


def _heldout(lab: Lab, made: Made) -> Best | None:
    """Follows unseen suspects and others, if selection asks for it and there are enough."""
    if lab.recipe.select.rule == "last" or lab.unseen is None or "mine" not in made:
        return None
    split, among = lab.unseen
    conflict = Suspects.of(made["mine"].tensors, split).conflict[among]
    if int(conflict.sum()) < lab.recipe.select.minimum or bool(conflict.all()):
        return None
    return Best(Unseen(lab.resident(split), among), conflict, every=lab.recipe.select.every)


# -- pieces the stages share --------------------------------------------------------------------------


def latest(lab: Lab, made: Made) -> dict[str, Tensor]:
    """The weights that the stages before have come to."""
    stage = last_stage(made)
    return weights_of(made, stage) if stage else lab.initial


def whole(lab: Lab) -> dict[str, Tensor]:
    """Masks that keep every weight."""
    model = lab.network()
    masks.attach(model)
    return masks.harden(model)


def job(
    lab: Lab,
    stage: str,
    method: Method,
    settings: Training,
    *,
    source: Source | None = None,
    order: sampling.Order | None = None,
    watchers: Sequence[Watcher] = (),
) -> Job:
    """The training of a method under the recipe; by default on permuted passes through the data."""
    recipe = lab.recipe
    seed = lab.seed(stage)
    if source is None:
        source = lab.source(lab.splits.train, augment=recipe.data.augment, seed=seed)
    if order is None:
        order = passes(lab, settings.batch, seed)
    plan = recipe.plan_of(settings, seed=seed)
    if lab.unseen is not None:
        curve = Curve(Unseen(lab.resident(lab.unseen[0]), lab.unseen[1]), every=recipe.watch_every)
        watchers = [*watchers, curve]
    return Job(method, source, order, plan, watchers)


def passes(lab: Lab, batch: int, seed: int) -> sampling.Passes:
    """Permuted passes through all the samples that stages train on."""
    among = (~lab.kept_out).nonzero().squeeze(1).to(lab.device)
    return sampling.Passes(among, batch=batch, seed=seed)


def drawn(lab: Lab, stage: str, settings: Debias, made: Made) -> tuple[Source, sampling.Order]:
    """The training data with suspects marked, and an order that draws them more often."""
    seed, train = lab.seed(stage), lab.splits.train
    augment = lab.recipe.data.augment
    if "mine" not in made:
        return lab.source(train, augment=augment, seed=seed), passes(lab, settings.batch, seed)
    conflict = Suspects.of(made["mine"].tensors, "train").conflict
    odds = torch.where(lab.kept_out, 0.0, _odds(lab, settings, conflict)).to(lab.device)
    source = lab.source(train, augment=augment, seed=seed, conflict=conflict)
    return source, sampling.Weighted(odds, batch=settings.batch, seed=seed)


def _odds(lab: Lab, settings: Debias, conflict: Tensor) -> Tensor:
    """How often each sample is drawn: fixed upweighting of suspects, or derived from their number."""
    if settings.up:
        return sampling.fixed_odds(conflict, up=settings.up)
    among, odds = ~lab.kept_out, torch.zeros(len(conflict), dtype=torch.float64)
    targets = lab.splits.train.targets.cpu()[among]
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

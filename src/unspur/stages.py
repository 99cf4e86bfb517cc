"""The stages of a run, each a function of typed inputs, and the plans that string them together.

    mine      ──> suspects     which training samples contradict the shortcut
    pretrain  ──> weights      the ordinary, biased model
    prune     ──> masks        which weights survive
    finetune  ──> weights      the survivors, retrained
    evaluate  ──> scores       the only reader of the test split and of bias labels

A `Lab` holds what all stages share. Every result is an artifact of the store, keyed by what it depends on,
so that a second run does no work and a changed setting re-runs only what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import masks, mining, sampling
from .data.source import Resident
from .data.splits import Splits
from .errors import RecipeError
from .evaluation import evaluate
from .features import Tap
from .lab import PLANS, Lab, Made, Result
from .method import Method
from .methods import ERM, Amplified, Confident, Debiased, MaskSearch
from .mining import Suspects
from .reach import reachable
from .recipe import Debias, Training
from .runtime import deterministic, matmul_precision
from .store import Artifact, Workspace
from .train import Job, Watcher, fit_together, predict, under
from .watchers import Best, Curve, Iterates, Unseen

# A stage yields the trainings it wants done, one at a time, and returns its result.
Work = Generator[Job, None, Result]


def run(lab: Lab) -> tuple[Made, Artifact]:
    """Run the recipe's plan, then evaluate; the artifacts by stage, and the scores.

    Where the suspects are not worth acting on, the plan ends with the ordinary model.
    """
    return run_together([lab])[0]


def run_together(labs: Sequence[Lab]) -> list[tuple[Made, Artifact]]:
    """Run several labs of one plan and one store, stage by stage, their trainings side by side."""
    for lab in labs:
        check(lab)
    runs = [Run(lab) for lab in labs]
    for stage in PLANS[labs[0].recipe.plan]:
        going = [run for run in runs if run.goes_on(stage)]
        _make(stage, going)
    return [(run.made, evaluate(run.lab, run.made)) for run in runs]


@dataclass
class Run:
    """A lab and what it has made so far."""

    lab: Lab
    made: Made = field(default_factory=dict)

    def goes_on(self, stage: str) -> bool:
        """Whether this stage is still to come: without usable suspects nothing is pruned."""
        if "mine" not in self.made or stage in ("mine", "pretrain"):
            return True
        return mining.verdict(Suspects.of(self.made["mine"].tensors, "train")).usable

    def ingredients(self, stage: str) -> dict[str, Any]:
        return self.lab.ingredients(stage, {name: a.path.name for name, a in self.made.items()})


def _make(stage: str, runs: Sequence[Run]) -> None:
    """Add one stage's artifact to every run: what is stored, and what has to be made, at once."""
    if not runs:
        return
    wanted = {run.lab.store.path(i := run.ingredients(stage)): (run, i) for run in runs}
    store = runs[0].lab.store
    with store.making([i for _, i in wanted.values()]) as (found, open_):
        work = {path: WORK[stage](wanted[path][0].lab, wanted[path][0].made) for path in open_}
        for path, result in _work_off(stage, runs[0].lab, work, open_).items():
            found[path] = open_[path].promote(path, wanted[path][1], *result)
    for run in runs:
        run.made[stage] = found[store.path(run.ingredients(stage))]


def _work_off(
    stage: str, lab: Lab, work: dict[Path, Work], workspaces: Mapping[Path, Workspace]
) -> dict[Path, Result]:
    """Drive stages to their results, doing the trainings they ask for side by side."""
    results: dict[Path, Result] = {}
    while work:
        jobs: dict[Path, Job] = {}
        for path in list(work):
            try:
                jobs[path] = replace(next(work[path]), keeper=workspaces[path])
                workspaces[path].beside = len(work)
            except StopIteration as end:
                results[path] = end.value
                del work[path]
        if jobs:
            with lab.show(stage) as progress:
                fit_together(list(jobs.values()), progress=progress)
    return results


def check(lab: Lab) -> None:
    """Raise before anything is trained if the network cannot be pruned."""
    if "prune" in PLANS[lab.recipe.plan]:
        model = lab.network(lab.initial)
        Tap(model, lab.head)
        masks.attach(model)


def _mine(lab: Lab, made: Made) -> Work:
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
    yield _job(lab, "mine", method, settings, watchers=watchers)
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


def _pretrain(lab: Lab, made: Made) -> Work:
    method = lab.place(ERM(lab.network(lab.initial)))
    yield _job(lab, "pretrain", method, lab.recipe.pretrain)
    return dict(method.model.state_dict()), {}


def _prune(lab: Lab, made: Made) -> Work:
    settings = lab.recipe.prune
    model = lab.network(made["pretrain"].tensors)
    names = masks.attach(
        model,
        init=settings.init,
        noise=settings.noise,
        keep_zero=settings.keep_zero,
        seed=lab.seed("masks"),
    )
    method = lab.place(
        MaskSearch(
            model,
            head=lab.head,
            sparsity=settings.sparsity,
            penalty=settings.penalty,
            **_loss(settings),
        )
    )
    suspects = Suspects.of(made["mine"].tensors, "train")
    source, order = _oversampled(lab, "prune", settings, suspects)
    yield _job(lab, "prune", method, settings, source=source, order=order)
    logits = {name: p.detach() for name, p in masks.logits(model).items()}
    keep = masks.harden(model)
    with matmul_precision(lab.recipe.precision), deterministic(lab.recipe.deterministic):
        refresh_batch_norm(
            model, source, order, first=settings.steps, batches=settings.batch_norm_batches
        )
    masks.bake(model)
    reach = reachable(lab.network(), lab.probe[:1], names)
    return {
        **{f"logits.{name}": t for name, t in logits.items()},
        **{f"keep.{name}": t for name, t in keep.items()},
        **{f"weights.{name}": t for name, t in model.state_dict().items()},
    }, density_facts(keep, reach)


def density_facts(keep: Mapping[str, Tensor], reach: Mapping[str, Tensor]) -> dict[str, Any]:
    """The share of weights kept: overall, among those that touch data, and by layer."""
    return {
        "overall": masks.density(keep),
        "reachable": masks.density(keep, reach),
        "layers": {name: masks.density({name: t}) for name, t in keep.items()},
    }


def _finetune(lab: Lab, made: Made) -> Work:
    settings, select = lab.recipe.finetune, lab.recipe.select
    model = lab.network(under(made["prune"].tensors, "weights."))
    masks.apply(
        model, under(made["prune"].tensors, "keep."), drop=settings.drop, seed=lab.seed("drop")
    )
    method = lab.place(Debiased(model, head=lab.head, **_loss(settings)))
    suspects = Suspects.of(made["mine"].tensors, "train")
    source, order = _oversampled(lab, "finetune", settings, suspects)
    best = _heldout(lab, made["mine"])
    iterates = Iterates(settings.iterates)
    watchers: list[Watcher] = [best] if best else []
    watchers += [iterates] if settings.iterates else []
    yield _job(lab, "finetune", method, settings, source=source, order=order, watchers=watchers)
    chosen = {"rule": "last", "step": settings.steps, "reason": "asked for"}
    weights = masks.plain_state(model)
    if best:
        chosen = {"rule": "heldout", "step": best.step, "loss": best.loss, **best.sizes}
        weights = best.weights
    elif select.rule == "heldout":
        chosen["reason"] = f"fewer than {select.minimum} suspects outside the training data"
    return {
        **{f"weights.{name}": t for name, t in weights.items()},
        **{f"iterate.{name}": t for name, t in iterates.state().items()},
    }, {"selection": chosen}


def _heldout(lab: Lab, mined: Artifact) -> Best | None:
    """Follows unseen suspects and others, if selection asks for it and there are enough."""
    if lab.recipe.select.rule == "last" or lab.unseen is None:
        return None
    split, among = lab.unseen
    conflict = Suspects.of(mined.tensors, split).conflict[among]
    if int(conflict.sum()) < lab.recipe.select.minimum or bool(conflict.all()):
        return None
    return Best(Unseen(lab.resident(split), among), conflict, every=lab.recipe.select.every)


WORK: dict[str, Callable[[Lab, Made], Work]] = {
    "mine": _mine,
    "pretrain": _pretrain,
    "prune": _prune,
    "finetune": _finetune,
}


# -- pieces the stages share --------------------------------------------------------------------------


def _job(
    lab: Lab,
    stage: str,
    method: Method,
    settings: Training,
    *,
    source: Resident | None = None,
    order: sampling.Order | None = None,
    watchers: Sequence[Watcher] = (),
) -> Job:
    """The training of a method under the recipe; by default on permuted passes through the data."""
    recipe = lab.recipe
    seed = lab.seed(stage)
    if source is None:
        source = lab.source(lab.splits.train, augment=recipe.data.augment, seed=seed)
    if order is None:
        among = (~lab.kept_out).nonzero().squeeze(1).to(lab.device)
        order = sampling.Passes(among, batch=settings.batch, seed=seed)
    plan = settings.plan(
        precision=recipe.precision,
        deterministic=recipe.deterministic,
        compile=recipe.compile,
        log_every=recipe.log_every,
        checkpoint_every=recipe.checkpoint_every,
        seed=seed,
    )
    if lab.unseen is not None:
        curve = Curve(Unseen(lab.resident(lab.unseen[0]), lab.unseen[1]), every=recipe.watch_every)
        watchers = [*watchers, curve]
    return Job(method, source, order, plan, watchers)


def _oversampled(
    lab: Lab, stage: str, settings: Debias, suspects: Suspects
) -> tuple[Resident, sampling.Weighted]:
    """The training data with suspects marked, and an order that draws them more often."""
    seed, targets = lab.seed(stage), lab.splits.train.targets
    if settings.up:
        odds = sampling.fixed_odds(suspects.conflict, up=settings.up)
    else:
        odds = sampling.derived_odds(
            suspects.conflict & ~lab.kept_out, targets, share=settings.share, cap=settings.cap
        )
    odds = torch.where(lab.kept_out, 0.0, odds).to(lab.device)
    source = lab.source(
        lab.splits.train, augment=lab.recipe.data.augment, seed=seed, conflict=suspects.conflict
    )
    return source, sampling.Weighted(odds, batch=settings.batch, seed=seed)


def _loss(settings: Debias) -> dict[str, Any]:
    return settings.model_dump(include={"align", "positives", "temperature", "group_weight"})


@torch.no_grad()
def refresh_batch_norm(
    model: nn.Module, source: Resident, order: sampling.Order, *, first: int, batches: int
) -> None:
    """Estimate batch-norm statistics anew under the model's present weights, in place."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
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

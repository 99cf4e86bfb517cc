"""Train one network of an audit on one half of the data, and predict the other half.

Every training is an artifact of the store, so an audit that was stopped resumes, and a repeated audit trains
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..data.splits import Part
from ..methods import ERM, Amplified
from ..parallel import process_count
from ..stages.context import Context
from ..store import Artifact
from ..training import sampling
from ..training.inputs import Training
from ..training.loop import fit_together
from ..training.method import Method
from ..training.metrics import surprise
from ..training.numerics import deterministic, matmul_precision, one_thread
from ..training.prediction import predict
from ..training.sections import TrainingSettings
from .audit_networks import DEPRIVED, MINER, AuditNetwork, find
from .crossfit import CrossFit
from .evidence import Predictions
from .far_labels import label_distance
from .halves import HALVES
from .preparation import NETWORK
from .views import Transform, ViewedNetwork, border

VERSION = 1  # increase it if the same settings give another result


@dataclass(frozen=True)
class HalfTraining:
    """One network, to be trained on one half and to predict the other."""

    crossfit: CrossFit
    network: AuditNetwork
    half: int

    @property
    def settings(self) -> TrainingSettings:
        recipe = self.crossfit.context.recipe
        return recipe.mine if self.network.is_miner else recipe.pretrain

    @property
    def seed_name(self) -> str:
        """Return the name of the seed; all networks of a half but the miner have the same initial weights."""
        return f"audit/{'mine' if self.network.is_miner else 'ordinary'}/{self.half}"

    def ingredients(self) -> dict[str, Any]:
        """Return everything that the result depends on."""
        context = self.crossfit.context
        recipe = context.recipe
        odds = recipe.finetune.model_dump(mode="json", include={"share", "cap"})
        return {
            "stage": f"audit-{self.network.name}",
            "version": VERSION,
            "half": self.half,
            "settings": self.settings.model_dump(mode="json"),
            "odds": odds if self.network.oversamples else None,
            "seed": recipe.seed,
            "parents": {} if self.network.is_miner else self._miners(),
            "device": context.device.type,
            "precision": recipe.precision,
            "deterministic": recipe.deterministic,
            "compile": recipe.compile,
            "data": context.splits.train.digest,
            **self._other_splits_key(),
            "input": recipe.data.model_dump(mode="json", include={"augment", "mean", "std"}),
            **({"sees": "border"} if self.crossfit.border_only else {}),
            **({"copies": "in one half"} if context.first_copies is not None else {}),
            "builder": context.builder.source,
            "initial": context.initial_digest,
        }

    @property
    def key(self) -> str:
        """Return the name of its artifact, whether it is stored or not."""
        return self.crossfit.context.store.path(self.ingredients()).name

    def _miners(self) -> dict[str, str]:
        miners = half_trainings(self.crossfit, [find(MINER)])
        return {f"{MINER}/{each.half}": each.key for each in miners}

    def _other_splits_key(self) -> dict[str, Any]:
        """Return the part of the key for the other splits that it predicts, if there are any."""
        digests = {name: part.digest for name, part in self._other_splits().items()}
        return {"asked": digests} if digests else {}

    def _other_splits(self) -> dict[str, Part]:
        """Return the other splits that it predicts: all if it helps to find suspects, else none."""
        parts = self.crossfit.context.splits.parts()
        finds_suspects = self.network.name in (MINER, DEPRIVED)
        return {name: part for name, part in parts.items() if finds_suspects and name != "train"}

    def training(self) -> Training:
        """Return the inputs of the training: method, data, order and plan."""
        context, settings = self.crossfit.context, self.settings
        recipe, seed = context.recipe, context.seed(f"{self.seed_name}/order")
        plan = recipe.fit_options(settings, seed=seed)
        source = context.source(context.splits.train, augment=recipe.data.augment, seed=seed)
        return Training(self._method(), source, self._order(seed), plan)

    def _method(self) -> Method:
        context, view = self.crossfit.context, self._view
        network: nn.Module = context.network(seed=self.seed_name)
        network = ViewedNetwork(network, view) if view else network
        if self.network.is_miner:
            settings = context.recipe.mine
            released = settings.gce_form == "released"
            warm_up = settings.warm_up * int((self.crossfit.half_of == self.half).sum())
            gce = Amplified(
                network, q=settings.q, released=released, warm_up=warm_up // settings.batch
            )
            return context.place(gce)
        return context.place(ERM(network))

    @property
    def _view(self) -> Transform | None:
        """Return the view through which it sees images, if there is one."""
        return self.network.view or (border if self.crossfit.border_only else None)

    def _order(self, seed: int) -> sampling.Order:
        """Return the order of its samples, as the table of networks defines it."""
        crossfit, device = self.crossfit, self.crossfit.context.device
        here = crossfit.half_of == self.half
        if self.network.oversamples:
            odds = torch.where(here, self._odds(here), 0.0)
            return sampling.Weighted(odds.to(device), batch=self.settings.batch, seed=seed)
        if self.network.samples == "without suspects":
            here = here & ~crossfit.suspects.conflict
        index = here.nonzero().squeeze(1).to(device)
        return sampling.Passes(index, batch=self.settings.batch, seed=seed)

    def _odds(self, here: Tensor) -> Tensor:
        """Return the odds of each sample; suspects, or as many random samples, are oversampled.

        They are derived from the classes of both halves. With one half alone, about half of the draws are of
        oversampled samples, not `share`, and the thresholds were chosen so.
        """
        crossfit, finetune = self.crossfit, self.crossfit.context.recipe.finetune
        suspects = self.network.samples == "suspects oversampled"
        oversampled = crossfit.suspects.conflict if suspects else crossfit.matched
        return sampling.derived_odds(
            oversampled & here, crossfit.targets, share=finetune.share, cap=finetune.cap
        )

    def ask(self, method: Method) -> dict[str, Tensor]:
        """Return the predictions of the trained network for the other half, and for the other splits."""
        recipe = self.crossfit.context.recipe
        with matmul_precision(recipe.precision), deterministic(recipe.deterministic):
            return self._ask(method)

    def _ask(self, method: Method) -> dict[str, Tensor]:
        unseen = self.crossfit.half_of != self.half
        logits = predict(method.eval().predict, self.crossfit.context.train.plain(among=unseen))
        others = self._predict_other_splits(method)
        if self.network.is_miner:
            score = surprise(logits, self.crossfit.targets[unseen])
            far = label_distance(logits, self.crossfit.targets[unseen])
            return {**Predictions.from_logits(logits).tensors(), "score": score, **far, **others}
        answer = self.crossfit.suspects.predicted[unseen]
        return {**Predictions.from_logits(logits, answer).tensors(), **others}

    def _predict_other_splits(self, method: Method) -> dict[str, Tensor]:
        """Return the predicted class and the score of every sample of the validation and the test split."""
        answers = {}
        for name, part in self._other_splits().items():
            logits = predict(method.predict, self.crossfit.context.source(part).plain())
            answers[f"{name}.predicted"] = logits.argmax(1)
            answers[f"{name}.score"] = surprise(logits, part.targets.cpu())
        return answers


def half_trainings(crossfit: CrossFit, networks: Sequence[AuditNetwork]) -> list[HalfTraining]:
    """Return the trainings of some networks: one on each half."""
    return [HalfTraining(crossfit, network, h) for network in networks for h in range(HALVES)]


def train_all(trainings: Sequence[HalfTraining], together: int) -> None:
    """Train networks, or find them in the store, and add the artifact of each to its crossfit."""
    for training, artifact in zip(trainings, train(trainings, together), strict=True):
        training.crossfit.artifacts[training.network.name, training.half] = artifact


def train(trainings: Sequence[HalfTraining], together: int) -> Iterator[Artifact]:
    """Yield the artifact of every training, in order; train those that are not stored."""
    if not trainings:
        return
    context = trainings[0].crossfit.context
    count = together if context.device.type == "cuda" else lanes(context)
    alone = context.device.type == "cuda" or count == 1
    for start in range(0, len(trainings), count):  # each is stored as soon as it is done
        with nullcontext() if alone else one_thread():
            yield from _train_at_once(trainings[start : start + count], count)


def lanes(context: Context) -> int:
    """Return how many networks are trained at a time on a CPU: one per thread for the default network.

    A small network gains little from a second thread, so two networks share two threads better. With several
    processes one network is trained at a time, as all processes must communicate in the same order.
    """
    is_default = context.builder.how.get("name") == NETWORK and process_count() == 1
    return torch.get_num_threads() if is_default and context.device.type == "cpu" else 1


def _train_at_once(trainings: Sequence[HalfTraining], at_once: int) -> Iterator[Artifact]:
    """Find the artifacts of some trainings, or train them all at the same time."""
    context = trainings[0].crossfit.context
    ingredients = [training.ingredients() for training in trainings]
    paths = [context.store.path(each) for each in ingredients]
    jobs = dict(zip(paths, zip(trainings, ingredients, strict=True), strict=True))
    with context.store.open_artifacts([i for _, i in jobs.values()]) as (found, workspaces):
        fits = {
            path: replace(jobs[path][0].training(), checkpointer=workspace)
            for path, workspace in workspaces.items()
        }
        for workspace in workspaces.values():
            workspace.beside = len(workspaces)
        if fits:
            name = progress_name([jobs[path][0] for path in fits])
            with context.training(name) as progress:
                fit_together(list(fits.values()), progress=progress, lanes=at_once)
        for path, fit in fits.items():
            training, about = jobs[path]
            answers = training.ask(fit.method)
            found[path] = workspaces[path].promote(path, about, answers, {})
    yield from (found[path] for path in paths)


def progress_name(trainings: Sequence[HalfTraining]) -> str:
    """Return the name of some simultaneous trainings for the progress bar."""
    first = trainings[0]
    border = "border: " if first.crossfit.border_only else ""
    names = list(dict.fromkeys(t.network.title or t.network.name for t in trainings))
    if len(trainings) == 1:
        return f"{border}{names[0]} {first.half + 1}/{HALVES}"
    return border + (", ".join(names) if len(names) <= 2 else f"{len(trainings)} networks")

"""Train one network of an audit on one half of the data, and ask it about the other half.

Every training is an artifact of the store, so an audit that was stopped goes on where it was, and a second
one does no work.
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
from ..training.numerics import one_thread
from ..training.prediction import predict
from ..training.sections import TrainingSettings
from .audit_networks import DEPRIVED, MINER, AuditNetwork, find
from .crossfit import CrossFit
from .evidence import Predictions
from .far_labels import label_distance
from .halves import HALVES
from .preparation import NETWORK
from .views import Transform, ViewedNetwork, border

VERSION = 1  # raised where the same settings would give another result


@dataclass(frozen=True)
class HalfTraining:
    """One network to train on one half and to ask about the other."""

    crossfit: CrossFit
    network: AuditNetwork
    half: int

    @property
    def settings(self) -> TrainingSettings:
        recipe = self.crossfit.context.recipe
        return recipe.mine if self.network.is_miner else recipe.pretrain

    @property
    def seed_name(self) -> str:
        """Name the seed; all networks of a half but the miner start from the same weights."""
        return f"audit/{'mine' if self.network.is_miner else 'ordinary'}/{self.half}"

    def ingredients(self) -> dict[str, Any]:
        """Return everything the result depends on."""
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
            **self._asked_key(),
            "input": recipe.data.model_dump(mode="json", include={"augment", "mean", "std"}),
            **({"sees": "border"} if self.crossfit.border_only else {}),
            "builder": context.builder.source,
            "initial": context.initial_digest,
        }

    @property
    def key(self) -> str:
        """Return the name of its artifact, trained or not."""
        return self.crossfit.context.store.path(self.ingredients()).name

    def _miners(self) -> dict[str, str]:
        miners = half_trainings(self.crossfit, [find(MINER)])
        return {f"{MINER}/{each.half}": each.key for each in miners}

    def _asked_key(self) -> dict[str, Any]:
        """Add the other splits it is asked about to the key, if there are any."""
        digests = {name: part.digest for name, part in self._asked().items()}
        return {"asked": digests} if digests else {}

    def _asked(self) -> dict[str, Part]:
        """Return the splits outside training that it is asked about: all, if it has a say in suspects."""
        parts = self.crossfit.context.splits.parts()
        flags = self.network.name in (MINER, DEPRIVED)
        return {name: part for name, part in parts.items() if flags and name != "train"}

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
            return context.place(Amplified(network, q=settings.q, released=released))
        return context.place(ERM(network))

    @property
    def _view(self) -> Transform | None:
        """Return what its input goes through: its own view, or that of all networks of the crossfit."""
        return self.network.view or (border if self.crossfit.border_only else None)

    def _order(self, seed: int) -> sampling.Order:
        """Return the order of its samples, as the table of networks says."""
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
        """Return how often each sample is drawn if suspects, or as many other samples, are oversampled."""
        crossfit, finetune = self.crossfit, self.crossfit.context.recipe.finetune
        suspects = self.network.samples == "suspects oversampled"
        often = crossfit.suspects.conflict if suspects else crossfit.matched
        return sampling.derived_odds(
            often & here, crossfit.targets, share=finetune.share, cap=finetune.cap
        )

    def ask(self, method: Method) -> dict[str, Tensor]:
        """Return what the trained network says of the other half."""
        unseen = self.crossfit.half_of != self.half
        logits = predict(method.eval().predict, self.crossfit.context.train.plain(among=unseen))
        others = self._ask_other_splits(method)
        if self.network.is_miner:
            score = surprise(logits, self.crossfit.targets[unseen])
            far = label_distance(logits, self.crossfit.targets[unseen])
            return {**Predictions.from_logits(logits).tensors(), "score": score, **far, **others}
        answer = self.crossfit.suspects.predicted[unseen]
        return {**Predictions.from_logits(logits, answer).tensors(), **others}

    def _ask_other_splits(self, method: Method) -> dict[str, Tensor]:
        """Return the class and the surprise for every sample of the validation and the test split."""
        answers = {}
        for name, part in self._asked().items():
            logits = predict(method.predict, self.crossfit.context.source(part).plain())
            answers[f"{name}.predicted"] = logits.argmax(1)
            answers[f"{name}.score"] = surprise(logits, part.targets.cpu())
        return answers


def half_trainings(crossfit: CrossFit, networks: Sequence[AuditNetwork]) -> list[HalfTraining]:
    """Return the trainings of some networks, two of each."""
    return [HalfTraining(crossfit, network, h) for network in networks for h in range(HALVES)]


def train_all(trainings: Sequence[HalfTraining], together: int) -> None:
    """Train networks, or find them in the store, and give each to its crossfit."""
    for training, artifact in zip(trainings, train(trainings, together), strict=True):
        training.crossfit.artifacts[training.network.name, training.half] = artifact


def train(trainings: Sequence[HalfTraining], together: int) -> Iterator[Artifact]:
    """Yield the artifact of every training, in their order: stored ones, and the rest trained."""
    if not trainings:
        return
    context = trainings[0].crossfit.context
    count = together if context.device.type == "cuda" else lanes(context)
    alone = context.device.type == "cuda" or count == 1
    for start in range(0, len(trainings), count):  # each is stored as soon as it is done
        with nullcontext() if alone else one_thread():
            yield from _train_at_once(trainings[start : start + count], count)


def lanes(context: Context) -> int:
    """Return how many networks are trained at a time on a CPU: one a thread if it is the audit's own network.

    A small network gains little from a second thread; two networks gain all of it. Several processes train
    one network at a time, as they must exchange in one order.
    """
    own = context.builder.how.get("name") == NETWORK and process_count() == 1
    return torch.get_num_threads() if own and context.device.type == "cpu" else 1


def _train_at_once(trainings: Sequence[HalfTraining], at_once: int) -> Iterator[Artifact]:
    """Find or make the artifacts of some trainings, all at the same time."""
    context = trainings[0].crossfit.context
    ingredients = [training.ingredients() for training in trainings]
    paths = [context.store.path(each) for each in ingredients]
    wanted = dict(zip(paths, zip(trainings, ingredients, strict=True), strict=True))
    with context.store.making([i for _, i in wanted.values()]) as (found, workspaces):
        fits = {
            path: replace(wanted[path][0].training(), checkpointer=workspace)
            for path, workspace in workspaces.items()
        }
        for workspace in workspaces.values():
            workspace.beside = len(workspaces)
        if fits:
            name = progress_name([wanted[path][0] for path in fits])
            with context.training(name) as progress:
                fit_together(list(fits.values()), progress=progress, lanes=at_once)
        for path, fit in fits.items():
            training, about = wanted[path]
            answers = training.ask(fit.method)
            found[path] = workspaces[path].promote(path, about, answers, {})
    yield from (found[path] for path in paths)


def progress_name(trainings: Sequence[HalfTraining]) -> str:
    """Name trainings that go side by side, for the progress bar."""
    first = trainings[0]
    if len(trainings) == 1:
        return f"{first.network.name} {first.half + 1}/{HALVES}"
    names = list(dict.fromkeys(t.network.title or t.network.name for t in trainings))
    return ", ".join(names) if len(names) <= 2 else f"{len(trainings)} networks"

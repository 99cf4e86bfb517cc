"""The audit: is there a shortcut in these data? Which samples contradict it?

Small networks are trained on either half of the training split and asked about the other; evidence.py says
which, verdict.py what follows from their answers. Where the miner settles it alone, no other network is
trained.
Each training is an artifact of the store, so an audit that was stopped goes on where it was, and a second one
does no work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import DataError
from ..methods import ERM, Amplified
from ..recipes.loading import Recipe, parse
from ..stages.context import Context
from ..stages.estimate import step_seconds
from ..stages.suspects import Suspects
from ..store import Artifact
from ..training import sampling
from ..training.inputs import Training
from ..training.loop import fit_together, predict
from ..training.method import Method
from ..training.metrics import surprise
from ..training.settings import TrainingSettings
from . import evidence, verdict
from .evidence import FOLDS, FULL, Asked, Evidence, Opinion
from .thresholds import THRESHOLDS
from .verdict import Finding
from .views import VIEWS, Viewed

VERSION = 1  # raised where the same settings would give another result
FEWEST = 100  # samples that an audit needs
BATCH, PASSES, STEPS = 64, 8, (300, 1500)  # of a training on one half, and bounds on its steps
TOGETHER = 16  # trainings side by side on a GPU
NETWORK = "convnet"
WIDTH = 16  # of the network; the thresholds belong to it


@dataclass(frozen=True)
class Trained:
    """One training of an audit: what it cost, and the artifact it is kept as."""

    network: str
    half: int
    seconds: float  # its share, where several were trained at once
    artifact: str


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found: the verdict, the numbers behind it, and a score and a flag for every sample."""

    finding: Finding
    evidence: Evidence
    suspects: Suspects  # flagged where the deprived network contradicts the label too
    mistaken: Tensor  # what the miner gets wrong: all that the evidence calls suspects
    opinions: Mapping[str, Opinion]  # of each network, in the order of samples; the miner is "mine"
    trained: tuple[Trained, ...]

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.trained)

    @property
    def insisted(self) -> Tensor:
        """The suspects to which the deprived network gives the miner's answer with a full margin."""
        if "deprived" not in self.opinions:
            return torch.zeros_like(self.mistaken)
        margin = self.opinions["deprived"].margin
        return self.mistaken & (
            evidence.relative(margin, self.mistaken, self.suspects.predicted) >= FULL
        )

    def as_json(self) -> dict[str, Any]:
        e = self.evidence
        return {
            "verdict": self.finding.code,
            "text": self.finding.text,
            "evidence": {**asdict(e), "insistence": e.insistence},
            "flagged": int(self.suspects.conflict.sum()),
            "thresholds": asdict(THRESHOLDS),
            "seconds": round(self.seconds, 1),
        }


def settings(images: int, *, name: str, model: str = NETWORK, seed: int = 0) -> Recipe:
    """A recipe for so many training images: `mine` is of the miner, `pretrain` of all other networks."""
    half = images // FOLDS
    batch = max(2, min(BATCH, half // 4))
    steps = min(max(PASSES * half // batch, STEPS[0]), STEPS[1])
    training = {"batch": batch, "steps": steps, "rate": 5e-3, "schedule": "cosine"}
    table = {
        "name": name,
        "seed": seed,
        "model": {"name": model, "options": {"width": WIDTH} if model == NETWORK else {}},
        "mine": {**training, "optimiser": "adam", "weight_decay": 0.0},
        "pretrain": training,
        "select": {"rule": "last"},
    }
    return parse(table, where=name)


def audit(context: Context) -> Audit:
    """Audit the training split of a context."""
    return audit_together([context], together=TOGETHER)[0]


def audit_together(contexts: Sequence[Context], *, together: int = 1) -> list[Audit]:
    """Audit several contexts of one store; on a GPU, so many trainings at a time go side by side."""
    cases = [Case(context) for context in contexts]
    for phase in PHASES:
        wanted = [t for case in cases if case.goes_on for t in case.trainings(phase)]
        for training, artifact in _made(wanted, together):
            training.case.made[training.name, training.half] = artifact
    return [case.audit() for case in cases]


OVERSAMPLED = ("taught", "matched")
# The networks of a phase are trained side by side; the second is left out where the first settles it.
PHASES = (("mine",), ("deprived", "matched", "taught", *VIEWS))


@dataclass
class Case:
    """A context, and what was made for it so far."""

    context: Context
    made: dict[tuple[str, int], Artifact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self.context)
        self.targets = self.context.splits.train.targets
        self.fold = evidence.folds(self.targets, seed=self.context.seed("audit/folds"))

    def trainings(self, names: Sequence[str]) -> list[Trial]:
        return [Trial(self, name, half) for name in names for half in range(FOLDS)]

    @property
    def goes_on(self) -> bool:
        """Whether what was made leaves anything to ask."""
        return not self.made or not verdict.settled(self.weighed())

    def held_out(self, name: str, what: str) -> Tensor:
        """What networks of a name said, each of the half it was not trained on, in the order of samples."""
        parts = [self.made[name, half].tensors[what] for half in range(FOLDS)]
        whole = torch.zeros(len(self.fold), dtype=parts[0].dtype)
        for half, part in enumerate(parts):
            whole[self.fold != half] = part
        return whole

    def opinion(self, name: str) -> Opinion:
        return Opinion(self.held_out(name, "predicted"), self.held_out(name, "margin"))

    @property
    def suspects(self) -> Suspects:
        """What the miner gets wrong."""
        predicted = self.held_out("mine", "predicted")
        return Suspects(self.held_out("mine", "score"), predicted != self.targets, predicted)

    @property
    def matched(self) -> Tensor:
        """As many samples of each class and half, whichever they are."""
        groups = self.targets * FOLDS + self.fold
        return evidence.matched(
            self.suspects.conflict, groups, seed=self.context.seed("audit/matched")
        )

    def flagged(self) -> Suspects:
        """The suspects whose label the deprived network contradicts too, where it was asked."""
        suspects = self.suspects
        if ("deprived", 0) not in self.made:
            return suspects
        again = self.held_out("deprived", "predicted") != self.targets
        return replace(suspects, conflict=suspects.conflict & again)

    def weighed(self) -> Evidence:
        if ("deprived", 0) not in self.made:
            return evidence.weigh(self.targets, self.suspects)
        deprived, matched = self.opinion("deprived"), self.opinion("matched")
        others = {"taught": Asked(self.opinion("taught"), like=matched)}
        others |= {n: Asked(self.opinion(n), like=deprived, whole=matched) for n in VIEWS}
        return evidence.weigh(self.targets, self.suspects, deprived, others)

    def audit(self) -> Audit:
        weighed = self.weighed()
        return Audit(
            finding=verdict.judge(weighed),
            evidence=weighed,
            suspects=self.flagged(),
            mistaken=self.suspects.conflict,
            opinions={name: self.opinion(name) for name, half in self.made if half == 0},
            trained=tuple(_trained(*key, artifact) for key, artifact in self.made.items()),
        )


def _trained(name: str, half: int, artifact: Artifact) -> Trained:
    seconds = artifact.about["seconds"] / artifact.about["beside"]
    return Trained(name, half, round(seconds, 3), artifact.path.name)


@dataclass(frozen=True)
class Trial:
    """One network to train on one half and to ask about the other."""

    case: Case
    name: str
    half: int

    @property
    def settings(self) -> TrainingSettings:
        recipe = self.case.context.recipe
        return recipe.mine if self.name == "mine" else recipe.pretrain

    @property
    def seed(self) -> str:
        """The two miners, and all networks of a half that are compared, begin alike."""
        return f"audit/{'mine' if self.name == 'mine' else 'ordinary'}/{self.half}"

    def ingredients(self) -> dict[str, Any]:
        """What the result depends on."""
        context = self.case.context
        recipe = context.recipe
        parents = {} if self.name == "mine" else {f"mine/{h}": self._miner(h) for h in range(FOLDS)}
        odds = recipe.finetune.model_dump(mode="json", include={"share", "cap"})
        return {
            "stage": f"audit-{self.name}",
            "version": VERSION,
            "half": self.half,
            "settings": self.settings.model_dump(mode="json"),
            "odds": odds if self.name in OVERSAMPLED else None,
            "seed": recipe.seed,
            "parents": parents,
            "device": context.device.type,
            "precision": recipe.precision,
            "deterministic": recipe.deterministic,
            "compile": recipe.compile,
            "data": context.splits.train.digest,
            "input": recipe.data.model_dump(mode="json", include={"augment", "mean", "std"}),
            "builder": context.builder.source,
            "initial": context.initial_digest,
        }

    def _miner(self, half: int) -> str:
        return self.case.made["mine", half].path.name

    def training(self) -> Training:
        """The training."""
        context, settings = self.case.context, self.settings
        recipe, seed = context.recipe, context.seed(f"{self.seed}/order")
        plan = recipe.fit_options(settings, seed=seed)
        source = context.source(context.splits.train, augment=recipe.data.augment, seed=seed)
        return Training(self._method(), source, self._order(seed), plan)

    def _method(self) -> Method:
        context = self.case.context
        network: nn.Module = context.network(seed=self.seed)
        if self.name == "mine":
            settings = context.recipe.mine
            released = settings.gce_form == "released"
            return context.place(Amplified(network, q=settings.q, released=released))
        return context.place(ERM(Viewed(network, self.name) if self.name in VIEWS else network))

    def _order(self, seed: int) -> sampling.Order:
        """Its half of the samples: all of them, without the suspects, or some of them more often."""
        case, batch = self.case, self.settings.batch
        here, device = case.fold == self.half, case.context.device
        if self.name == "mine":
            return sampling.Passes(here.nonzero().squeeze(1).to(device), batch=batch, seed=seed)
        conflict = case.suspects.conflict
        if self.name in OVERSAMPLED:
            often = conflict if self.name == "taught" else case.matched
            drawn = case.context.recipe.finetune
            odds = sampling.derived_odds(
                often & here, case.targets, share=drawn.share, cap=drawn.cap
            )
            return sampling.Weighted(
                torch.where(here, odds, 0.0).to(device), batch=batch, seed=seed
            )
        left = (here & ~conflict).nonzero().squeeze(1)
        return sampling.Passes(left.to(device), batch=batch, seed=seed)

    def answers(self, method: Method) -> dict[str, Tensor]:
        """What the trained network says of the other half."""
        unseen = self.case.fold != self.half
        logits = predict(method.eval().predict, self.case.context.train.plain(among=unseen))
        if self.name == "mine":
            score = surprise(logits, self.case.targets[unseen])
            return {**Opinion.of(logits).tensors(), "score": score}
        return Opinion.of(logits, self.case.suspects.predicted[unseen]).tensors()


def _made(trials: Sequence[Trial], together: int) -> Iterator[tuple[Trial, Artifact]]:
    """The artifact of every trial: what is stored, and the rest trained."""
    if not trials:
        return
    context = trials[0].case.context
    # On a CPU trainings go one after another: each is kept as soon as it is done.
    count = together if context.device.type == "cuda" else 1
    for start in range(0, len(trials), count):
        some = trials[start : start + count]
        wanted = {context.store.path(i := trial.ingredients()): (trial, i) for trial in some}
        with context.store.making([i for _, i in wanted.values()]) as (found, open_):
            trainings = {p: replace(wanted[p][0].training(), checkpointer=open_[p]) for p in open_}
            for workspace in open_.values():
                workspace.beside = len(open_)
            if trainings:
                with context.show(_told([wanted[path][0] for path in trainings])) as progress:
                    fit_together(list(trainings.values()), progress=progress)
            for path, training in trainings.items():
                trial, ingredients = wanted[path]
                found[path] = open_[path].promote(
                    path, ingredients, trial.answers(training.method), {}
                )
        for path, (trial, _) in wanted.items():
            yield trial, found[path]


def _told(trials: Sequence[Trial]) -> str:
    """Trainings that go side by side, as progress names them."""
    first = trials[0]
    alone = f"{first.name} {first.half + 1}/{FOLDS}"
    return alone if len(trials) == 1 else f"{len(trials)} networks"


def check(context: Context) -> None:
    """Raise before anything is trained if there is nothing to audit."""
    targets, name = context.splits.train.targets, context.splits.name
    if len(torch.unique(targets)) < 2:
        only = context.splits.classes[int(targets[0])]
        raise DataError(
            f"{name}: all training images are of one class, {only!r}. A shortcut tells classes apart; "
            "give images of at least two."
        )
    if len(targets) < FEWEST:
        raise DataError(
            f"{name}: {len(targets)} training images are too few for an audit, which asks networks about "
            f"images they were not trained on. Give at least {FEWEST}, better some thousands."
        )
    _ = context.initial  # raises if the network does not fit the data


@dataclass(frozen=True)
class Cost:
    """What an audit asks for: trainings of so many steps, at most, and about how long that takes."""

    trainings: int
    steps: int
    seconds: float


def cost(context: Context) -> Cost:
    """The most an audit of a context takes, measured on a few steps."""
    trainings = FOLDS * sum(map(len, PHASES))
    training = context.recipe.pretrain
    each = step_seconds(context, training.batch)
    return Cost(trainings, training.steps, trainings * training.steps * each)

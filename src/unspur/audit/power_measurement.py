"""Plant known shortcuts into a user's images, and audit each result.

Every planted audit is an artifact of the store, so a measurement that was stopped resumes. After each repeat
of all kinds and rates the table is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..data.benchmarks.planted import STYLES, plant
from ..data.splits import Split, Splits
from ..errors import DataError
from ..parallel import from_first
from ..stages.context import Context
from . import audit_networks
from .audit_cost import audit_cost
from .auditor import TOGETHER, audit_together
from .power import USUAL_REPEATS, USUAL_SECONDS, PlantedAudit, PlantedCase, Power, PowerPlan
from .result import Audit
from .thresholds import THRESHOLDS

VERSION = 2  # increase it if the same settings give another result
SIDE_BY_SIDE = 8  # planted audits at the same time on a GPU
MOST_STREAMED = 10_000  # images that are used of a set too large for memory


@dataclass(frozen=True)
class PowerCost:
    """The number of planted audits that are not stored, of all, and the most seconds that they take."""

    missing: int
    cases: int
    seconds: float


@dataclass(frozen=True, eq=False)
class PowerMeasurement:
    """The planted audits of one set of images."""

    context: Context  # of the audit of the unchanged images
    plan: PowerPlan

    @cached_property
    def _index(self) -> Tensor:
        """The images to plant into: those of the ten largest classes, or a sample if they exceed memory."""
        part = self.context.splits.train
        largest = torch.bincount(part.targets).argsort(descending=True, stable=True)[:STYLES]
        index = torch.isin(part.targets, largest).nonzero().squeeze(1)
        if isinstance(part, Split) or len(index) <= MOST_STREAMED:
            return index
        keys = noise.bits(0, 0, noise.PERMUTE, (len(index),))
        return index[torch.sort(keys, stable=True).indices[:MOST_STREAMED].sort().values]

    @cached_property
    def _base(self) -> Split:
        """The images to plant into, in colour."""
        part = self.context.splits.train
        if part.dtype != torch.uint8 or part.shape[0] not in (1, 3):
            raise DataError(
                f"shortcuts can be planted into images of bytes in grey or colour, not into "
                f"{part.shape[0]} channels of {part.dtype}. Give image files, or uint8 pixels."
            )
        images = part.take(self._index)
        return Split(images.expand(-1, 3, -1, -1).contiguous(), part.targets[self._index])

    @cached_property
    def final_plan(self) -> PowerPlan:
        """The plan with a fixed number of repeats; a number that was chosen by time is kept in the store."""
        if self.plan.repeats:
            return self.plan
        about = {**self._about(), "stage": "audit-power-plan", "plan": asdict(self.plan)}
        artifact = self.context.store.make(about, lambda workspace: ({}, self._affordable()))
        return replace(self.plan, repeats=int(artifact.facts["repeats"]))

    def _affordable(self) -> dict[str, int]:
        """Return the number of repeats that the usual time allows."""
        fewest, most = USUAL_REPEATS
        once = self.plan.cells * self._seconds
        return {"repeats": max(fewest, min(most, int(USUAL_SECONDS / max(once, 1e-9))))}

    @cached_property
    def _seconds(self) -> float:
        """The estimated seconds of one audit, at most."""
        return audit_cost(self.context).most_seconds

    def cost(self) -> PowerCost:
        """Estimate the cost of the planted audits that are not stored, from a few steps of training."""
        cases = self.final_plan.cases()
        missing = self._missing(cases)
        return PowerCost(missing, len(cases), missing * self._seconds if missing else 0.0)

    def carry_out(self, report: Callable[[int, int, float], None] = lambda *_: None) -> Power:
        """Run all planted audits; `report` gets the number done, the total, and the seconds left."""
        cases, done, spent, new = self.final_plan.cases(), [], 0.0, 0
        count = SIDE_BY_SIDE if self.context.device.type == "cuda" else 1
        missing = self.cost().missing
        for start in range(0, len(cases), count):
            began = time.perf_counter()
            some = cases[start : start + count]
            fresh = self._missing(some)
            done += self._audit(some)
            spent, new = spent + (time.perf_counter() - began if fresh else 0.0), new + fresh
            left = (missing - new) * spent / new if new else (missing - new) * self._seconds
            if fresh:
                report(len(done), len(cases), left)
        all_classes = self.context.splits.classes
        planted_into = len(torch.unique(self._base.targets))
        return Power(len(self._base), planted_into, len(all_classes), tuple(done))

    def _missing(self, cases: Sequence[PlantedCase]) -> int:
        """Return how many of some cases are not in the store, as seen by the first process."""
        store, paths = self.context.store, [self.context.store.path(self._key(c)) for c in cases]
        return from_first(lambda: sum(not store.has(path) for path in paths))

    def _audit(self, cases: Sequence[PlantedCase]) -> list[PlantedAudit]:
        """Return the audits of some cases; those that are not stored are run at the same time."""
        keys = [self._key(case) for case in cases]
        store = self.context.store
        with store.open_artifacts(keys) as (found, workspaces):
            jobs = [
                (case, key, store.path(key))
                for case, key in zip(cases, keys, strict=True)
                if store.path(key) in workspaces
            ]
            contexts = [self._planted(case) for case, _, _ in jobs]
            results = audit_together(contexts, together=TOGETHER) if contexts else []
            for (case, key, path), context, result in zip(jobs, contexts, results, strict=True):
                facts = asdict(_record(case, context, result))
                found[path] = workspaces[path].promote(path, key, {}, facts)
        return [PlantedAudit(**found[store.path(key)].facts) for key in keys]

    def _planted(self, case: PlantedCase) -> Context:
        """Return the context of the audit of one case, which depends only on the case and the seed."""
        seed = self.context.recipe.seed + case.repeat
        base = self._base
        images, bias = plant(base.images, base.targets, case.kind, share=case.rate, seed=seed)
        splits = Splits(
            train=Split(images, base.targets),
            classes=self.context.splits.classes,
            bias={"train": bias},
            name=f"{self.context.splits.name} with {case.kind}",
        )
        recipe = self.context.recipe.seeded(seed)
        return replace(self.context, splits=splits, recipe=recipe, show=lambda stage: nullcontext())

    def _key(self, case: PlantedCase) -> dict[str, Any]:
        return {**self._about(), "case": asdict(case)}

    def _about(self) -> dict[str, Any]:
        """Return everything that planted audits depend on, apart from the case."""
        context = self.context
        kept = {
            "seed",
            "model",
            "mine",
            "pretrain",
            "finetune",
            "precision",
            "deterministic",
            "data",
        }
        return {
            "stage": "audit-power",
            "version": VERSION,
            "settings": context.recipe.model_dump(mode="json", include=kept),
            "networks": [network.name for network in audit_networks.every()],
            "thresholds": asdict(THRESHOLDS),
            "data": self._base.digest,
            "device": context.device.type,
            "builder": context.builder.source,
            "initial": context.initial_digest,
        }


def _record(case: PlantedCase, context: Context, result: Audit) -> PlantedAudit:
    """Return the outcome of one planted audit."""
    conflicting = context.splits.conflicting("train")
    assert conflicting is not None, "planted images have bias labels"
    count = int(conflicting.sum())
    flagged = int((result.suspects.conflict & conflicting).sum()) / max(1, count)
    return PlantedAudit(
        **asdict(case),
        verdict=result.finding.code,
        exceptions=count,
        flagged=flagged,
        seconds=round(result.seconds, 1),
    )

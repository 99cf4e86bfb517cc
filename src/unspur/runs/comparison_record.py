"""The comparison of several methods on the same images: their scores and gains, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..store import Artifact
from .evaluation import AccuracyShare
from .intervals import METRICS, Interval, bootstrap, wilson

PARTS = ("suspects", "others")  # the held-out images, divided by the flags of the miner


@dataclass(frozen=True)
class ComparedMethod:
    """One method: what it needs, its scores by name, its gain over the baseline, and its costs.

    `unseen` are accuracies on held-out images, for suspects and for others, which need no bias labels. `gain`
    and `unseen_gain` are differences to the baseline with paired intervals, corrected for the number of
    methods.
    """

    name: str
    title: str
    supervision: str
    networks: str
    source: str
    scores: Mapping[str, AccuracyShare]
    unseen: Mapping[str, AccuracyShare]
    gain: Mapping[str, tuple[float, Interval]]
    unseen_gain: Mapping[str, tuple[float, Interval]]
    weights_kept: float
    seconds: float


@dataclass(frozen=True)
class MethodComparison:
    """The methods of a comparison on the same images, in the given order."""

    data: str
    evaluated_on: str
    images: int
    baseline: str
    methods: tuple[ComparedMethod, ...]
    unseen_counts: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None
    page: Path | None = None

    def __getitem__(self, name: str) -> ComparedMethod:
        return next(method for method in self.methods if method.name == name)

    @property
    def metrics(self) -> list[str]:
        """The names of the accuracies that are known."""
        return [name for name in METRICS if name in self.methods[0].scores]

    @property
    def deciding(self) -> str:
        """The score that shows a shortcut best: of true groups if they are known, otherwise of suspects."""
        for name in ("conflicting", "worst_group"):
            if name in self.metrics:
                return name
        return "suspects" if self.unseen_counts.get("suspects") else "average"

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {key: value for key, value in found.items() if key not in ("out", "page")}


def scores_together(artifacts: Mapping[str, Artifact]) -> dict[str, dict[str, AccuracyShare]]:
    """Return the accuracies of each method with intervals, from the artifacts of `evaluate`."""
    intervals = bootstrap(_together(artifacts)).accuracy
    return {
        name: {
            metric: AccuracyShare(artifact.facts["debiased"][metric], interval)
            for metric, interval in intervals[name].items()
            if artifact.facts["debiased"][metric] is not None
        }
        for name, artifact in artifacts.items()
    }


def gains(
    artifacts: Mapping[str, Artifact], baseline: str
) -> dict[str, dict[str, tuple[float, Interval]]]:
    """Return the gain of each method over the baseline; empty for the baseline.

    The intervals are paired, and corrected for the number of methods that are compared with the baseline.
    """
    found: dict[str, dict[str, tuple[float, Interval]]] = {}
    tensors, before = _together(artifacts), artifacts[baseline].facts["debiased"]
    known = {name: t for name, t in tensors.items() if not name.startswith("predicted.")}
    others = max(1, len(artifacts) - 1)
    for name, artifact in artifacts.items():
        after = artifact.facts["debiased"]
        pair = {"ordinary": baseline, "debiased": name}
        predicted = {f"predicted.{role}": tensors[f"predicted.{who}"] for role, who in pair.items()}
        found[name] = {
            metric: (after[metric] - before[metric], interval)
            for metric, interval in bootstrap(known | predicted, comparisons=others).gain.items()
            if name != baseline and after[metric] is not None
        }
    return found


def _together(artifacts: Mapping[str, Artifact]) -> dict[str, Tensor]:
    """Return the labels of the scored images, and the predictions of every method."""
    first = next(iter(artifacts.values())).tensors
    found = {name: t for name, t in first.items() if not name.startswith("predicted.")}
    return found | {
        f"predicted.{name}": artifact.tensors["predicted.debiased"]
        for name, artifact in artifacts.items()
    }


def unseen_shares(right: Tensor, suspects: Tensor) -> dict[str, AccuracyShare]:
    """Return the accuracy on suspects and on others; leave out a part without images."""
    found = {}
    for name, among in zip(PARTS, (suspects, ~suspects), strict=True):
        if count := int(among.sum()):
            hits = int(right[among].sum())
            found[name] = AccuracyShare(hits / count, wilson(hits, count))
    return found


def unseen_gains(
    right: Tensor, before: Tensor, suspects: Tensor, *, comparisons: int = 1
) -> dict[str, tuple[float, Interval]]:
    """Return the gain on suspects and on others over a baseline, with paired intervals as `gains` has."""
    found = {}
    for name, among in zip(PARTS, (suspects, ~suspects), strict=True):
        if not bool(among.any()):
            continue
        truth = torch.ones(int(among.sum()), dtype=torch.int64)
        pair = {
            "predicted.ordinary": before[among].long(),
            "predicted.debiased": right[among].long(),
        }
        interval = bootstrap({"targets": truth, **pair}, comparisons=comparisons).gain["average"]
        gain = float(right[among].double().mean() - before[among].double().mean())
        found[name] = (gain, interval)
    return found

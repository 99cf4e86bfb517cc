"""Additional results of a run that some items need, recorded with the run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..errors import UnspurError
from ..recipes import Recipe
from ..report import triptych
from ..runs.intervals import bootstrap
from ..runs.tables import MODELS
from ..stages.context import Context
from ..stages.inspection import inspect
from ..stages.results import Results
from ..store import Artifact
from ..training import metrics

FEATURES = "map.features."


def groups(context: Context, results: Results, scores: Artifact) -> dict[str, Any]:
    """Return the accuracy and the number of test images of every group, and 95 % bootstrap intervals.

    Accuracies are given for each network, intervals for the result only.
    """
    classes, biases = context.splits.classes, context.splits.bias_classes
    tensors = scores.tensors
    bias_count = max(len(biases), int(tensors["bias"].max()) + 1)
    counts = metrics.group_counts(
        tensors["targets"], tensors["bias"], classes=len(classes), biases=bias_count
    )
    bounds = bootstrap(tensors).accuracy["debiased"]
    return {
        "classes": list(classes),
        "biases": list(biases),
        "intervals": {metric: [round(b, 4) for b in each] for metric, each in bounds.items()},
        "counts": counts.tolist(),
        "accuracy": {name: scores.facts[name]["groups"] for name in MODELS if scores.facts[name]},
    }


def iterates(context: Context, results: Results, scores: Artifact) -> dict[str, Any]:
    """Return the test accuracies at the scored steps; for display only, never to select a step."""
    return {
        step: {name: value for name, value in found.items() if name != "groups"}
        for step, found in scores.facts["iterates"].items()
    }


def needed_extras(recipe: Recipe, extras: Collection[str]) -> list[str]:
    """Return the extras that a recorded run must have: no scores of steps if the recipe lists no steps."""
    lists = any(getattr(recipe.table(stage), "iterates", ()) for stage in recipe.stages)
    return [name for name in extras if lists or name != "iterates"]


def maps(context: Context, results: Results, scores: Artifact) -> dict[str, Any]:
    """Return t-SNE positions of test images for each network, from the features that enter its last layer."""
    tensors = inspect(context, results).tensors
    try:
        places = {
            name.removeprefix(FEATURES): _rounded(triptych.layout(found))
            for name, found in tensors.items()
            if name.startswith(FEATURES)
        }
    except ModuleNotFoundError as error:
        raise UnspurError(str(error)) from error
    return {
        "places": places,
        "targets": tensors["map.targets"].tolist(),
        "bias": tensors["map.bias"].tolist(),
        "classes": list(context.splits.classes),
        "biases": list(context.splits.bias_classes),
    }


def _rounded(places: list[tuple[float, float]]) -> dict[str, list[float]]:
    return {
        "x": [round(x, 1) for x, _ in places],
        "y": [round(y, 1) for _, y in places],
    }


EXTRAS: dict[str, Callable[[Context, Results, Artifact], dict[str, Any]]] = {
    "groups": groups,
    "iterates": iterates,
    "maps": maps,
}

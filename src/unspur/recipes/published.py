"""The numbers in the tables of the paper, in per cent: means of four seeds, without deviations."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

# The metric of a data set; for all others it is unbiased accuracy.
METRICS = {
    "bffhq": "conflicting",
    "celeba": "worst_group",
    "cifar10": "average",
    "mnist": "average",
}
METRIC_TITLES = {
    "unbiased": "Unbiased accuracy (mean over groups)",
    "conflicting": "Accuracy on bias-conflicting samples",
    "worst_group": "Accuracy of the worst group",
    "average": "Accuracy",
}

# fmt: off
_METHODS = ("erm", "end", "rebias", "mrm", "lff", "disent", "dcwp")
_MAIN: dict[str, tuple[float, ...]] = {
    "cmnist/0.5pct": (62.36, 84.32, 69.12, 60.98, 83.73, 86.74, 93.41),
    "cmnist/1pct": (81.73, 94.98, 84.65, 80.42, 88.44, 93.15, 95.98),
    "cmnist/2pct": (89.33, 97.01, 91.96, 89.31, 92.67, 95.15, 97.16),
    "cmnist/5pct": (95.22, 98.00, 96.74, 95.23, 94.90, 96.76, 98.02),
    "cifar10c/0.5pct": (22.02, 23.93, 21.73, 23.92, 27.02, 27.86, 35.90),
    "cifar10c/1pct": (28.00, 27.61, 28.09, 27.77, 31.44, 34.62, 41.56),
    "cifar10c/2pct": (34.63, 36.62, 35.57, 33.53, 38.49, 41.95, 49.01),
    "cifar10c/5pct": (45.66, 43.67, 48.22, 47.00, 46.16, 49.15, 56.17),
    "bffhq/0.5pct": (52.25, 59.80, 54.90, 54.75, 56.50, 55.50, 60.35),
}
# fmt: on
PUBLISHED: dict[str, dict[str, float]] = {
    data: dict(zip(_METHODS, row, strict=True)) for data, row in _MAIN.items()
}
PUBLISHED["celeba"] = {
    "erm": 47.02,
    "disent": 65.26,
    "jtt": 76.80,
    "dcwp-unpruned": 67.85,
    "dcwp": 79.30,
}
# Numbers of other tables: robustness to mining, pruning at 90 %.
PUBLISHED["cifar10c/1pct"]["dcwp-erm"] = 36.21
PUBLISHED["bffhq/0.5pct"]["dcwp-erm"] = 56.90
PUBLISHED["cifar10c/5pct"]["grasp"] = 44.21
PUBLISHED["cifar10"] = {"erm": 86.76, "grasp": 85.64, "dcwp": 86.32}

# Average accuracy on CelebA; the numbers above are of the worst group.
CELEBA_AVERAGE = {
    "erm": 97.80,
    "disent": 67.88,
    "jtt": 93.98,
    "dcwp-unpruned": 95.89,
    "dcwp": 94.50,
}
# The ablation on CMNIST 1 %, with SGD.
ABLATION = {
    "cmnist/ablation-1": 43.10,
    "cmnist/ablation-2": 50.29,
    "cmnist/ablation-3": 73.20,
    "cmnist/ablation-4": 79.28,
    "cmnist/ablation-5": 84.79,
    "cmnist/ablation-6": 87.96,
}
# Robustness to mining: accuracies, then precision and recall of the miner.
_MINED = ("aligned", "conflicting", "unbiased", "precision", "recall")
_MINING: dict[str, dict[str, tuple[float, ...]]] = {
    "cifar10c/1pct": {
        "disent": (80.04, 26.51, 34.62),
        "early-stopped": (94.33, 29.75, 36.21, 19.71, 79.53),
        "epoch-ensemble": (91.68, 35.99, 41.56, 85.97, 74.89),
    },
    "bffhq/0.5pct": {
        "disent": (89.80, 55.55, 72.68),
        "lff": (96.05, 56.50, 76.30),
        "early-stopped": (99.45, 56.90, 78.20, 20.18, 28.39),
        "gce": (98.85, 60.35, 79.60, 30.61, 31.25),
    },
}
MINING: dict[str, dict[str, dict[str, float]]] = {
    data: {how: dict(zip(_MINED, row, strict=False)) for how, row in rows.items()}
    for data, rows in _MINING.items()
}
# The pruning table, whose numbers of DCWP on CIFAR10-C differ from the main table.
PRUNING = {
    "cifar10": {"erm": 86.76, "grasp": 85.64, "dcwp": 86.32},
    "cifar10c/5pct": {"erm": 45.66, "grasp": 44.21, "dcwp": 60.24},
}
# The percentage of weights that are removed.
PRUNED_AWAY = {
    "cifar10": {"erm": 0.0, "grasp": 90.0, "dcwp": 92.4},
    "cifar10c/5pct": {"erm": 0.0, "grasp": 90.0, "dcwp": 90.4},
}
READINGS = {"released-code": "dcwp", "paper-text": "dcwp"}


def kind(recipe: dict[str, Any]) -> str:
    """Return the method of a recipe: `lff` for `cmnist/1pct-lff`, or its plan if the name has no slash."""
    if "/" not in recipe["name"]:
        return str(recipe["plan"])
    tail: str = recipe["name"].rpartition("/")[2]
    return tail.removeprefix(f"{recipe['data']['ratio']}-")


def data_of(recipe: dict[str, Any]) -> str:
    """Return the name that the data of a recipe has in the tables of this file."""
    data = recipe["data"]
    whole = f"{data['name']}/{data['ratio']}"
    return data["name"] if whole not in PUBLISHED and data["name"] in PUBLISHED else whole


def number(recipe: dict[str, Any], method: str = "") -> float | None:
    """Return the published number of a recipe, or of another method on its data."""
    if not method and recipe["name"] in ABLATION:
        return ABLATION[recipe["name"]]
    method = method or kind(recipe)
    return PUBLISHED.get(data_of(recipe), {}).get(READINGS.get(method, method))


def rounded(value: float, digits: int = 1) -> str:
    """Return a published number, or a difference of two, with fewer digits; halves are rounded up."""
    exact = Decimal(str(round(value, 6)))
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0}"

"""The settings behind every recipe file."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from unspur.recipes import budget

Table = dict[str, Any]

RATIOS = ("0.5pct", "1pct", "2pct", "5pct")
SEEDS = {"cmnist": 55, "mnist": 11, "cifar10c": 11, "cifar10": 11, "bffhq": 11, "celeba": 1006}
UP = {"0.5pct": 80.0, "1pct": 50.0, "2pct": 30.0, "5pct": 10.0}
PAPER_TEXT_UP = {"0.5pct": 10.0, "1pct": 30.0, "2pct": 50.0, "5pct": 80.0}


def merged(*tables: Table) -> Table:
    """Tables of a recipe laid over each other, the later on top."""
    out: Table = {}
    for table in tables:
        for key, value in table.items():
            out[key] = {**out.get(key, {}), **value} if isinstance(value, dict) else value
    return out


# -- pieces -------------------------------------------------------------------------------------------

LAST: Table = {"select": {"rule": "last"}}
# The published settings: fixed upweighting, constant rate, the last iterate.
DCWP = merged(
    LAST,
    {
        "prune": {"up": 80.0, "noise": "logit"},
        "finetune": {"steps": 1000, "rate": 1e-3, "schedule": "constant", "drop": 0.0},
    },
)
# Fine-tuning that is ordinary training, as long as the ordinary model's.
PLAIN: Table = {"align": 0.0, "schedule": "constant", "steps": 10_000, "rate": 1e-2}
UNIFORM: Table = {"align": 0.0, "up": 1.0}
# The optimiser of the ordinary model, which all methods share on a network that is not their paper's own.
AS_ERM: Table = {
    "rate": 1e-2,
    "betas": [0.9, 0.99],
    "schedule": "constant",
    "weight_decay": 0.0,
}
# One pass through the data with the miner's optimiser.
EARLY: Table = {"how": "early-stopped", "steps": 215, "schedule": "constant", "decay_every": 0}

CMNIST: dict[str, Table] = {
    "dcwp": DCWP,
    "released-code": merged(
        DCWP,
        {
            "prune": {"noise": "probability", "positives": "column", "keep_zero": True},
            "finetune": {"positives": "column"},
        },
    ),
    "paper-text": merged(DCWP, {"prune": {"penalty": "absolute"}}),
    "unspur": {},
    "erm": merged(LAST, {"plan": "erm"}),
    "end": merged(LAST, {"plan": "end", "end": AS_ERM}),
    "rebias": merged(LAST, {"plan": "rebias", "rebias": AS_ERM}),
    "mrm": merged(
        LAST,
        {
            "plan": "mrm",
            "prune": {"noise": "logit", "align": 0.0},
            "finetune": {**PLAIN, "start": "initial"},
        },
    ),
    "mrm-debias": merged(DCWP, {"finetune": {**PLAIN, "up": 1.0, "start": "initial"}}),
    "lff": merged(LAST, {"plan": "lff", "lff": AS_ERM}),
    "disent": merged(LAST, {"plan": "disent"}),
    "jtt": merged(LAST, {"plan": "jtt", "mine": EARLY, "finetune": {**PLAIN, "up": 51.0}}),
    "groupdro": merged(LAST, {"plan": "groupdro"}),
    "dfr": merged(LAST, {"plan": "dfr"}),
    "dfr-mined": merged(LAST, {"plan": "dfr-mined"}),
    "dcwp-erm": merged(DCWP, {"mine": {**EARLY, "steps": 1000}}),
    "dcwp-unpruned": merged(DCWP, {"plan": "unpruned"}),
    "grasp": merged(
        LAST, {"plan": "grasp", "prune": {"how": "grasp", "keep": 0.1}, "finetune": PLAIN}
    ),
    "magnitude": merged(
        DCWP,
        {"plan": "mrm", "prune": {"how": "magnitude", "keep": 0.1}, "finetune": {"align": 0.0}},
    ),
    "magnitude-debias": merged(
        DCWP, {"plan": "control", "control": {"how": "magnitude", "spread": "global"}}
    ),
    "random-debias": merged(DCWP, {"plan": "control"}),
}
# Kinds whose fine-tuning draws suspects as often as the paper's scripts say for the ratio.
UPWEIGHTED = {
    *("dcwp", "released-code", "paper-text", "dcwp-erm", "dcwp-unpruned"),
    *("magnitude-debias", "random-debias"),
}
CIFAR_BASE: Table = {
    "data": {
        "name": "cifar10c",
        "augment": "crop-flip",
        "mean": [0.4914, 0.4822, 0.4465],
        "std": [0.2023, 0.1994, 0.2010],
    },
    "model": {"name": "resnet18"},
    "mine": {
        "how": "epoch-ensemble",
        "steps": 10_000,
        "optimiser": "adam",
        "rate": 1e-3,
        "weight_decay": 0.0,
        "schedule": "constant",
        "decay_every": 0,
    },
    "pretrain": {"rate": 1e-3},
    "prune": {"sparsity": 1e-9},
    "finetune": {"rate": 5e-4},
}
RETRAIN: Table = {"finetune": {"rate": 1e-3}}  # ordinary training, at the ordinary model's rate
CIFAR10C: dict[str, Table] = {
    "erm": {},
    "dcwp": {},
    "unspur": {
        "prune": {"align": 1.0},
        "finetune": {"align": 1.0, "drop": 0.2, "steps": 1000},
    },
    "end": {"end": {"steps": 10_000, "rate": 1e-3}},
    "rebias": {
        "rebias": {
            "steps": 35_200,
            "rate": 1e-3,
            "network": {"name": "bagnet18"},
        }
    },
    "mrm": RETRAIN,
    "lff": {"lff": {"steps": 35_200, "rate": 1e-3}},
    "disent": {},
    "jtt": merged(RETRAIN, {"mine": {"how": "early-stopped", "steps": 176}}),
}
# DisEnt's own settings on CIFAR10-C: rate and weights by ratio.
DISENT_CIFAR = {
    "0.5pct": (5e-4, 1.0),
    "1pct": (1e-3, 5.0),
    "2pct": (1e-3, 5.0),
    "5pct": (1e-3, 1.0),
}
# Faces. Published settings at the published size; short ones for small sets of small pictures from scratch.
FACES = (*CIFAR10C, "dcwp-erm", "dcwp-unpruned")
FACES_DATA: dict[str, Table] = {
    "bffhq": {"augment": "flip"},
    "celeba": {
        "augment": "resized-crop-flip",
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
    },
}


class Faces(NamedTuple):
    """What a set of faces asks for: a rate, a batch, a budget, one pass through it, odds of suspects."""

    rate: float
    batch: int
    steps: int
    one_pass: int
    up: float
    small: bool = False


FACES_SETS = {
    ("bffhq", "0.5pct"): Faces(1e-3, 64, 10_000, 300, 80.0),
    ("bffhq", "1pct"): Faces(1e-3, 64, 3000, 82, 50.0, small=True),
    ("celeba", "keep2000"): Faces(1e-4, 128, 10_000, 727, 20.0),
    ("celeba", "keep88"): Faces(1e-3, 64, 3000, 61, 20.0, small=True),
}
DISENT_FACES: Table = {
    "rate": 1e-4,
    "swap_weight": 0.1,
    "biased_weight": 2.0,
    "swap_biased_weight": 2.0,
    "decay_by": 0.1,
}
# CIFAR-10 itself, where there is no shortcut to cut.
CIFAR10 = ("erm", "dcwp", "unspur", "grasp", "magnitude")
# Sets without a shortcut, and their images to train on, for what `unspur debias` chooses by itself on a GPU.
UNBIASED = {"mnist": 54_000, "cifar10": 45_000}
# The networks of the original papers, in place of the one all methods share here.
DIVIDED: Table = {"mean": [0.0, 0.0, 0.0], "std": [255.0, 255.0, 255.0]}
OWN: Table = {"rate": 1e-3, "betas": [0.9, 0.999]}  # the optimiser of those papers
OWN_STEP: Table = {**OWN, "schedule": "step", "weight_decay": 1e-4}
ORIGINALS: dict[str, Table] = {
    "lff-mlp": {
        "lff": OWN,
        "data": DIVIDED,
        "model": {"name": "mlp", "options": {"hidden": [100, 100, 100]}},
    },
    "disent-mlp": {
        "data": DIVIDED,
        "model": {"name": "mlp", "options": {"hidden": [100, 100, 16]}},
    },
    "rebias-flatnet": {
        "model": {"name": "flatnet"},
        "rebias": {**OWN_STEP, "network": {"name": "flatnet", "options": {"kernel": 1}}},
    },
    "end-flatnet": {"model": {"name": "flatnet"}, "end": OWN_STEP},
}
# Whole channels in place of weights, cut to a share of the multiply–adds: by masks that are learned, by size.
SLIM: dict[str, Table] = {
    "slim": {"prune": {"unit": "channel", "cut": "share", "keep": 0.3, "weigh": "macs"}},
    "slim-magnitude": {"prune": {"unit": "channel", "how": "magnitude", "keep": 0.3}},
}
SLIM_DATA = {"cmnist": "1pct", "cifar10c": "5pct"}
# Row by row: is the network pruned, and do mask search and fine-tuning align and upweight?
ABLATION: dict[int, Table] = {
    1: {"plan": "erm"},
    2: {"prune": {"align": 0.0}, "finetune": UNIFORM},
    3: {"plan": "unpruned", "finetune": {"align": 0.0}},
    4: {"plan": "unpruned"},
    5: {"prune": {"align": 0.0}, "finetune": {"align": 0.0}},
    6: {},
}
SGD: Table = {
    "pretrain": {
        "optimiser": "sgd",
        "steps": 2000,
        "rate": 0.1,
        "weight_decay": 1e-4,
        "schedule": "step",
        "decay_every": 600,
    },
    "finetune": {"optimiser": "sgd", "rate": 1e-2, "weight_decay": 1e-4},
}

# -- recipes ------------------------------------------------------------------------------------------


def cmnist(ratio: str, kind: str) -> Table:
    up = PAPER_TEXT_UP if kind == "paper-text" else UP
    more = {"finetune": {"up": up[ratio]}} if kind in UPWEIGHTED else {}
    name = {"name": f"cmnist/{ratio}-{kind}", "data": {"name": "cmnist", "ratio": ratio}}
    return merged(name, CMNIST[kind], more)


def cifar10c(ratio: str, kind: str) -> Table:
    own = CIFAR10C.get(kind, RETRAIN)
    if kind == "disent":
        rate, weight = DISENT_CIFAR[ratio]
        own = {"disent": {"rate": rate, "biased_weight": weight, "swap_biased_weight": weight}}
    name = {"name": f"cifar10c/{ratio}-{kind}", "data": {"ratio": ratio}}
    return merged(cmnist(ratio, kind), CIFAR_BASE, name, own)


def cifar10(kind: str) -> Table:
    name = {"name": f"cifar10/{kind}", "data": {"name": "cifar10", "ratio": ""}}
    return merged(cifar10c("5pct", kind), name)


def debias(data: str) -> Table:
    """What `unspur debias` chooses for so many images on a GPU."""
    chosen = budget.settings(
        UNBIASED[data], torch.device("cuda"), name=f"{data}/debias", model="resnet18"
    )
    return merged(chosen.model_dump(), {"data": {"name": data, "ratio": ""}})


def faces(data: str, ratio: str, kind: str) -> Table:
    """A method on faces: the budget of its set for every training from the start."""
    about = FACES_SETS[data, ratio]
    budget = {"rate": about.rate, "batch": about.batch, "steps": about.steps}
    debias = {"batch": about.batch}
    table = merged(
        CMNIST[kind],
        CIFAR_BASE,
        {"name": f"{data}/{ratio}-{kind}", "data": {"name": data, "ratio": ratio}},
        {"data": FACES_DATA[data], "mine": {**budget, "how": "gce"}, "pretrain": budget},
        {"prune": debias, "finetune": debias},
    )
    own: Table = {}
    if kind in UPWEIGHTED:
        own = {"finetune": {"up": about.up}}
    elif kind == "unspur":
        own = CIFAR10C["unspur"]
    elif kind in ("mrm", "jtt"):
        own = {"finetune": budget}
    elif kind in ("lff", "end", "rebias"):
        own = {kind: {**CIFAR10C[kind][kind], **budget}}
    elif kind == "disent":
        own = {"disent": {**DISENT_FACES, "batch": about.batch}}
    if kind in ("jtt", "dcwp-erm"):
        steps = about.one_pass if kind == "jtt" else 1000
        own = merged(own, {"mine": {"how": "early-stopped", "steps": steps}})
    if about.small:
        short = {"steps": about.steps, "swap_start": 1000, "schedule": "constant", "rate": 1e-3}
        own = merged(own, {"data": {"size": 96, "augment": "flip"}})
        own = merged(own, {"disent": short} if kind == "disent" else {})
    return merged(table, own)


def original(kind: str) -> Table:
    base = cmnist("1pct", kind.partition("-")[0])
    return merged(base, ORIGINALS[kind], {"name": f"cmnist/1pct-{kind}"})


def slim(data: str, kind: str) -> Table:
    ratio = SLIM_DATA[data]
    base = {"cmnist": cmnist, "cifar10c": cifar10c}[data](ratio, "unspur")
    return merged(base, SLIM[kind], {"name": f"{data}/{ratio}-{kind}"})


def ablation(index: int, optimiser: str) -> Table:
    name = f"cmnist/ablation-{index}" + ("" if optimiser == "sgd" else f"-{optimiser}")
    base = merged(cmnist("1pct", "dcwp"), SGD if optimiser == "sgd" else {})
    return merged(base, ABLATION[index], {"name": name})


# -- the demo -----------------------------------------------------------------------------------------

DEMO: Table = {
    "name": "demo",
    "log_every": 25,
    "watch_every": 100,
    "data": {"name": "demo", "ratio": "2pct"},
    "model": {"name": "convnet", "options": {"width": 32}},
    "mine": {"steps": 300, "batch": 128, "decay_every": 90},
    "pretrain": {"steps": 600, "batch": 128, "rate": 3e-3},
    "prune": {"steps": 600, "batch": 128, "rate": 2e-2, "align": 1.0, "sparsity": 2e-6},
    "finetune": {"steps": 300, "batch": 128, "rate": 1e-3, "align": 1.0, "drop": 0.2},
    "select": {"every": 25},
}
DEMO_HEADER = """\
# The whole chain on 9,000 embedded digits, 180 of which contradict their colour: a small network, short
# stages, about a minute on two CPU cores. A demonstration: its settings were chosen by its own test split.
#     unspur demo

"""

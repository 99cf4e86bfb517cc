"""ERM, DCWP and our preset from ImageNet weights, beside the paper's numbers from such a start."""

from __future__ import annotations

from ..recipes import published
from .faces_item import within
from .item import Cells, Item, Page, Result, Results, cell, mean_sd_text
from .pages import FACTS, METHOD_SOURCES, PUBLISHED, cut, facts, gain, legend, number, table

METHODS = {"erm": "ERM", "dcwp": "DCWP", "unspur": "unspur"}
SETS = {
    "cifar10c/1pct": "CIFAR10-C 1 %",
    "bffhq/1pct": "faces 1 %",
    "celeba/keep88": "CelebA, a part",
}
# Where the published numbers of a data set are, and their metric.
PAPER = {
    "cifar10c/1pct": ("cifar10c/1pct", "unbiased"),
    "bffhq/1pct": ("bffhq/0.5pct", "conflicting"),
    "celeba/keep88": ("celeba", "worst_group"),
}
METRICS = {
    "conflicting": "conflicting images",
    "worst_group": "worst group",
    "unbiased": "unbiased",
}
WEIGHTS = (
    "The weights are `mobilenet_v2-b0353104.pth` of torchvision, in the folder of torch.hub "
    "(`$TORCH_HOME/hub/checkpoints`). If they are missing, they are downloaded; "
    "[models](../models.md#from-imagenet-weights-on-the-benchmarks) says where else to get them."
)
START = "*start*, *ImageNet*: the published weights of the network."
DIFFERENCES = """What differs from the paper:

- network: MobileNetV2 instead of ResNet-18; both start from ImageNet weights
- images: 96 px; the paper does not enlarge CIFAR10-C (32 px); its code has 128 (BFFHQ) and 224 px (CelebA)
- data: CIFAR10-C is made by the same recipe, with another draw of images. The faces are other images than \
BFFHQ, with 1 % conflicting ones instead of 0.5 %. CelebA is a part with 3,966 training images.
- training: the network has at most 3,000 steps in each stage, at a rate of 1e-4, with a warm-up. At first \
only the new classifier is trained. The masks have a rate of 1e-2.

So the gains over ERM can be compared, not the accuracies. The miner of DCWP is such a network, too. That of \
unspur is the small network of the audit, which starts from random weights, so its suspects are those of \
[the preset from random weights](preset.md) if the images are the same."""
MINER = (
    "*found by the miner*: the share of the conflicting images that are suspects (recall). *suspects that "
    "conflict*: the share of the suspects that are conflicting images (precision)."
)


def _cells() -> Cells:
    return {(data, kind): cell(f"{data}-{kind}-imagenet") for data in SETS for kind in METHODS}


def _draw(results: Results) -> Page:
    keys = [(data, kind) for data in SETS for kind in METHODS]
    return Page(
        [
            "The paper starts its networks from ImageNet weights, except on CMNIST. Here MobileNetV2 does.",
            WEIGHTS,
            DIFFERENCES,
            "Gain over ERM in the metric of the paper, in points: mean ± standard deviation of the "
            "differences between runs with the same seed.",
            legend(
                PUBLISHED,
                METHOD_SOURCES,
                START,
                "*gain*: the difference to ERM on the same images, in points.",
            ),
            table(GAINS, [_gain_row(results, *key) for key in keys]),
            "All scores, with the 95 % bootstrap interval over the test images of one run in square "
            "brackets; its ends are averaged over the runs. " + MINER,
            table(SCORES, [_score_row(*key, results[key]) for key in keys]),
        ]
    )


GAINS = ["data", "method", *FACTS, "metric", "accuracy", "published", "gain", "gain, published"]
SCORES = [
    "data",
    "method",
    "n",
    *METRICS.values(),
    "aligned",
    "weights cut",
    "multiply–adds kept, %",
    "found by the miner",
    "suspects that conflict",
]


def _gain_row(results: Results, data: str, kind: str) -> list[str]:
    where, metric = PAPER[data]
    ours, base = results[data, kind], results[data, "erm"]
    known, erm = published.PUBLISHED[where].get(kind), published.PUBLISHED[where]["erm"]
    row = [SETS[data], METHODS[kind], *facts(ours), METRICS[metric]]
    row += [ours.text("debiased", metric), number(known)]
    if kind == "erm":
        return [*row, "", ""]
    more = None if known is None else known - erm
    return [*row, mean_sd_text(gain(ours, base, "debiased", metric)), number(more)]


def _score_row(data: str, kind: str, result: Result) -> list[str]:
    scores = [within(result, metric) for metric in METRICS]
    kept = result.text("density", "macs")
    return [
        *(SETS[data], METHODS[kind], str(result.n), *scores),
        *(result.text("debiased", "aligned"), cut(result), kept),
        *(result.text("mining", score) for score in ("recall", "precision")),
    ]


IMAGENET = Item("From ImageNet weights", _cells, _draw, extras=("groups",))

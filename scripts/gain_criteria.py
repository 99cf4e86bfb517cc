"""Try criteria that tell debiasing that helps from debiasing with suspects that are only hard images.

    python scripts/gain_criteria.py --out results/gain-criteria.json.gz --data-root DIR

DIR holds MNIST, CIFAR-10, the faces in the layout of BFFHQ and CelebA. Faces of CelebA's training partition
get other attributes than hair colour as classes. Women with one label (or men, if there are more of these)
are left out but for 3 %, as women who are not blond are in the usual set. Some of these attributes are hard
to see, so that most suspects are hard images. The other cases are those of gain_check.py, and photographs of
two classes, the first three times as large. Every set is debiased without asking the audit first. None of the
criteria uses bias labels or test images. A run takes about a minute of a CPU core. Runs that are already in
the record are not repeated. `make pages` writes the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from gain_check import CASES as EARLIER
from gain_check import LATER, SHARE, Cases, Pair, run_cases
from torch import Tensor

from unspur import noise
from unspur.audit.statistics import separation
from unspur.data.benchmarks import celeba, cifar10, planted
from unspur.data.splits import Split, Splits
from unspur.errors import DataError
from unspur.stages.evaluate import Scorer
from unspur.stages.measured_gain import samples_outside
from unspur.stages.suspects import Suspects
from unspur.workflow import Outcome

PIXELS, FACES, LEFT, TEST_GROUP = 48, 1700, 0.03, 160
SMALLER = 3  # every third image of the second class of photographs is used
PHOTOGRAPHS, TEST = 2400, 600
SPLIT, PICKED, FOLDED = 810, 811, 812  # streams of random numbers
NEIGHBOURS, FEWEST, FOLDS, DECAY = 5, 8, 4, 3e-2
TWO_CLASSES = ((1, 9), (4, 8), (3, 5))  # cars and trucks, deer and ships, cats and dogs

Groups = dict[tuple[int, int], Tensor]


def attribute(root: Path, target: str, seed: int) -> Pair:
    """Return faces with an attribute as class, which nearly always agrees with the sex."""
    found = celeba.load(root, "all", size=PIXELS)
    labels, male = attributes(root, target, found.train.names or ()), found.bias["train"]
    if float(((labels == male).double()).mean()) < 0.5:
        male = 1 - male
    groups = _groups(labels, male, seed)
    test = torch.cat([members[: _cut(members)] for members in groups.values()])
    train = _with_shortcut({key: members[_cut(members) :] for key, members in groups.items()})
    return Pair(*(_part(found, labels, male, index) for index in (train, test)))


def attributes(root: Path, target: str, names: Sequence[str]) -> Tensor:
    """Return one attribute of some images, 0 or 1, from the official list."""
    folder = root if (root / celeba.ATTRIBUTES).exists() else root / celeba.NAME
    lines = (folder / celeba.ATTRIBUTES).read_text(encoding="utf-8").splitlines()[1:]
    if target not in lines[0].split():
        raise DataError(f"CelebA has no attribute {target!r}.")
    column = lines[0].split().index(target) + 1
    rows = (line.split() for line in lines[1:] if line.strip())
    known = {f"{celeba.IMAGES}/{row[0]}": int(row[column] == "1") for row in rows}
    return torch.tensor([known[name] for name in names])


def _groups(labels: Tensor, bias: Tensor, seed: int) -> Groups:
    """Return the indices of each (class, bias) group in random order."""
    order = torch.argsort(noise.uniform(seed, 0, SPLIT, (len(labels),)))
    return {
        (a, b): order[(labels[order] == a) & (bias[order] == b)] for a in (0, 1) for b in (0, 1)
    }


def _cut(members: Tensor) -> int:
    """Return the number of test images of a group."""
    return min(TEST_GROUP, len(members) // 3)


def _with_shortcut(groups: Groups) -> Tensor:
    """Return the training images: nearly all of the larger conflicting group are left out."""
    aligned = torch.cat([groups[0, 0], groups[1, 1]])
    some = torch.argsort(noise.uniform(0, 0, PICKED, (len(aligned),)))[:FACES]
    small, large = sorted((groups[0, 1], groups[1, 0]), key=len)
    kept = large[: int(LEFT * len(some))]
    rest = small[: len(small) * len(some) // (2 * len(aligned))]
    return torch.sort(torch.cat([aligned[some], kept, rest])).values


def _part(found: Splits, labels: Tensor, bias: Tensor, index: Tensor) -> Splits:
    images = found.train.take(index)
    return Splits(
        train=Split(images, labels[index]),
        classes=("without", "with"),
        bias={"train": bias[index]},
        name="attribute",
    )


def photographs(root: Path, kind: str, seed: int) -> Pair:
    """Return photographs of two classes, the first three times as large, with a planted shortcut."""
    found, chosen = cifar10.read(root), TWO_CLASSES[seed % len(TWO_CLASSES)]
    here = torch.isin(found.train_labels, torch.tensor(chosen)).nonzero().squeeze(1)
    labels = (found.train_labels[here] == chosen[1]).long()
    both = planted.Base(found.train_images[here], labels, "cifar10").some(
        PHOTOGRAPHS + TEST, seed=seed
    )
    order = torch.argsort(noise.uniform(seed, 0, SPLIT, (len(both.labels),)))
    train, test = order[TEST:], order[:TEST]
    train = train[(both.labels[train] == 0) | (torch.arange(len(train)) % SMALLER == 0)]
    return Pair(
        planted.planted(both.only(train), kind, share=SHARE, seed=seed),
        planted.unrelated(both.only(test), kind, seed=LATER + seed),
    )


ATTRIBUTES = (
    *("Bangs", "Black_Hair", "Brown_Hair", "Arched_Eyebrows", "Bags_Under_Eyes", "Wavy_Hair"),
    *("Mouth_Slightly_Open", "Smiling", "Eyeglasses"),
)
AGAIN = (
    "digits: colour, 10 %",
    "digits: texture, 10 %",
    "faces: age by sex",
    "CelebA: hair by sex",
)
CASES: Cases = {
    **{f"CelebA: {name} by sex": (attribute, name) for name in ATTRIBUTES},
    **{f"photographs: {kind}, 3 to 1": (photographs, kind) for kind in ("tint", "border")},
    **{name: EARLIER[name] for name in AGAIN},
}


# -- criteria -----------------------------------------------------------------------------------------


def criteria(outcome: Outcome) -> dict[str, Any]:
    """Return the criteria of a finished run; None for one that cannot be measured."""
    context, suspects = outcome.context, outcome.results.suspects()
    if (samples := samples_outside(context)) is None:
        return {"criteria": None}
    among, targets = samples[1], context.splits.train.targets
    lost, flagged = lost_samples(outcome, among), suspects.conflict[among]
    images = context.splits.train.take(torch.arange(len(targets)))
    found = {
        "class cost": class_cost(lost, flagged, targets[among]),
        "look-alike cost": look_alike_cost(lost, suspects, targets, among),
        "worst class": worst_class(lost, flagged, targets[among]),
        "coherence": coherence(images, suspects, targets),
    }
    return {"criteria": found}


def lost_samples(outcome: Outcome, among: Tensor) -> Tensor:
    """Return 1 for each sample that only the ordinary network gets right, and -1 for the opposite.

    The debiased network's step was selected without the sample, as for the check after training.
    """
    results, right = outcome.results, Scorer(outcome.context).right
    assert results.last_network is not None, "the run has two networks"
    selected = results[results.last_network].tensors.get("right")
    after = right(results, results.last_network, "train", among) if selected is None else selected
    return right(results, "pretrain", "train", among).double() - after.double()


def class_cost(lost: Tensor, conflict: Tensor, targets: Tensor) -> float | None:
    """Return the accuracy lost on other samples, where each class counts as often as among suspects."""
    costs, counts = [], []
    for label in torch.unique(targets[conflict]).tolist():
        others = ~conflict & (targets == label)
        if others.any():
            costs.append(float(lost[others].mean()))
            counts.append(int((conflict & (targets == label)).sum()))
    pairs = zip(costs, counts, strict=True)
    return sum(cost * count for cost, count in pairs) / sum(counts) if costs else None


def look_alike_cost(
    lost: Tensor, suspects: Suspects, targets: Tensor, among: Tensor
) -> float | None:
    """Return the accuracy lost on other samples to which the miner gives the same class as surely."""
    flagged, predicted = suspects.conflict[among], suspects.predicted[among]
    score = suspects.score[among]
    sure = torch.where(flagged, score, 1 - score)
    ordinary = ~flagged & (predicted == targets[among])
    costs = []
    for suspect in flagged.nonzero().squeeze(1).tolist():
        same = (ordinary & (predicted == predicted[suspect])).nonzero().squeeze(1)
        if len(same) >= NEIGHBOURS:
            nearest = (sure[same] - sure[suspect]).abs().argsort()[:NEIGHBOURS]
            costs.append(float(lost[same[nearest]].mean()))
    return mean(costs) if costs else None


def worst_class(lost: Tensor, conflict: Tensor, targets: Tensor) -> float | None:
    """Return the smallest gain on suspects of a class minus the cost on others of the same class."""
    found = []
    for label in torch.unique(targets).tolist():
        suspects, others = conflict & (targets == label), ~conflict & (targets == label)
        if int(suspects.sum()) >= FEWEST and others.any():
            found.append(-float(lost[suspects].mean() + lost[others].mean()))
    return min(found) if found else None


def coherence(images: Tensor, suspects: Suspects, targets: Tensor) -> float | None:
    """Return how well a linear model tells unseen suspects from other images of their class (AUC)."""
    inputs, areas, counts = _features(images), [], []
    for label in torch.unique(targets).tolist():
        here = targets == label
        flagged = suspects.conflict[here]
        if int(flagged.sum()) >= FEWEST:
            score = _cross_fitted(inputs[here], flagged)
            found = separation(score, flagged, torch.zeros_like(score), among=flagged | ~flagged)
            areas.append(found.value if found else 0.5)
            counts.append(int(flagged.sum()))
    pairs = zip(areas, counts, strict=True)
    return sum(area * count for area, count in pairs) / sum(counts) if areas else None


def _features(images: Tensor) -> Tensor:
    """Return colours and edges of areas, standardised."""
    pixels = images.float() / 255
    grey = pixels.mean(1, keepdim=True)
    edges = (grey.diff(dim=3).abs(), grey.diff(dim=2).abs())
    parts = [F.adaptive_avg_pool2d(pixels, 8), *(F.adaptive_avg_pool2d(each, 6) for each in edges)]
    table = torch.cat([part.flatten(1) for part in parts], 1)
    return (table - table.mean(0)) / (table.std(0) + 1e-4)


def _cross_fitted(inputs: Tensor, flagged: Tensor) -> Tensor:
    """Return the score of each sample under a logistic regression that was fitted without it."""
    fold = (noise.uniform(0, 0, FOLDED, (len(flagged),)) * FOLDS).long()
    score = torch.zeros(len(flagged))
    for number in range(FOLDS):
        known = fold != number
        score[~known] = inputs[~known] @ _fit(inputs[known], flagged[known])
    return score


def _fit(inputs: Tensor, flagged: Tensor) -> Tensor:
    """Return the weights of a logistic regression in which both groups count alike."""
    table = torch.cat([inputs, torch.ones(len(inputs), 1)], 1)
    weights = torch.zeros(table.shape[1], requires_grad=True)
    balance = (~flagged).sum() / flagged.sum().clamp(min=1)
    optimiser = torch.optim.LBFGS([weights], max_iter=40)

    def loss() -> Tensor:
        optimiser.zero_grad()
        error = F.binary_cross_entropy_with_logits(
            table @ weights, flagged.float(), pos_weight=balance
        )
        total: Tensor = error + DECAY * weights.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    return weights.detach()[:-1]


if __name__ == "__main__":
    run_cases(__doc__, "results/gain-criteria.json.gz", CASES, (), more=criteria)

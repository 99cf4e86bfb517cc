"""Inspect: compute the pictures of a run's report, so that the report does not run networks.

There are three kinds:

    map       input features of the head for evaluated samples, for every network of the run
    gallery   the strongest suspects and typical members of every class, as small pictures
    looks     saliency maps: the pixels that the predictions for suspects depend on
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ModelError
from ..models.head import find_head, penultimate
from ..store import Artifact
from ..store.hashing import digest
from ..training.numerics import matmul_precision
from .context import Context
from .evaluate import Scorer
from .results import Pictures, Results, store_result
from .suspects import Suspects
from .thumbnails import (
    COPIES,
    FEWEST,
    answers_of,
    describe,
    gallery,
    inputs,
    pick_by_class,
    pictures,
    shrink,
)

VERSION = 1  # increase it if the same networks would give other pictures
POINTS, COMPONENTS = 1000, 30  # of the map: the number of samples, and of principal components


def inspect(context: Context, results: Results) -> Artifact:
    """Return the pictures of a run; only the report reads them."""
    names = [
        *context.splits.bias_classes,
        *(str(part.names) for part in context.splits.parts().values()),
    ]
    ingredients = {
        "stage": "inspect",
        "version": VERSION,
        "parents": {name: artifact.path.name for name, artifact in results.items()},
        "truth": context.splits.truth_digest,
        "names": digest("\n".join(names)),
        "device": context.device.type,
    }
    return store_result(context.store, ingredients, lambda: _inspect(context, results))


def _inspect(context: Context, results: Results) -> Pictures:
    splits = context.splits
    facts: dict[str, Any] = {
        "data": splits.name,
        "sizes": {name: len(part) for name, part in splits.parts().items()},
        "classes": list(splits.classes),
        "bias_classes": list(splits.bias_classes),
    }
    with matmul_precision(context.recipe.precision):
        networks = {
            name: context.place(context.final_network(results.weights(stage))).eval()
            for name, stage in distinct(results).items()
        }
        pictures = Pictures({}, facts) | _map(context, networks)
        if "mine" not in results:
            return pictures
        says = answers_of(context, networks, splits.train)
        pictures |= gallery(context, results.suspects(), says)
        return pictures | _looks(context, results, networks)


def distinct(results: Results) -> dict[str, str]:
    """Return the stages whose networks differ: without `debiased` if the result is the ordinary model."""
    stages = {name: stage for name, stage in results.networks().items() if stage is not None}
    if stages["debiased"] == stages.get("ordinary"):
        del stages["debiased"]
    return stages


# -- the map ------------------------------------------------------------------------------------------


def _map(context: Context, networks: dict[str, nn.Module]) -> Pictures:
    """Return principal components of the input of the head, for some of the evaluated samples."""
    scorer = Scorer(context)
    part = context.splits.parts()[scorer.split]
    scored = torch.ones(len(part), dtype=torch.bool) if scorer.among is None else scorer.among
    chosen = _spread(scored.nonzero().squeeze(1), POINTS)
    among = torch.zeros_like(scored)
    among[chosen] = True
    tensors = {"map.targets": part.targets[chosen]}
    if scorer.split in context.splits.bias:
        tensors["map.bias"] = context.splits.bias[scorer.split][chosen]
    try:
        for name, model in networks.items():
            features = penultimate(model, _head(context, model), scorer.source.plain(among=among))
            tensors[f"map.features.{name}"] = _components(features)
    except ModelError as error:
        return Pictures(notes={"map": str(error)})
    return Pictures(tensors, {"map": scorer.name})


def _spread(index: Tensor, most: int) -> Tensor:
    """Return at most `most` of the entries, evenly spaced."""
    if len(index) <= most:
        return index
    return index[torch.linspace(0, len(index) - 1, most).long()]


def _head(context: Context, model: nn.Module) -> str:
    return (
        context.head
        if context.final is context.builder
        else find_head(model, context.probe.to(context.device))
    )


def _components(features: Tensor) -> Tensor:
    """Return the first principal components of features."""
    u, s, _ = torch.linalg.svd((features - features.mean(0)).double(), full_matrices=False)
    return torch.mul(u, s)[:, :COMPONENTS].float()


# -- saliency -----------------------------------------------------------------------------------------


def _looks(context: Context, results: Results, networks: dict[str, nn.Module]) -> Pictures:
    """Return saliency maps of the ordinary and the debiased network for suspects, preferably unseen ones."""
    split, among, suspects = _unseen_suspects(context, results)
    index = pick_by_class(
        suspects, among, context.splits.parts()[split].targets, len(context.splits.classes)
    )
    if not index:
        return Pictures(notes={"looks": []})
    part, where = context.splits.parts()[split], torch.tensor(index)
    tensors = {"looks.images": pictures(part, index)}
    compared = {name: model for name, model in networks.items() if name != "pruned"}
    for name, model in compared.items():
        heat = torch.cat([saliency(model, x) for x in inputs(context, part, where)])
        tensors[f"looks.{name}"] = (255 * shrink(heat[:, None])).squeeze(1).round().byte().cpu()
    trained_on = split == "train" and not bool(context.kept_out[where].any())
    samples = describe(context, split, suspects, index, answers_of(context, compared, part))
    return Pictures(tensors, {"looks": samples, "looks_trained_on": trained_on})


def _unseen_suspects(context: Context, results: Results) -> tuple[str, Tensor, Suspects]:
    """Return a split, a mask and the suspects of the split: unseen samples if there are enough suspects."""
    split, among = context.unseen or ("train", ~context.kept_out)
    suspects = results.suspects(split)
    if int((suspects.conflict & among).sum()) >= FEWEST:
        return split, among, suspects
    return "train", ~context.kept_out, results.suspects()


def saliency(model: nn.Module, x: Tensor) -> Tensor:
    """Return how much each pixel contributes to the prediction, between 0 and 1, as (N, H, W).

    These are integrated gradients of the largest logit. The baseline is a blank image of the median colour.
    The result is averaged over a small neighbourhood.
    """
    blank = x.transpose(0, 1).flatten(1).median(1).values.view(1, -1, 1, 1)
    with torch.no_grad():
        says = model(x).argmax(1, keepdim=True)
    total = torch.zeros_like(x)
    for step in range(COPIES):
        between = (blank + (step + 0.5) / COPIES * (x - blank)).requires_grad_()
        (gradient,) = torch.autograd.grad(model(between).gather(1, says).sum(), between)
        total += gradient
    heat = ((x - blank) * total).sum(1).abs()
    size = 2 * (max(x.shape[2:]) // 28) + 1
    heat = F.avg_pool2d(heat, size, stride=1, padding=size // 2, count_include_pad=False)
    brightest = torch.quantile(heat.flatten(1), 0.99, dim=1).clamp(min=1e-12)
    return (heat / brightest[:, None, None]).clamp(max=1)

"""What a report shows of networks and images, kept with the result: a report runs no network.

A run is looked at three ways, and an audit two:

    map       features that enter the head, of samples outside training, for every network of the run
    gallery   for every class its strongest suspects and typical members, as small pictures
    looks     what a network's decision depends on, in pictures of suspects
    views     suspects as a network gets them that cannot see something
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .data.splits import Part, digest
from .errors import ModelError
from .evaluation import Scorer, networks_of
from .features import find_head, penultimate
from .lab import VERSIONS, Lab, Made, Result, weights_of
from .mining import Suspects
from .runtime import matmul_precision
from .store import Artifact
from .suspects import sample_names
from .views import VIEWS

POINTS, COMPONENTS = 1000, 30  # of the map: samples, and principal components of their features
PICTURES, CLASSES = 200, 20  # in the gallery, at most
SUSPECTS, FEWEST, TYPICAL = 12, 4, 4  # of each class there: suspects at most and at least, members
LOOKS, COPIES = 12, 16  # pictures, and steps on the way from a blank one to each
SIDE = 96  # pixels of a picture's longer side
CHUNK = 64  # pictures a network looks at at once

Says = Callable[[Tensor], Mapping[str, Sequence[int]]]  # what each network says to samples by index


def inspect(lab: Lab, made: Made) -> Artifact:
    """Look at what a plan made; nothing but the report reads it."""
    names = [*lab.splits.bias_classes, *(str(part.names) for part in lab.splits.parts().values())]
    ingredients = {
        "stage": "inspect",
        "version": VERSIONS.get("inspect", 1),
        "parents": {name: artifact.path.name for name, artifact in made.items()},
        "truth": lab.splits.truth_digest,
        "names": digest("\n".join(names)),
        "device": lab.device.type,
    }
    return lab.store.make(ingredients, lambda workspace: _inspect(lab, made))


def _inspect(lab: Lab, made: Made) -> Result:
    facts: dict[str, Any] = {
        "data": lab.splits.name,
        "sizes": {name: len(part) for name, part in lab.splits.parts().items()},
        "classes": list(lab.splits.classes),
        "bias_classes": list(lab.splits.bias_classes),
    }
    tensors: dict[str, Tensor] = {}
    with matmul_precision(lab.recipe.precision):
        networks = {
            name: lab.place(lab.outcome(weights_of(made, stage))).eval()
            for name, stage in distinct(made).items()
        }
        parts = [_map(lab, networks)]
        if "mine" in made:
            suspects = Suspects.of(made["mine"].tensors, "train")
            says = _asked(lab, networks, lab.splits.train)
            parts += [gallery(lab, suspects, says), _looks(lab, made, networks)]
    for more_tensors, more_facts in parts:
        tensors |= more_tensors
        facts |= more_facts
    return tensors, facts


def distinct(made: Made) -> dict[str, str]:
    """The stages whose networks differ: where a plan ended with the ordinary model, that one alone."""
    stages = {name: stage for name, stage in networks_of(made).items() if stage is not None}
    if stages["debiased"] == stages.get("ordinary"):
        del stages["debiased"]
    return stages


# -- the map ------------------------------------------------------------------------------------------


def _map(lab: Lab, networks: dict[str, nn.Module]) -> Result:
    """The main components of what enters the head, for some of the samples that are scored."""
    scorer = Scorer(lab)
    part = lab.splits.parts()[scorer.split]
    scored = torch.ones(len(part), dtype=torch.bool) if scorer.among is None else scorer.among
    chosen = _spread(scored.nonzero().squeeze(1), POINTS)
    among = torch.zeros_like(scored)
    among[chosen] = True
    tensors = {"map.targets": part.targets[chosen]}
    if scorer.split in lab.splits.bias:
        tensors["map.bias"] = lab.splits.bias[scorer.split][chosen]
    try:
        for name, model in networks.items():
            found = penultimate(model, _head(lab, model), scorer.source.plain(among=among))
            tensors[f"map.features.{name}"] = _components(found)
    except ModelError as error:
        return {}, {"map": str(error)}
    return tensors, {"map": scorer.name}


def _spread(index: Tensor, most: int) -> Tensor:
    """At most so many of the entries, evenly over all of them."""
    if len(index) <= most:
        return index
    return index[torch.linspace(0, len(index) - 1, most).long()]


def _head(lab: Lab, model: nn.Module) -> str:
    return lab.head if lab.final is lab.builder else find_head(model, lab.probe.to(lab.device))


def _components(features: Tensor) -> Tensor:
    """Features along the directions in which they differ most."""
    u, s, _ = torch.linalg.svd((features - features.mean(0)).double(), full_matrices=False)
    return torch.mul(u, s)[:, :COMPONENTS].float()


# -- the gallery --------------------------------------------------------------------------------------


def gallery(
    lab: Lab, suspects: Suspects, says: Says, marks: Mapping[str, Tensor] | None = None
) -> Result:
    """The strongest suspects of each class and typical members of it, of the training split.

    `marks` are other things to know of a sample: yes or no.
    """
    part = lab.splits.train
    shown = ~lab.given.excluded if lab.given else torch.ones(len(part), dtype=torch.bool)
    flagged = [int((suspects.conflict & shown & (part.targets == c)).sum()) for c in _labels(lab)]
    most = sorted(_labels(lab), key=lambda c: -flagged[c])[:CLASSES]
    chosen: list[tuple[int, str]] = []
    for label in sorted(most):
        own = shown & (part.targets == label)
        count = max(FEWEST, min(SUSPECTS, flagged[label], PICTURES // len(most) - TYPICAL))
        chosen += [(i, "suspect") for i in _strongest(suspects, own, count)]
        easy = Suspects(-suspects.score, suspects.conflict, suspects.predicted)
        chosen += [(i, "typical") for i in _strongest(easy, own & ~suspects.conflict, TYPICAL)]
    index = [index for index, _ in chosen]
    samples = _described(lab, "train", suspects, index, says)
    for sample, (i, role) in zip(samples, chosen, strict=True):
        sample |= {"role": role, **{name: bool(t[i]) for name, t in (marks or {}).items()}}
    totals = torch.bincount(part.targets, minlength=len(flagged)).tolist()
    counts = [{"samples": n, "flagged": k} for n, k in zip(totals, flagged, strict=True)]
    return {"gallery.images": _pictures(part, index)}, {"gallery": samples, "counts": counts}


def _labels(lab: Lab) -> range:
    return range(len(lab.splits.classes))


def _strongest(suspects: Suspects, among: Tensor, count: int) -> list[int]:
    """Some of the samples, flagged ones first, then by score."""
    index = among.nonzero().squeeze(1)
    rank = suspects.score[index].double() + 1e6 * suspects.conflict[index]
    order = torch.argsort(rank, descending=True, stable=True)[:count]
    return [int(i) for i in index[order]]


def _described(
    lab: Lab,
    split: str,
    suspects: Suspects,
    index: Sequence[int],
    says: Says,
) -> list[dict[str, Any]]:
    """What is known of some samples of a split, and what each network says to them."""
    part, said = lab.splits.parts()[split], says(torch.tensor(index, dtype=torch.long))
    named, conflicting = sample_names(part), lab.splits.conflicting(split)
    return [
        {
            "split": split,
            "name": named[i],
            "label": int(part.targets[i]),
            "score": round(float(suspects.score[i]), 4),
            "predicted": int(suspects.predicted[i]),
            "flagged": bool(suspects.conflict[i]),
            "bias": int(lab.splits.bias[split][i]) if split in lab.splits.bias else None,
            "conflicting": None if conflicting is None else bool(conflicting[i]),
            "says": {name: labels[place] for name, labels in said.items()},
        }
        for place, i in enumerate(index)
    ]


def _asked(lab: Lab, networks: Mapping[str, nn.Module], part: Part) -> Says:
    """Networks to be asked about samples of a split."""
    return lambda index: {name: _said(lab, model, part, index) for name, model in networks.items()}


@torch.no_grad()
def _said(lab: Lab, model: nn.Module, part: Part, index: Tensor) -> list[int]:
    """The classes a network says some samples are of."""
    return [int(c) for x in _inputs(lab, part, index) for c in model(x).argmax(1)]


def _inputs(lab: Lab, part: Part, index: Tensor) -> Iterator[Tensor]:
    for some in torch.split(index, CHUNK):
        if len(some):
            yield lab.preprocess(part.take(some).to(lab.device))


def _pictures(part: Part, index: Sequence[int]) -> Tensor:
    """Samples as small pictures: uint8 (N, 3, high, wide)."""
    parts = torch.split(torch.tensor(index, dtype=torch.long), CHUNK)
    return torch.cat([_smaller(_colours(part.take(some).cpu())) for some in parts]).byte()


def _colours(images: Tensor) -> Tensor:
    """Images of any number of channels as red, green and blue between 0 and 255."""
    images = images[:, :3] if images.shape[1] >= 3 else images[:, :1].expand(-1, 3, -1, -1)
    if images.dtype == torch.uint8:
        return images.float()
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    return 255 * (images - low) / (high - low).clamp(min=1e-9)


def _smaller(images: Tensor) -> Tensor:
    """Images (N, C, H, W) whose longer side is at most SIDE."""
    high, wide = images.shape[2:]
    shrink = SIDE / max(high, wide)
    if shrink >= 1:
        return images
    size = [max(1, round(high * shrink)), max(1, round(wide * shrink))]
    smaller = F.interpolate(images, size=size, mode="bilinear", antialias=True)
    return smaller.clamp(images.min(), images.max())


# -- through a view -----------------------------------------------------------------------------------


def through(lab: Lab, view: str, suspects: Suspects, among: Tensor, says: Says) -> Result:
    """Suspects of the training split, and what a network behind a view gets to see of them."""
    part = lab.splits.train
    index = _in_turns(suspects, among, part.targets, len(lab.splits.classes))
    if not index:
        return {}, {}
    tensors = {
        f"views.{view}.images": _pictures(part, index),
        f"views.{view}.seen": _seen(lab, view, index),
    }
    return tensors, {view: _described(lab, "train", suspects, index, says)}


def _seen(lab: Lab, view: str, index: Sequence[int]) -> Tensor:
    """Training samples as they are behind a view, as small pictures."""
    where, part = torch.tensor(index, dtype=torch.long), lab.splits.train
    seen = torch.cat([VIEWS[view](x).cpu() for x in _inputs(lab, part, where)])
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in _scaling(lab))
    pixels = seen * std + mean
    if part.dtype == torch.uint8:
        pixels = (255 * pixels).clamp(0, 255).round().byte()
    return _smaller(_colours(pixels)).byte()


def _scaling(lab: Lab) -> tuple[Sequence[float], Sequence[float]]:
    """What images are normalised by: nothing, unless a user has said so."""
    data = lab.recipe.data
    return (data.mean, data.std) if data.mean else ((0.0,), (1.0,))


# -- where networks look ------------------------------------------------------------------------------


def _looks(lab: Lab, made: Made, networks: dict[str, nn.Module]) -> Result:
    """Saliency of the ordinary and the debiased network on suspects, outside training where there are any."""
    split, among, suspects = _best_apart(lab, made)
    index = _in_turns(suspects, among, lab.splits.parts()[split].targets, len(lab.splits.classes))
    if not index:
        return {}, {"looks": []}
    part, where = lab.splits.parts()[split], torch.tensor(index)
    tensors = {"looks.images": _pictures(part, index)}
    compared = {name: model for name, model in networks.items() if name != "pruned"}
    for name, model in compared.items():
        heat = torch.cat([saliency(model, x) for x in _inputs(lab, part, where)])
        tensors[f"looks.{name}"] = (255 * _smaller(heat[:, None])).squeeze(1).round().byte().cpu()
    trained_on = split == "train" and not bool(lab.kept_out[where].any())
    described = _described(lab, split, suspects, index, _asked(lab, compared, part))
    return tensors, {"looks": described, "looks_trained_on": trained_on}


def _best_apart(lab: Lab, made: Made) -> tuple[str, Tensor, Suspects]:
    """A split, which of it to look at, and its suspects: outside training if there are enough of them."""
    split, among = lab.unseen or ("train", ~lab.kept_out)
    suspects = Suspects.of(made["mine"].tensors, split)
    if int((suspects.conflict & among).sum()) >= FEWEST:
        return split, among, suspects
    return "train", ~lab.kept_out, Suspects.of(made["mine"].tensors, "train")


def _in_turns(suspects: Suspects, among: Tensor, targets: Tensor, classes: int) -> list[int]:
    """The strongest suspect of every class, then the second of every class, and so on."""
    chosen = suspects.conflict & among
    ranked = [_strongest(suspects, chosen & (targets == c), LOOKS) for c in range(classes)]
    turns = [own[turn] for turn in range(LOOKS) for own in ranked if turn < len(own)]
    return turns[:LOOKS]


def saliency(model: nn.Module, x: Tensor) -> Tensor:
    """How much each pixel matters to what the network says, between 0 and 1, as (N, H, W).

    Integrated gradients of the winning logit, on the way from a blank picture of the pictures' median colour,
    averaged over a small neighbourhood.
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

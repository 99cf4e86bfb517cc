"""Maps of the features of test images, for the pretrained, the pruned and the fine-tuned network.

This is a figure of the paper, coloured by label and by bias label. A network that uses the shortcut groups
images by bias label, a debiased one by label. Positions are the first two principal components of the input
of the last layer, or t-SNE as in the paper, which takes seconds for each network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..extras import need
from . import charts
from .palette import group_colours
from .words import group_name

PERPLEXITY, STEPS, FEWEST = 20.0, 500, 12


@dataclass(frozen=True)
class MapRow:
    """One map for each network, all with the same colouring."""

    title: str
    pictures: dict[str, str]
    legend: list[tuple[str, str]]


def rows(
    tensors: Mapping[str, Tensor],
    networks: Mapping[str, str],
    classes: Sequence[str],
    biases: Sequence[str],
    *,
    tsne: bool = False,
) -> list[MapRow]:
    """Return the maps by label and, if there are bias labels, by bias label; none for too few samples."""
    prefix = "map.features."
    features = {name: tensors[prefix + name] for name in networks if prefix + name in tensors}
    if not features or len(tensors["map.targets"]) < FEWEST:
        return []
    place = layout if tsne else principal_plane
    places = {name: place(network_features) for name, network_features in features.items()}
    colourings = [
        ("By label", "label", "map.targets", classes),
        ("By bias label", "bias label", "map.bias", biases),
    ]
    return [
        _row(title, kind, places, networks, tensors[key].tolist(), names)
        for title, kind, key, names in colourings
        if key in tensors
    ]


def _row(
    title: str,
    kind: str,
    places: Mapping[str, list[charts.Point]],
    networks: Mapping[str, str],
    groups: list[int],
    names: Sequence[str],
) -> MapRow:
    present = sorted(set(groups))
    named = {g: names[g] if kind == "label" else group_name(g, names) for g in present}
    colours = group_colours(named)
    pictures = {
        name: charts.cloud(
            points,
            groups,
            named,
            words=f"Map of {len(points)} samples as the {networks[name]} sees them, coloured by {kind}.",
            colours=colours,
        )
        for name, points in places.items()
    }
    legend = (
        [(charts.dot(group, colours[group]), name) for group, name in named.items()]
        if len(named) <= 30
        else []
    )
    return MapRow(title, pictures, legend)


def principal_plane(features: Tensor) -> list[charts.Point]:
    """Return positions in the plane: the first two columns of `features`, which are principal components."""
    plane = features[:, :2].double()
    if plane.shape[1] < 2:
        plane = torch.cat([plane, torch.zeros(len(plane), 2 - plane.shape[1])], 1)
    return [(float(a), float(b)) for a, b in plane]


def layout(features: Tensor, *, seed: int = 0) -> list[charts.Point]:
    """Return positions in the plane computed by t-SNE."""
    manifold, threads = need("sklearn.manifold"), need("threadpoolctl")
    x = features.float().numpy()
    x = x / max(float(x.std()), 1e-12)
    how = manifold.TSNE(
        init="pca" if x.shape[1] > 1 else "random",
        perplexity=min(PERPLEXITY, (len(x) - 1) / 3),
        max_iter=STEPS,
        random_state=seed,
    )
    with threads.threadpool_limits(1):  # as fast for few samples, and deterministic
        places = how.fit_transform(x)
    return [(float(a), float(b)) for a, b in places]

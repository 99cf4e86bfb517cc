"""Data sets with a known answer: planted shortcuts, data without a shortcut (nulls), wrong labels.

A planted shortcut gives each image one of ten styles of a kind, nearly always the style of its class. A null
has no shortcut: plain images, styles that are independent of the class, classes of very different size, rare
or hard kinds of images within a class. Base images are 32 x 32 in colour; `plant` takes any size. Random
numbers depend on (seed, index of the image).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import noise
from ...errors import DataError
from ..splits import Split, Splits
from . import cmnist, corruptions

SIDE, STYLES = 32, 10
# Streams of random numbers; the numbers follow those of training and of the corruptions.
CONTRADICTS, OTHER_STYLE, ANY_STYLE, PLACE, PHASE, THINNED, SPOILED = range(600, 607)
MISLABELLED, OTHER_LABEL = 607, 608
LUMA = torch.tensor([0.299, 0.587, 0.114])
PATCH = 5  # side of a patch in pixels
FRAME = 2  # width of a border in pixels
TINT = 0.25  # weight of the colour in a tint
PLANTED_AT_ONCE = 1000  # images per block
FAINTEST = 0.05  # size of the smallest imbalanced class, as a share of the largest
HARD_SHARE = 0.1  # share of hard images in every class


@dataclass(frozen=True, eq=False)
class Base:
    """Plain images (N, 3, 32, 32) in uint8 with labels, to which something is added."""

    images: Tensor
    labels: Tensor
    name: str

    def __post_init__(self) -> None:
        if self.images.shape[1:] != (3, SIDE, SIDE) or self.images.dtype != torch.uint8:
            raise DataError(
                f"{self.name}: base images are (N, 3, {SIDE}, {SIDE}) in uint8, not "
                f"{tuple(self.images.shape)} in {self.images.dtype}."
            )

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def some(self, count: int, *, seed: int) -> Base:
        """Return `count` random images, or all images if there are fewer."""
        order = torch.sort(noise.bits(seed, 0, noise.PERMUTE, (len(self.labels),)), stable=True)
        return self.only(torch.sort(order.indices[:count]).values)

    def only(self, index: Tensor) -> Base:
        return Base(self.images[index], self.labels[index], self.name)


def from_digits(images: Tensor, labels: Tensor, *, name: str) -> Base:
    """Return grey digits (N, 28, 28) as a base, with a black border."""
    padded = F.pad(images, (2, 2, 2, 2))
    return Base(padded[:, None].expand(-1, 3, -1, -1).contiguous(), labels, name)


# -- shortcuts ----------------------------------------------------------------------------------------


def planted(base: Base, kind: str, *, share: float, seed: int) -> Splits:
    """Add a shortcut that a share of the images contradict; the styles are the bias labels."""
    if base.classes > STYLES:
        raise DataError(f"there are {STYLES} styles for {base.classes} classes of {base.name}.")
    return _apply_styles(
        base, kind, assign_styles(base.labels, base.classes, share=share, seed=seed), seed
    )


def assign_styles(labels: Tensor, classes: int, *, share: float, seed: int) -> Tensor:
    """Return the style of each sample: that of its class, or for a share of every class another one."""
    n = len(labels)
    keys = noise.uniform(seed, 0, CONTRADICTS, (n,))
    other = 1 + (noise.uniform(seed, 0, OTHER_STYLE, (n,)) * (classes - 1)).long()
    styles = labels.clone()
    for label in range(classes):
        members = (labels == label).nonzero().squeeze(1)
        odd = members[torch.argsort(keys[members])[: round(share * len(members))]]
        styles[odd] = (label + other[odd]) % classes
    return styles


def unrelated(base: Base, kind: str, *, seed: int) -> Splits:
    """Add styles that are independent of the class: there is no shortcut."""
    styles = (noise.uniform(seed, 0, ANY_STYLE, (len(base.labels),)) * base.classes).long()
    return _apply_styles(base, kind, styles, seed)


def _apply_styles(base: Base, kind: str, styles: Tensor, seed: int) -> Splits:
    if kind not in KINDS:
        raise DataError(f"there is no shortcut {kind!r}. Choose one of {', '.join(KINDS)}.")
    splits = _splits(KINDS[kind](base.images, styles, seed), base.labels, base)
    return Splits(train=splits.train, classes=splits.classes, bias={"train": styles}, name=kind)


def plant(
    images: Tensor, labels: Tensor, kind: str, *, share: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Add a shortcut to images (N, 3, H, W) in uint8; return them, and the class of each one's style.

    `kind` is one of SIZED_KINDS. A share of the images of every class gets the style of another class.
    """
    present = torch.unique(labels)
    if len(present) > STYLES:
        raise DataError(f"there are {STYLES} styles for {len(present)} classes.")
    ranks = torch.searchsorted(present, labels)
    styles = assign_styles(ranks, len(present), share=share, seed=seed)
    marked = images.clone()
    for start in range(0, len(images), PLANTED_AT_ONCE):
        some = slice(start, start + PLANTED_AT_ONCE)
        marked[some] = SIZED_KINDS[kind](images[some], styles[some], seed + start)
    return marked, present[styles]


def tint(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Mix the image with one of ten colours."""
    return _bytes((1 - TINT) * images / 255 + TINT * _anchors(styles)[:, :, None, None])


def border(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Paint a border in one of ten colours."""
    high, wide = images.shape[2:]
    width = _scaled(FRAME, images)
    framed = _bytes(_anchors(styles))[:, :, None, None].repeat(1, 1, high, wide)
    inner = (slice(None), slice(None), slice(width, high - width), slice(width, wide - width))
    framed[inner] = images[inner]
    return framed


def _anchors(styles: Tensor) -> Tensor:
    """Return the colour of each style, between 0 and 1."""
    return torch.tensor(list(cmnist.COLOURS.values()))[styles]


def _scaled(pixels: int, images: Tensor) -> int:
    """Scale a length from images of 32 pixels to images of another size."""
    return max(1, round(pixels * min(images.shape[2:]) / SIDE))


def colour(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Colour the image in one of ten colours, by its brightness."""
    return _bytes(images / 255 * (0.2 + 0.8 * _anchors(styles)[:, :, None, None]))


def hue(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Replace the hue by one of ten; the luminance is kept up to a factor."""
    angle = styles * (2 * math.pi / STYLES)
    # A point on a circle around grey, orthogonal to the luminance, so that all ten hues are equally bright.
    first = torch.tensor([LUMA[1], -LUMA[0], 0.0])
    second = torch.linalg.cross(LUMA, first)
    circle = torch.cos(angle)[:, None] * F.normalize(first, dim=0)
    circle = circle + torch.sin(angle)[:, None] * F.normalize(second, dim=0)
    light = (images / 255 * LUMA[:, None, None]).sum(1, keepdim=True)
    return _bytes(light * (0.55 + 0.45 * circle[:, :, None, None]))


def patch(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Add a small patch in one of ten colours, in a random corner."""
    anchors, side = _bytes(_anchors(styles)), _scaled(PATCH, images)
    bottom, right = (length - side for length in images.shape[2:])
    corner = (noise.uniform(seed, 0, PLACE, (len(images),)) * 4).long()
    marked = images.clone()
    for number, (row, column) in enumerate(((0, 0), (0, right), (bottom, 0), (bottom, right))):
        here = corner == number
        marked[here, :, row : row + side, column : column + side] = anchors[here][:, :, None, None]
    return marked


def texture(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Add faint stripes with one of five directions and two widths, and a random phase."""
    angle = styles % 5 * (math.pi / 5)
    high, wide = images.shape[2:]
    turns = torch.where(styles < 5, 3.0, 6.0) * (2 * math.pi / min(high, wide))
    phase = 2 * math.pi * noise.uniform(seed, 0, PHASE, (len(images),))
    down, across = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
    place = torch.cos(angle)[:, None, None] * across + torch.sin(angle)[:, None, None] * down
    stripes = 0.5 + 0.5 * torch.sin(turns[:, None, None] * place + phase[:, None, None])
    return _bytes(0.65 * images / 255 + 0.35 * stripes[:, None])


def stamp(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Add one of ten white signs of five by five pixels, at a random place in the upper quarter."""
    signs = (
        noise.uniform(0, torch.arange(STYLES), PLACE, (PATCH, PATCH)) < 0.5
    )  # the same for any seed
    across = (noise.uniform(seed, 1, PLACE, (len(images),)) * (SIDE - PATCH)).long()
    down = (noise.uniform(seed, 2, PLACE, (len(images),)) * (SIDE // 4 - PATCH)).long()
    marked = images.clone()
    for row in range(PATCH):
        for column in range(PATCH):
            value = signs[styles, row, column].to(torch.uint8) * 255
            marked[torch.arange(len(images)), :, down + row, across + column] = value[:, None]
    return marked


def light(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Add light from one of ten directions: a gradient over the image."""
    angle = styles * (2 * math.pi / STYLES)
    down, across = (torch.linspace(-1, 1, length) for length in images.shape[2:])
    slope = (
        torch.cos(angle)[:, None, None] * across + torch.sin(angle)[:, None, None] * down[:, None]
    )
    return _bytes(images / 255 * 0.7 + 0.15 * (1 + slope[:, None] / math.sqrt(2)))


def corruption(images: Tensor, styles: Tensor, seed: int) -> Tensor:
    """Apply one of the ten corruptions, at its strongest."""
    return corruptions.corrupt(images, styles, torch.arange(len(images)), seed=seed)


KINDS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "colour": colour,
    "hue": hue,
    "patch": patch,
    "texture": texture,
    "corruption": corruption,
    "stamp": stamp,
    "light": light,
    "tint": tint,
    "border": border,
}
SIZED_KINDS = {name: KINDS[name] for name in ("tint", "border", "patch", "light", "texture")}


# -- nulls, and wrong labels --------------------------------------------------------------------------


def plain(base: Base) -> Splits:
    """Return the images unchanged."""
    return _splits(base.images, base.labels, base)


def imbalanced(base: Base, *, seed: int) -> Splits:
    """Return classes of decreasing size; the last one has a twentieth of the first."""
    steps = max(base.classes - 1, 1)
    keep = FAINTEST ** (base.labels / steps)
    return plain(base.only((_uniform(base, THINNED, seed) < keep).nonzero().squeeze(1)))


def rare_kinds(base: Base, *, seed: int, share: float = HARD_SHARE) -> Splits:
    """Return classes with two kinds of images, from the classes 2k and 2k + 1; the second kind is rare."""
    odd = base.labels % 2 == 1
    remaining = (~odd | (_uniform(base, THINNED, seed) < share / (1 - share))).nonzero().squeeze(1)
    thinned = base.only(remaining)
    return plain(Base(thinned.images, thinned.labels // 2, base.name))


def spoiled(base: Base, *, seed: int, share: float = HARD_SHARE) -> Splits:
    """Make a share of the images of every class hard: a fifth of the contrast, and strong noise."""
    hard = _uniform(base, SPOILED, seed) < share
    index = hard.nonzero().squeeze(1)
    grain = noise.uniform(seed, index, SPOILED, (3, SIDE, SIDE))
    images = base.images.clone()
    images[hard] = _bytes(0.4 * images[hard] / 255 + 0.6 * grain)
    return _splits(images, base.labels, base)


def mislabelled(splits: Splits, *, share: float, seed: int) -> Splits:
    """Return the same images with a share of the labels replaced by random other labels."""
    labels, classes = splits.train.targets, len(splits.classes)
    wrong = noise.uniform(seed, 0, MISLABELLED, (len(labels),)) < share
    shift = 1 + (noise.uniform(seed, 0, OTHER_LABEL, (len(labels),)) * (classes - 1)).long()
    targets = torch.where(wrong, (labels + shift) % classes, labels)
    images = splits.train.take(torch.arange(len(labels)))
    return Splits(train=Split(images, targets), classes=splits.classes, name=splits.name)


def _splits(images: Tensor, labels: Tensor, base: Base) -> Splits:
    classes = tuple(str(label) for label in range(int(labels.max()) + 1))
    return Splits(train=Split(images, labels), classes=classes, name=base.name)


def _uniform(base: Base, stream: int, seed: int) -> Tensor:
    return noise.uniform(seed, 0, stream, (len(base.labels),))


def _bytes(values: Tensor) -> Tensor:
    return (values.clamp(0, 1) * 255).round().to(torch.uint8)

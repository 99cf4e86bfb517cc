"""Coloured MNIST: digits whose colour nearly always predicts the class.

The public data set is generated again: with its anchor colours and counts, but our own draw. Images, colours
and noise depend only on the seed. For one seed, every ratio therefore has the same validation and test
digits, and the conflicting samples of a lower ratio are conflicting, in the same colour, in a higher one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import DataError
from ..splits import Split, Splits
from .mnist import Digits

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]
Ratio = Literal["0.5pct", "1pct", "2pct", "5pct"]

# Published numbers of conflicting training samples, of 55 000.
CONFLICTING: dict[str, int] = {"0.5pct": 249, "1pct": 491, "2pct": 986, "5pct": 2449}
TRAIN, VALID = 55_000, 5_000

CLASSES = tuple("0123456789")
COLOURS: dict[str, tuple[float, float, float]] = {  # in the order of the digits they go with
    "vermilion": (0.983682, 0.312519, 0.168575),
    "yellow": (0.990530, 0.915605, 0.351512),
    "mauve": (0.672964, 0.461070, 0.579808),
    "sage": (0.783252, 0.831556, 0.601329),
    "cyan": (0.088016, 0.777963, 0.981808),
    "green": (0.321393, 0.961055, 0.446450),
    "blue": (0.024616, 0.235650, 0.758666),
    "purple": (0.555247, 0.101580, 0.761763),
    "olive": (0.207723, 0.392949, 0.018702),
    "crimson": (0.833658, 0.202409, 0.266943),
}
COLOUR_NOISE = 0.005  # standard deviation, once per image and channel: severity 4, the standard

# One stream of random numbers for each purpose. Its numbers depend only on the sizes, never on the number of
# conflicting samples, so that data sets with the same seed are comparable.
STREAMS = {"carve": 0, "train": 1, "valid": 2, "test": 3}


def make(digits: Digits, ratio: Ratio, *, seed: int = 0) -> Splits:
    """Generate the benchmark for one ratio from all of MNIST."""
    _check_ratio(ratio)
    if len(digits.train_labels) != TRAIN + VALID:
        raise DataError(
            f"CMNIST {ratio} is made from {TRAIN + VALID} training digits, not "
            f"{len(digits.train_labels)}. Give all of MNIST, or use generate() for another size."
        )
    return generate(
        digits, conflicting=CONFLICTING[ratio], valid=VALID, seed=seed, name=f"cmnist/{ratio}"
    )


def make_development(digits: Digits, ratio: Ratio, *, seed: int = 0) -> Splits:
    """Generate a development set: its test split is the last 10,000 training digits.

    The test digits of MNIST are not read. The numbers of images are five sixths of the published ones.
    """
    _check_ratio(ratio)
    cut = TRAIN + VALID - 10_000
    images, labels = digits.train_images, digits.train_labels
    return generate(
        Digits(images[:cut], labels[:cut], images[cut:], labels[cut:]),
        conflicting=round(CONFLICTING[ratio] * 5 / 6),
        valid=round(VALID * 5 / 6),
        seed=seed,
        name=f"cmnist-dev/{ratio}",
    )


def _check_ratio(ratio: str) -> None:
    if ratio not in CONFLICTING:
        raise DataError(
            f"there is no CMNIST ratio {ratio!r}. Choose one of {', '.join(CONFLICTING)}."
        )


def generate(
    digits: Digits, *, conflicting: int, valid: int, seed: int = 0, name: str = "cmnist"
) -> Splits:
    """Generate coloured digits; exactly `conflicting` training samples have another class's colour.

    `valid` of the training digits become the validation split, with the same share of conflicting
    samples, rounded half up. Colours of the test split are uniform over all ten.
    """
    total = len(digits.train_labels)
    train = total - valid
    _check_counts(total, valid, conflicting, name)
    order = _rng(seed, "carve").permutation(total)
    training, held_out = np.sort(order[valid:]), np.sort(order[:valid])
    labels = digits.train_labels.numpy()
    valid_conflicting = (2 * conflicting * valid + train) // (2 * train)
    rngs = {part: _rng(seed, part) for part in ("train", "valid", "test")}
    colours = {
        "train": _assign_colours(labels[training], conflicting, rngs["train"]),
        "valid": _assign_colours(labels[held_out], valid_conflicting, rngs["valid"]),
        "test": rngs["test"].integers(len(COLOURS), size=len(digits.test_labels)),
    }
    images = digits.train_images.numpy()
    return Splits(
        train=_split(images[training], labels[training], colours["train"], rngs["train"]),
        valid=_split(images[held_out], labels[held_out], colours["valid"], rngs["valid"]),
        test=_split(
            digits.test_images.numpy(), digits.test_labels.numpy(), colours["test"], rngs["test"]
        ),
        classes=CLASSES,
        bias={part: torch.from_numpy(numbers) for part, numbers in colours.items()},
        bias_classes=tuple(COLOURS),
        name=name,
    )


def _check_counts(total: int, valid: int, conflicting: int, name: str) -> None:
    """Raise DataError unless there are enough digits for the validation and conflicting samples."""
    if not (0 < valid < total and 0 <= conflicting <= total - valid):
        raise DataError(
            f"{name}: cannot take {valid} validation and {conflicting} conflicting training samples "
            f"from {total} digits. Both must fit, and each split needs a sample."
        )


def paint(images: Bytes, colours: Labels, rng: np.random.Generator) -> Bytes:
    """Colour grey images (N, H, W) with a little noise: (N, 3, H, W) on black.

    Pixel = clamp(anchor colour + noise, 0, 1) x grey, truncated to an integer.
    """
    anchors = np.array(list(COLOURS.values()))[colours]
    tints = np.clip(anchors + rng.normal(0.0, COLOUR_NOISE, anchors.shape), 0.0, 1.0)
    painted = np.empty((len(images), 3, *images.shape[1:]), np.uint8)
    # Casting while writing keeps the floats in a small buffer; conversion to uint8 truncates.
    np.multiply(tints[:, :, None, None], images[:, None], out=painted, casting="unsafe")
    return painted


def _assign_colours(labels: Labels, conflicting: int, rng: np.random.Generator) -> Labels:
    """Return the colour of each label's class, or one of the nine others for `conflicting` samples."""
    changed = rng.permutation(len(labels))[:conflicting]
    shift = rng.integers(1, len(COLOURS), size=len(labels))
    colours = labels.copy()
    colours[changed] = (labels[changed] + shift[changed]) % len(COLOURS)
    return colours


def _split(images: Bytes, labels: Labels, colours: Labels, rng: np.random.Generator) -> Split:
    return Split(torch.from_numpy(paint(images, colours, rng)), torch.from_numpy(labels))


def _rng(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([seed, STREAMS[purpose]])

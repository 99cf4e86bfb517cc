"""Choose the numbers of training steps of the preset from the number of images and the kind of device.

A training from random weights takes a number of epochs, within bounds. Learning the masks takes half as many
steps, and so does fine-tuning, both up to a bound. An audit takes eight epochs on its half of the images.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

DeviceKind = Literal["cpu", "cuda"]


class Bounds(NamedTuple):
    """Bounds for a kind of device: epochs, steps of a training, pixels per side."""

    passes: int
    fewest: int
    most: int
    pixels: int


BOUNDS: dict[DeviceKind, Bounds] = {
    "cpu": Bounds(20, 300, 1000, 96),
    "cuda": Bounds(60, 500, 10_000, 128),
}
BATCH, LARGE_BATCH, MANY = 64, 256, 20_000  # large batches on a GPU for at least this many images
SEARCH, TUNING = 2000, 3000  # largest numbers of steps for learning the masks and for fine-tuning
AUDIT_PASSES, AUDIT_STEPS = 8, (300, 1500)


def lengths(images: int, device: DeviceKind = "cuda") -> dict[str, Any]:
    """Return steps and batches by the names that the preset of the catalogue refers to."""
    bounds = BOUNDS[device]
    large = device == "cuda" and images >= MANY
    batch = LARGE_BATCH if large else max(2, min(BATCH, images // 4))
    whole = min(max(bounds.passes * images // batch, bounds.fewest), bounds.most)
    search, tuning = min(whole // 2, SEARCH), min(whole, TUNING)
    audit = audit_lengths(images)
    return {
        "wide": batch,
        "whole": whole,
        "search": search,
        "tuning": tuning,
        "look": max(1, tuning // 30),
        "audit_batch": audit["batch"],
        "audit_steps": audit["steps"],
    }


def audit_lengths(images: int) -> dict[str, int]:
    """Return the batch size and the steps of an audit's trainings, each on one half of the images."""
    half = images // 2
    batch = max(2, min(BATCH, half // 4))
    fewest, most = AUDIT_STEPS
    return {"batch": batch, "steps": min(max(AUDIT_PASSES * half // batch, fewest), most)}

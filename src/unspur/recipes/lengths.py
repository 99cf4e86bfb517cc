"""How long the stages of the preset train, from the number of training images and the kind of device.

Training from scratch takes a fixed number of epochs, within bounds. The search for masks takes half as many
steps and fine-tuning as many steps, both up to a bound. A training of an audit takes eight epochs of its half
of the images.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

DeviceKind = Literal["cpu", "cuda"]


class Bounds(NamedTuple):
    """What a device can do in reasonable time: epochs, fewest and most steps, pixels of a side."""

    passes: int
    fewest: int
    most: int
    pixels: int


BOUNDS: dict[DeviceKind, Bounds] = {
    "cpu": Bounds(20, 300, 1000, 96),
    "cuda": Bounds(60, 500, 10_000, 128),
}
BATCH, LARGE_BATCH, MANY = 64, 256, 20_000  # on a GPU, MANY images or more get large batches
SEARCH, TUNING = 2000, 3000  # the most steps of the mask search and of fine-tuning
AUDIT_PASSES, AUDIT_STEPS = 8, (300, 1500)


def lengths(images: int, device: DeviceKind = "cuda") -> dict[str, Any]:
    """Return numbers of steps and batch sizes, with the names that catalogue/preset.toml refers to."""
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
    """Return batch size and steps of a training in an audit, which uses one half of the images."""
    half = images // 2
    batch = max(2, min(BATCH, half // 4))
    fewest, most = AUDIT_STEPS
    return {"batch": batch, "steps": min(max(AUDIT_PASSES * half // batch, fewest), most)}

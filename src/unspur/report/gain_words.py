"""The gain of debiasing without bias labels, in sentences and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..runs.intervals import share_interval
from .words import Cell, Table, between, percent

SAMPLES = {
    "test": "test images",
    "valid": "validation images",
    "train": "held-out images",
}
HELD_OUT = "the training samples kept out of training"  # as in `evaluated_on` of the scores
PARTS = {"suspects": "contradict the shortcut", "others": "follow it"}  # after "images that"


def measured(scores: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the measured gain; None if it was not measured, or if bias labels give exact scores."""
    known = scores["debiased"]["unbiased"] is not None
    return None if known else scores.get("gain")


def sentences(gain: Mapping[str, Any]) -> list[str]:
    """Say how accuracy changes on suspects and on others, with intervals, and what was measured on."""
    found = [_sentence(gain, "suspects")]
    if "others" in gain:
        found.append(_sentence(gain, "others"))
    return [*found, conclusion(gain)]


ORIGIN = (
    "Neither model was trained on the images of this comparison. There are no bias labels: which of them "
    "contradict the shortcut was decided by small networks that were not trained on them."
)
REJECTED = (
    "The ordinary model is returned. The debiased model is in the folder debiased/ of this run. To get it as "
    "the result, use --anyway (Python: anyway=True); nothing is trained again."
)


def scope_of_average(scores: Mapping[str, Any]) -> str:
    """Say which suspects the average leaves out, so that it does not follow from the gain; "" if none."""
    gain, unseen = measured(scores), scores.get("unseen")
    if rejection(scores):
        gain = scores["gain_check"]["gain"]
    if not gain or not unseen or scores["evaluated_on"] != HELD_OUT:
        return ""
    counts = unseen["counts"]
    extra = gain["suspects"]["count"] - counts["suspects"]
    if extra <= 0:
        return ""
    return (
        f"The average counts {counts['all']:,} images with {counts['suspects']:,} suspects. The other "
        f"{extra:,} suspects were kept out of training only to measure the gain."
    )


def rejection(scores: Mapping[str, Any]) -> list[str]:
    """Say why the debiased model is not the result; nothing if it is, or if there was no such check."""
    check = scores.get("gain_check")
    if not check or check["keep"]:
        return []
    gain = check["gain"]
    parts = [_sentence(gain, part) for part in PARTS if part in gain]
    parts += [sentence] if (sentence := _break_even(gain)) else []
    return ["Debiasing was tried and is not worth its cost on these images.", *parts, REJECTED]


def _break_even(gain: Mapping[str, Any]) -> str:
    """Say from which share of conflicting images on debiasing would pay, or that the gain may be chance."""
    more, less = gain["suspects"]["gain"], -gain.get("others", {}).get("gain", 0.0)
    if gain["suspects"]["low"] <= 0:
        return _doubt(gain)
    return (
        f"Debiasing would pay only if more than {percent(less / (more + less))} of the images in use "
        "contradicted the shortcut."
    )


def unchecked(scores: Mapping[str, Any]) -> str:
    """Say that too few suspects were kept out of training to decide on the gain; "" if there are enough."""
    check = scores.get("gain_check")
    if not check or not check["open"]:
        return ""
    count = check["suspects"]
    found = "1 suspect is" if count == 1 else f"{count} suspects are"
    return (
        f"Whether debiasing is worth its cost is open: only {found} outside of the training images. Compare "
        "both models on images of your own with `unspur evaluate`."
    )


def _sentence(gain: Mapping[str, Any], part: str) -> str:
    about = gain[part]
    samples = SAMPLES[gain["split"]]
    where = {
        "suspects": f"{about['count']:,} {samples} that contradict the shortcut",
        "others": f"{about['count']:,} other {samples}, which follow the shortcut",
    }
    return (
        f"On {where[part]}, accuracy goes from {percent(about['ordinary'])} to {percent(about['debiased'])} "
        f"({_points(about)}, 95 % interval {between((about['low'], about['high']), signed=True)})."
    )


def _points(about: Mapping[str, Any]) -> str:
    return f"{100 * about['gain']:+z.1f} points".replace("-", "−")


def conclusion(gain: Mapping[str, Any]) -> str:
    """Say whether the gain is significant, and how the images were chosen."""
    return " ".join(part for part in (_doubt(gain), ORIGIN) if part)


def _doubt(gain: Mapping[str, Any]) -> str:
    """Say that suspects lose accuracy, or that nothing significant changes; "" if there is a gain."""
    about, where = gain["suspects"], "on images that contradict the shortcut"
    if about["high"] < 0:
        return f"Accuracy {where} became worse."
    return "" if about["low"] > 0 else f"The change {where} is not significant."


def table(gain: Mapping[str, Any]) -> Table:
    """Return both accuracies and the gain, on suspects and on others."""
    parts = [part for part in PARTS if part in gain]
    columns = [(part, f"{gain[part]['count']:,} images that {PARTS[part]}") for part in parts]
    rows = [
        (f"{name} model", [_accuracy(gain[part], name) for part in parts])
        for name in ("ordinary", "debiased")
    ]
    gains = [_gain(gain[part]) for part in parts]
    return Table(columns, [*rows, ("gain in points", gains)])


def _accuracy(about: Mapping[str, Any], name: str) -> Cell:
    return Cell(percent(about[name]), between(share_interval(about[name], about["count"])))


def _gain(about: Mapping[str, Any]) -> Cell:
    points = f"{100 * about['gain']:+z.1f}".replace("-", "−")
    return Cell(points, between((about["low"], about["high"]), signed=True))

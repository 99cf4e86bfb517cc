"""Which planted shortcuts an audit finds in a user's images, in sentences and as a table."""

from __future__ import annotations

from ..audit.formatting import percent
from ..audit.power import Power, PowerRow
from ..audit.power_measurement import PowerCost

NAMES = {
    "tint": "a tint",
    "border": "a coloured border",
    "patch": "a coloured patch in a corner",
    "light": "light from one side",
    "texture": "faint stripes",
}


def duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def announcement(cost: PowerCost) -> str:
    """Say how many audits will be run and how long they take."""
    if not cost.missing:
        return f"Planted shortcuts: the results of all {cost.cases} audits are stored."
    stored = f"{cost.cases - cost.missing} of {cost.cases} audits are already stored. "
    return (
        f"Planted shortcuts: {stored if cost.missing < cost.cases else ''}{cost.missing} audits of your "
        f"images with a planted shortcut will be run. This takes at most about {duration(cost.seconds)}. You "
        "can stop at any time; the same command continues."
    )


def progress(done: int, cases: int, left: float) -> str:
    """Say how many audits are done and how long the rest takes."""
    return f"{done} of {cases} audits with planted shortcuts are done, about {duration(left)} left."


def sentences(power: Power) -> list[str]:
    """Name the shortcuts that are found most often and least often, and the images that were used."""
    rows = power.rows()
    ordered = sorted(rows, key=lambda row: row.found / row.repeats)
    shown = list(dict.fromkeys([ordered[-1], ordered[0]]))
    text = "; ".join(f"{_name(row)} is found {_times(row)}" for row in shown)
    used = f"{power.images:,} images"
    if power.classes < power.all_classes:
        used += f" of the {power.classes} largest of {power.all_classes} classes"
    return [
        f"In your data, {text}.",
        f"This was measured on {used}. A shortcut counts as found if the verdict is a shortcut and at least "
        "half of the planted conflicting images are flagged.",
    ]


def _name(row: PowerRow) -> str:
    return f"{NAMES[row.kind]} with {percent(row.rate)} conflicting images"


def _times(row: PowerRow) -> str:
    return f"in {row.found} of {row.repeats} audits"


def rows(power: Power) -> list[tuple[str, ...]]:
    """Return a row for each kind and rate: name, conflicting images, found, interval."""
    return [
        (
            NAMES[row.kind],
            f"{percent(row.rate)} ({row.exceptions:,})",
            f"{row.found} of {row.repeats}",
            f"{percent(row.interval[0], 0)} to {percent(row.interval[1], 0)}",
        )
        for row in power.rows()
    ]

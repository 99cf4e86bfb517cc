"""What an audit would have found in a user's own images, in sentences and as a table."""

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
    """Format a time as people say it."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def announcement(cost: PowerCost) -> str:
    """Say what is to be done and how long it takes, before it begins."""
    if not cost.missing:
        return f"Planted shortcuts: all {cost.cases} audits are stored."
    stored = f"{cost.cases - cost.missing} of {cost.cases} planted audits are stored. "
    return (
        f"Planted shortcuts: {stored if cost.missing < cost.cases else ''}{cost.missing} audits of your "
        f"images with a planted shortcut, at most about {duration(cost.seconds)}. Stop at any time; the same "
        "command goes on."
    )


def progress(done: int, cases: int, left: float) -> str:
    """Say how far it is."""
    return f"{done} of {cases} planted audits, about {duration(left)} left."


def sentences(power: Power) -> list[str]:
    """Say what is found: the weakest and the strongest result, and what it is measured on."""
    rows = power.rows()
    ordered = sorted(rows, key=lambda row: row.found / row.repeats)
    shown = list(dict.fromkeys([ordered[-1], ordered[0]]))
    text = "; ".join(f"{_name(row)} is found {_times(row)}" for row in shown)
    used = f"{power.images:,} images"
    if power.classes < power.all_classes:
        used += f" of the {power.classes} largest of {power.all_classes} classes"
    return [
        f"In your data {text}.",
        f"Measured on {used}. Found means: the verdict is a shortcut, and at least half of the planted "
        "exceptions are flagged.",
    ]


def _name(row: PowerRow) -> str:
    return f"{NAMES[row.kind]} with {percent(row.rate)} exceptions"


def _times(row: PowerRow) -> str:
    return f"{row.found} times of {row.repeats}"


def rows(power: Power) -> list[tuple[str, ...]]:
    """Return a row for each kind and rate: name, exceptions, found, interval."""
    return [
        (
            NAMES[row.kind],
            f"{percent(row.rate)} ({row.exceptions:,})",
            f"{row.found} of {row.repeats}",
            f"{percent(row.interval[0], 0)} to {percent(row.interval[1], 0)}",
        )
        for row in power.rows()
    ]

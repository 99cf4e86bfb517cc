"""The top of a run's page: a headline and tiles with the gains and costs of debiasing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..runs.intervals import Interval, Intervals
from . import gain_words
from .words import PageVerdict, between, percent, scored_on

PLACES = {
    "suspects": "accuracy on suspects, where the shortcut fails",
    "others": "accuracy on other images, where the shortcut holds",
    "conflicting": "accuracy on conflicting images, where the shortcut fails",
    "aligned": "accuracy on aligned images, where the shortcut holds",
}


@dataclass(frozen=True)
class Change:
    """Accuracy of the ordinary and the debiased model on the same images, and the interval of the gain."""

    before: float
    after: float
    interval: Interval | None = None

    @property
    def points(self) -> str:
        return f"{100 * (self.after - self.before):+z.1f} points".replace("-", "−")


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page: its value, what it is, the value before, and details."""

    value: str
    what: str
    before: str = ""
    detail: str = ""


def changes(scores: Mapping[str, Any], intervals: Intervals | None) -> dict[str, Change]:
    """Return the change in accuracy where the shortcut fails and where it holds, by the keys of `PLACES`."""
    if gain := gain_words.measured(scores):
        parts = [(name, gain[name]) for name in gain_words.PARTS if name in gain]
        return {
            name: Change(part["ordinary"], part["debiased"], (part["low"], part["high"]))
            for name, part in parts
        }
    before, after = scores["ordinary"], scores["debiased"]
    if not before or before == after or after["conflicting"] is None:
        return {}
    ranges = intervals.gain if intervals else {}
    return {
        name: Change(before[name], after[name], ranges.get(name))
        for name in ("conflicting", "aligned")
    }


def lead_with_gain(verdict: PageVerdict, found: Mapping[str, Change]) -> PageVerdict:
    """Return the headline: the gain where the shortcut fails, or the verdict if no gain was measured."""
    if not found:
        return verdict
    first = next(iter(found.values()))
    low, high = first.interval or (0.0, 0.0)
    if high < 0:
        return PageVerdict("found", f"Worse where the shortcut fails: {first.points}", "")
    if first.interval and low <= 0:
        return PageVerdict("unsure", "No significant gain where the shortcut fails", "")
    if first.after <= first.before:
        return PageVerdict("unsure", "No gain where the shortcut fails", "")
    return PageVerdict("clear", f"{first.points} where the shortcut fails", "")


def rejected() -> PageVerdict:
    """Return the headline of a run whose debiased model is not the result."""
    return PageVerdict(
        "unsure", "Debiasing is not worth its cost: the ordinary model is the result", ""
    )


def tiles(
    scores: Mapping[str, Any],
    found: Mapping[str, Change],
    intervals: Intervals | None,
    size_and_speed: Mapping[str, Any] | None,
) -> list[Tile]:
    """Return the tiles: accuracies with intervals, then size and speed."""
    accuracy = [_change_tile(name, change) for name, change in found.items()]
    return [*(accuracy or [_average(scores, intervals)]), *_costs(size_and_speed)]


def _change_tile(name: str, change: Change) -> Tile:
    interval = f", 95 % interval {between(change.interval, signed=True)}" if change.interval else ""
    before = percent(change.before).partition("\N{NO-BREAK SPACE}")[0]
    return Tile(percent(change.after), PLACES[name], before, f"{change.points}{interval}")


def _average(scores: Mapping[str, Any], intervals: Intervals | None) -> Tile:
    """Return the accuracy over all scored images, for runs without a measured gain."""
    before, after = scores["ordinary"], scores["debiased"]
    compared = bool(before) and before != after
    ranges = intervals.accuracy.get("debiased", {}) if intervals else {}
    interval = between(ranges.get("average"))
    return Tile(
        percent(after["average"]),
        f"accuracy on {scored_on(scores)}",
        percent(before["average"]).partition("\N{NO-BREAK SPACE}")[0] if compared else "",
        f"95 % interval {interval}" if interval else "",
    )


def _costs(measured: Mapping[str, Any] | None) -> Sequence[Tile]:
    """Return the tiles of size and speed, if they were measured."""
    if not measured:
        return []
    before, after = measured["before"], measured["after"]
    if not measured["removed"]:  # the same architecture: any difference in time would be chance
        return [Tile(f"{_size(after)} MB", "size of the weights, unchanged: no channel is dead")]
    how = f"without {measured['removed']:,} dead channels"
    return [
        Tile(f"{_size(after)} MB", "size of the weights", _size(before), how),
        Tile(f"{_time(after)} ms", "per image on the CPU", _time(before), "torch, median"),
    ]


def cost_sentences(measured: Mapping[str, Any]) -> list[str]:
    """Give the size and speed before and after, or say how to get a smaller and faster model."""
    before, after = measured["before"], measured["after"]
    if not measured["removed"]:
        return [
            f"Size ({_size(after)} MB) and speed are unchanged: masks on single weights leave nearly every "
            "channel in use. With `--set prune.unit=channel` whole channels are removed, and the model "
            "becomes smaller and faster. `unspur export --packed` leaves zeros out of the file."
        ]
    return [
        f"Without dead channels, which have no effect, the weights take {_size(after)} MB instead of "
        f"{_size(before)} MB, and one image takes {_time(after)} ms instead of {_time(before)} ms "
        "(torch, on the CPU). `unspur export --slim` writes the smaller model."
    ]


def _size(network: Mapping[str, float]) -> str:
    return _rounded(network["bytes"] / 1e6)


def _time(network: Mapping[str, float]) -> str:
    return _rounded(network["milliseconds"])


def _rounded(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:#.2g}"

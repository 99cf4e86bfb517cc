"""Compare a measurement with the baseline: a new shortcut, lost accuracy, more suspects.

Shares are compared by Fisher's exact test. The number of suspects also varies because the audit trains its
networks again. So an alarm also requires that the share of suspects of a class grows by at least half, and
their number by at least `FEWEST`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .baseline import Baseline, CountedGroup

LEVEL = 0.01  # largest p-value of an alarm, corrected for the number of groups or classes
GROWTH = 1.5  # smallest ratio of the new share of suspects to the old one
FEWEST = 10  # smallest number of suspects above the expected number
ERROR_RATES = (
    "in tests, most of them with 10,000 images, the audit reported a shortcut for none of 34 sets without "
    "one, and found 118 of 119 shortcuts; with fewer than 1,000 images it finds fewer"
)
TITLES = {
    "shortcut": "no new shortcut in the data",
    "accuracy": "no loss of accuracy on a known group",
    "suspects": "no class with more suspects",
}

AlarmKind = Literal["shortcut", "accuracy", "suspects"]


@dataclass(frozen=True)
class Alarm:
    """A reason why a check fails, as one line of plain text."""

    kind: AlarmKind
    reason: str


@dataclass(frozen=True)
class CheckOutcome:
    """The alarms of a check, the kinds of alarms that were checked, and notes for the user."""

    alarms: tuple[Alarm, ...]
    checked: tuple[AlarmKind, ...]
    notes: tuple[str, ...] = ()

    def of(self, kind: AlarmKind) -> list[Alarm]:
        return [alarm for alarm in self.alarms if alarm.kind == kind]


def compare_with_baseline(before: Baseline, now: Baseline) -> CheckOutcome:
    """Return the alarms and notes of a measurement `now`, compared with the baseline `before`."""
    alarms = [*_shortcut(before, now), *_suspects(before, now)]
    checked: list[AlarmKind] = ["shortcut", "suspects"]
    notes = [*_changed_classes(before.data.classes, now.data.classes)]
    if before.data.verdict == now.data.verdict == "shortcut":
        notes.append("The baseline already has a shortcut, so it does not count as new.")
    if now.model is not None and before.model is None:
        notes.append("The baseline has no scores of a model. Use --update to add them.")
    elif now.model is not None and before.model is not None:
        checked.append("accuracy")
        alarms += _accuracy(before.model.groups, now.model.groups)
    elif before.model is not None:
        notes.append("The baseline has scores of a model, but no model was given with --run.")
    return CheckOutcome(tuple(alarms), tuple(checked), tuple(notes))


def _shortcut(before: Baseline, now: Baseline) -> Iterator[Alarm]:
    if now.data.verdict == "shortcut" != before.data.verdict:
        yield Alarm("shortcut", plain(f"{now.data.text} ({ERROR_RATES})."))


def _suspects(before: Baseline, now: Baseline) -> Iterator[Alarm]:
    pairs = _pairs(before.data.classes, now.data.classes)
    for name, (old, new) in pairs.items():
        p_value = min(1.0, len(pairs) * fisher(old, new))
        is_many = new.counted - old.share * new.images >= FEWEST
        if p_value <= LEVEL and is_many and new.share >= GROWTH * old.share:
            yield Alarm(
                "suspects",
                f"The class {plain(name)!r} has {new.counted} suspects among {new.images} images; the "
                f"baseline had {old.counted} among {old.images} ({_p_text(p_value)}).",
            )


def _accuracy(before: Sequence[CountedGroup], now: Sequence[CountedGroup]) -> Iterator[Alarm]:
    pairs = _pairs(before, now)
    for name, (old, new) in pairs.items():
        wrong = [
            group.model_copy(update={"counted": group.images - group.counted})
            for group in (old, new)
        ]
        p_value = min(1.0, len(pairs) * fisher(*wrong))
        if p_value <= LEVEL:
            yield Alarm(
                "accuracy",
                f"The model gets {new.counted} of {new.images} images of {plain(name)!r} right; in the "
                f"baseline it was {old.counted} of {old.images} ({_p_text(p_value)}).",
            )


def _pairs(
    before: Sequence[CountedGroup], now: Sequence[CountedGroup]
) -> dict[str, tuple[CountedGroup, CountedGroup]]:
    """Return the groups that are in both, by name."""
    old: Mapping[str, CountedGroup] = {group.name: group for group in before if group.images}
    return {
        group.name: (old[group.name], group) for group in now if group.images and group.name in old
    }


def _changed_classes(before: Sequence[CountedGroup], now: Sequence[CountedGroup]) -> Iterator[str]:
    old, new = ({group.name for group in groups} for groups in (before, now))
    for names, what in ((new - old, "new in the data"), (old - new, "no longer in the data")):
        if names:
            listed = ", ".join(repr(plain(name)) for name in sorted(names)[:5])
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            yield f"Classes {what}: {listed}{more}."


def fisher(before: CountedGroup, now: CountedGroup) -> float:
    """Return the one-sided p-value of Fisher's exact test of whether the share has grown."""
    counted, images = before.counted + now.counted, before.images + now.images
    most, everything = min(counted, now.images), _log_choose(images, now.images)
    return min(
        1.0,
        math.fsum(
            math.exp(
                _log_choose(counted, some)
                + _log_choose(images - counted, now.images - some)
                - everything
            )
            for some in range(max(now.counted, counted + now.images - images), most + 1)
        ),
    )


def _log_choose(total: int, some: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(some + 1) - math.lgamma(total - some + 1)


def plain(text: str) -> str:
    """Return text on one line, without control characters that a terminal would interpret."""
    return "".join(
        "\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text
    )


def _p_text(p_value: float) -> str:
    return f"corrected p = {p_value:.1g}" if p_value > 0 else "corrected p < 1e-300"

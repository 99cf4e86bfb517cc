"""The numbers behind the verdict of an audit, drawn with where it turns, and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..audit.evidence import Evidence, Shown
from ..audit.thresholds import Thresholds
from ..audit.verdict import passes
from . import decision
from .audit_words import NETWORKS
from .strips import Axis, Mark, Zone, strip
from .words import Cell, Table, percent, signed

LOWEST = -0.3  # gain on the axis


@dataclass(frozen=True)
class Figure:
    """A chart, its title, and how to read it."""

    title: str
    text: str
    picture: str


def figures(e: Evidence, limits: Thresholds) -> Iterator[Figure]:
    """The numbers drawn, each with where the verdict turns; none where the miner settled it alone."""
    if not e.networks:
        return
    yield _gain(e, limits)
    yield _right(e)
    if any(seen.reliance for seen in e.networks.values()):
        yield _reliance(e, limits)
    yield _insistence(e, limits)
    if any(seen.separation for seen in e.networks.values()):
        yield _separation(e, limits)


def _gain(e: Evidence, limits: Thresholds) -> Figure:
    found = {name: seen.gain for name, seen in e.networks.items()}
    assert e.gain is not None, "there are networks"
    values = [shown.value for shown in found.values()]
    # A large loss says no more than a small one, so the axis does not reach down to it.
    low, high = max(LOWEST, min(-0.1, *values)), max(2.5 * limits.gain, 1.08 * max(values))
    zones = [Zone(limits.gain, "no sign"), Zone(high, "a shortcut", "found")]
    marks = _surest(found, e.gain[0])
    told = ", ".join(f"{mark.name} {mark.told}" for mark in marks)
    return Figure(
        "Gain",
        "How much more of the suspects a network gets right than its like, less what it loses on all other "
        "images. On hard images and wrong labels it is about 0."
        + _doubt(e.gain[1], limits.gain, limits),
        strip(
            marks,
            Axis(low, high, zones, chance=0.0),
            words=f"Gain of each network: {told}. From {limits.gain:g} on it speaks for a shortcut.",
        ),
    )


def _surest(found: Mapping[str, Shown], surest: str) -> list[Mark]:
    """A mark for each network; the verdict goes by the surest."""
    return [
        Mark(
            f"{name}: {NETWORKS[name]}",
            shown.value,
            signed(shown.value),
            counts=name == surest,
        )
        for name, shown in found.items()
    ]


def _doubt(shown: Shown, turn: float, limits: Thresholds) -> str:
    """A word where a number is large enough, but may be chance."""
    if shown.value < turn or passes(shown, turn, limits):
        return ""
    return f" Here chance is not ruled out ({decision.p_value(shown.p_value)})."


def _right(e: Evidence) -> Figure:
    marks = [
        Mark(
            f"{name}: {NETWORKS[name]}",
            seen.right,
            f"{100 * seen.before:.0f} → {percent(seen.right, 0)}",
            start=seen.before,
        )
        for name, seen in e.networks.items()
    ]
    told = "; ".join(f"{mark.name}, {mark.told}" for mark in marks)
    return Figure(
        "Suspects it gets right",
        "From its like (open) to the network itself (full). A shortcut that a network cannot see, or was "
        "taught to see through, no longer fools it.",
        strip(
            marks,
            Axis(0.0, 1.0, percent=True),
            words=f"Share of the suspects that are got right, from a network's like to itself: {told}.",
        ),
    )


def _reliance(e: Evidence, limits: Thresholds) -> Figure:
    found = {name: seen.reliance for name, seen in e.networks.items() if seen.reliance}
    assert e.reliance is not None, "somebody sees less"
    low = min(0.3, *(shown.value for shown in found.values()))
    zones = [Zone(limits.reliance, "no sign"), Zone(1.0, "a shortcut", "found")]
    marks = _surest(found, e.reliance[0])
    told = ", ".join(f"{mark.name} {mark.told}" for mark in marks)
    return Figure(
        "Reliance",
        "How often hiding something takes more from the class a suspect is taken for than from that of an "
        "ordinary image. By chance, and for wrong labels, in half of all pairs. It counts from an insistence "
        f"of {limits.resting:g} on." + _doubt(e.reliance[1], limits.reliance, limits),
        strip(
            marks,
            Axis(low, 1.0, zones, chance=0.5),
            words=f"Reliance on what each network does not see: {told}; by chance 0.5. From "
            f"{limits.reliance:g} on it speaks for a shortcut.",
        ),
    )


def _insistence(e: Evidence, limits: Thresholds) -> Figure:
    zones = [
        Zone(limits.insistence, "hard images"),
        Zone(1.0, "exceptions or wrong labels", "unsure"),
    ]
    name = f"{e.full:,} of {e.clear:,} suspects"
    mark = Mark(name, e.insistence, f"{e.insistence:.2f}")
    return Figure(
        "Insistence",
        "A network that has not seen the suspects clearly gives some of them another class. To how many of "
        "these does it give it as surely as to ordinary images?",
        strip(
            [mark],
            Axis(0.0, 1.0, zones),
            words=f"Insistence {mark.told}, on {name}. From {limits.insistence:g} on, suspects are more than "
            "hard images.",
        ),
    )


def _separation(e: Evidence, limits: Thresholds) -> Figure:
    found = {name: seen.separation for name, seen in e.networks.items() if seen.separation}
    assert e.separation is not None, "somebody separates"
    low = min(0.4, *(shown.value for shown in found.values()))
    turn = limits.separation(e.insistence)
    unclear = [Zone(turn, "cannot tell")] if turn > limits.mixed else []
    zones = [Zone(limits.mixed, "wrong labels", "unsure"), *unclear]
    if turn < 1:
        zones.append(Zone(1.0, "a shortcut", "found"))
    marks = _surest(found, e.separation[0])
    told = ", ".join(f"{mark.name} {mark.told}" for mark in marks)
    return Figure(
        "Separation",
        "How often another network doubts such an answer more for a suspect than for an ordinary image. By "
        "chance, and for wrong labels, in half of all pairs. It counts where insistence is high: the higher, "
        "the less of it is due to hard images." + _doubt(e.separation[1], turn, limits),
        strip(
            marks,
            Axis(low, 1.0, zones, chance=0.5),
            words=f"Separation by each network: {told}; by chance 0.5. From {turn:.2f} on it speaks for a "
            f"shortcut, below {limits.mixed:g} for wrong labels.",
        ),
    )


def numbers(e: Evidence) -> Table | None:
    """The same as a table, with p-values that allow for the choice among networks."""
    if not e.networks:
        return None
    columns = [
        ("its like gets right", "of the suspects"),
        ("it gets right", "of the suspects"),
        ("gain", "and p-value"),
        ("reliance", "and p-value"),
        ("separation", "and p-value"),
    ]
    rows = [
        (
            name,
            [
                Cell(percent(seen.before)),
                Cell(percent(seen.right)),
                _cell(seen.gain, len(e.networks)),
                _cell(seen.reliance, sum(s.reliance is not None for s in e.networks.values())),
                _cell(seen.separation, sum(s.separation is not None for s in e.networks.values())),
            ],
        )
        for name, seen in e.networks.items()
    ]
    return Table(columns, rows)


def _cell(shown: Shown | None, tests: int) -> Cell:
    if shown is None:
        return Cell("–")
    corrected = min(1.0, shown.p_value * tests)
    return Cell(signed(shown.value), decision.p_value(corrected))

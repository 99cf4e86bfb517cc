"""Charts and a table of the numbers behind the verdict of an audit, with where it turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..audit import audit_networks
from ..audit.evidence import Evidence
from ..audit.formatting import p_value, percent, signed
from ..audit.question_kinds import NetworkQuestion, is_significant
from ..audit.questions import ShowsGain, ShowsReliance, ShowsSeparation, network_questions
from ..audit.statistics import Statistic, corrected
from ..audit.thresholds import Thresholds
from .strips import Axis, Mark, Zone, strip
from .words import Cell, Table

LOWEST = -0.3  # gain on the axis


@dataclass(frozen=True)
class Figure:
    """A chart, its title, and how to read it."""

    title: str
    text: str
    picture: str


def figures(e: Evidence, limits: Thresholds) -> Iterator[Figure]:
    """Yield a chart for each number; none where the miner settled it alone."""
    if not e.networks:
        return
    yield _gain(e, limits)
    yield _right(e)
    if e.reliance:
        yield _reliance(e, limits)
    yield _insistence(e, limits)
    if e.separation:
        yield _separation(e, limits)


def _gain(e: Evidence, limits: Thresholds) -> Figure:
    values = [number.value for number in e.numbers("gain").values()]
    # A large loss says no more than a small one, so the axis does not reach down to it.
    low, high = max(LOWEST, min(-0.1, *values)), max(2.5 * limits.gain, 1.08 * max(values))
    zones = [Zone(limits.gain, "no sign"), Zone(high, "a shortcut", "found")]
    marks = _marks(ShowsGain(), e)
    return Figure(
        "Gain",
        "How much more of the suspects a network gets right than its control network, less what it loses on "
        "all other images. On hard images and wrong labels it is about 0."
        + _doubt(ShowsGain(), e, limits),
        strip(
            marks,
            Axis(low, high, zones, chance=0.0),
            words=f"Gain of each network: {_list_marks(marks)}. From {limits.gain:g} on it speaks for a "
            "shortcut.",
        ),
    )


def _label(name: str) -> str:
    return f"{name}: {audit_networks.find(name).label}"


def _marks(question: NetworkQuestion, e: Evidence) -> list[Mark]:
    """Return a mark for each network; the verdict goes by the strongest."""
    strongest: tuple[str, Statistic] = getattr(e, question.name)
    return [
        Mark(_label(name), number.value, signed(number.value), counts=name == strongest[0])
        for name, number in e.numbers(question.name).items()
    ]


def _list_marks(marks: Sequence[Mark]) -> str:
    return ", ".join(f"{mark.name} {mark.text}" for mark in marks)


def _doubt(question: NetworkQuestion, e: Evidence, limits: Thresholds) -> str:
    """Return a remark where the strongest number is large enough, but may be chance."""
    number: Statistic = getattr(e, question.name)[1]
    threshold = question.threshold(e, limits)
    if number.value < threshold or is_significant(number, threshold, limits):
        return ""
    return f" Here chance is not ruled out ({p_value(number.p_value)})."


def _right(e: Evidence) -> Figure:
    marks = [
        Mark(
            _label(name),
            each.right,
            f"{100 * each.before:.0f} → {percent(each.right, 0)}",
            start=each.before,
        )
        for name, each in e.networks.items()
    ]
    listed = "; ".join(f"{mark.name}, {mark.text}" for mark in marks)
    return Figure(
        "Suspects it gets right",
        "From its control network (open) to the network itself (full). A shortcut that a network cannot see, "
        "or was taught to see through, no longer fools it.",
        strip(
            marks,
            Axis(0.0, 1.0, percent=True),
            words=f"Share of the suspects that are got right, from the control network to the network: "
            f"{listed}.",
        ),
    )


def _reliance(e: Evidence, limits: Thresholds) -> Figure:
    low = min(0.3, *(number.value for number in e.numbers("reliance").values()))
    zones = [Zone(limits.reliance, "no sign"), Zone(1.0, "a shortcut", "found")]
    marks = _marks(ShowsReliance(), e)
    return Figure(
        "Reliance",
        "How often hiding something takes more from the class a suspect is taken for than from that of an "
        "ordinary image. By chance, and for wrong labels, in half of all pairs. It counts from an insistence "
        f"of {limits.resting:g} on." + _doubt(ShowsReliance(), e, limits),
        strip(
            marks,
            Axis(low, 1.0, zones, chance=0.5),
            words=f"Reliance on what each network does not see: {_list_marks(marks)}; by chance 0.5. From "
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
            words=f"Insistence {mark.text}, on {name}. From {limits.insistence:g} on, suspects are more than "
            "hard images.",
        ),
    )


def _separation(e: Evidence, limits: Thresholds) -> Figure:
    low = min(0.4, *(number.value for number in e.numbers("separation").values()))
    turn = ShowsSeparation().threshold(e, limits)
    marks = _marks(ShowsSeparation(), e)
    return Figure(
        "Separation",
        "How often another network doubts such an answer more for a suspect than for an ordinary image. By "
        "chance, and for wrong labels, in half of all pairs. It counts where insistence is high: the higher, "
        "the less of it is due to hard images." + _doubt(ShowsSeparation(), e, limits),
        strip(
            marks,
            Axis(low, 1.0, _zones_of_separation(turn, limits.mixed), chance=0.5),
            words=f"Separation by each network: {_list_marks(marks)}; by chance 0.5. From {turn:.2f} on it "
            f"speaks for a shortcut, below {limits.mixed:g} for wrong labels.",
        ),
    )


def _zones_of_separation(turn: float, mixed: float) -> list[Zone]:
    unclear = [Zone(turn, "cannot tell")] if turn > mixed else []
    shortcut = [Zone(1.0, "a shortcut", "found")] if turn < 1 else []
    return [Zone(mixed, "wrong labels", "unsure"), *unclear, *shortcut]


def numbers(e: Evidence) -> Table | None:
    """Return the same numbers as a table, with p-values corrected for the choice among networks."""
    if not e.networks:
        return None
    columns = [
        ("its control gets right", "of the suspects"),
        ("it gets right", "of the suspects"),
        *((question.name, "and p-value") for question in network_questions()),
    ]
    statistics_by_question = [
        corrected(e.numbers(question.name)) for question in network_questions()
    ]
    rows = [
        (
            name,
            [
                Cell(percent(each.before)),
                Cell(percent(each.right)),
                *(_cell(statistics.get(name)) for statistics in statistics_by_question),
            ],
        )
        for name, each in e.networks.items()
    ]
    return Table(columns, rows)


def _cell(number: Statistic | None) -> Cell:
    return Cell(signed(number.value), p_value(number.p_value)) if number else Cell("–")

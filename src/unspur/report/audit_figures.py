"""Charts and a table of the numbers behind the verdict of an audit, with their thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..audit import audit_networks
from ..audit.evidence import Evidence
from ..audit.formatting import p_value, percent, signed
from ..audit.question_kinds import NetworkQuestion, is_significant
from ..audit.questions import network_questions
from ..audit.shortcut_questions import ShowsGain, ShowsReliance, ShowsSeparation
from ..audit.statistics import Statistic, corrected
from ..audit.thresholds import Thresholds
from .strips import Axis, Mark, Zone, strip
from .words import Cell, Table

LOWEST = -0.3  # the axis of the gain does not go below this


@dataclass(frozen=True)
class Figure:
    """A chart, its title, and how to read it."""

    title: str
    text: str
    picture: str


def figures(e: Evidence, limits: Thresholds) -> Iterator[Figure]:
    """Yield a chart for each number; none if the miner alone decided the verdict."""
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
    # A very negative gain means the same as a slightly negative one, so the axis is cut off.
    low, high = max(LOWEST, min(-0.1, *values)), max(2.5 * limits.gain, 1.08 * max(values))
    zones = [Zone(limits.gain, "no sign"), Zone(high, "a shortcut", "found")]
    marks = _marks(ShowsGain(), e)
    return Figure(
        "Gain",
        "The accuracy of a network on the suspects minus that of its control network, plus the same "
        "difference on all other images. For hard images and for wrong labels the gain is about 0."
        + _doubt(ShowsGain(), e, limits),
        strip(
            marks,
            Axis(low, high, zones, chance=0.0),
            words=f"Gain of each network: {_list_marks(marks)}. A gain of at least {limits.gain:g} indicates "
            "a shortcut.",
        ),
    )


def _label(name: str) -> str:
    return f"{name}: {audit_networks.find(name).label}"


def _marks(question: NetworkQuestion, e: Evidence) -> list[Mark]:
    """Return a mark for each network; the verdict uses the strongest one."""
    strongest: tuple[str, Statistic] = getattr(e, question.name)
    return [
        Mark(_label(name), number.value, signed(number.value), counts=name == strongest[0])
        for name, number in e.numbers(question.name).items()
    ]


def _list_marks(marks: Sequence[Mark]) -> str:
    return ", ".join(f"{mark.name} {mark.text}" for mark in marks)


def _doubt(question: NetworkQuestion, e: Evidence, limits: Thresholds) -> str:
    """Return a remark if the strongest number is large enough but not significant, otherwise ""."""
    number: Statistic = getattr(e, question.name)[1]
    threshold = question.threshold(e, limits)
    if number.value < threshold or is_significant(number, threshold, limits):
        return ""
    return f" Here the largest value is not statistically significant ({p_value(number.p_value)})."


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
        "Accuracy on suspects",
        "The control network (open circle) and the network itself (filled circle). A network that cannot see "
        "the shortcut, or was trained on more images that contradict it, is no longer misled by it.",
        strip(
            marks,
            Axis(0.0, 1.0, percent=True),
            words=f"Accuracy on suspects, of the control network and of the network: {listed}.",
        ),
    )


def _reliance(e: Evidence, limits: Thresholds) -> Figure:
    low = min(0.3, *(number.value for number in e.numbers("reliance").values()))
    zones = [Zone(limits.reliance, "no sign"), Zone(1.0, "a shortcut", "found")]
    marks = _marks(ShowsReliance(), e)
    return Figure(
        "Reliance",
        "A part of each image is hidden. In how many pairs of a suspect and an ordinary image does this "
        "reduce the confidence in the predicted class more for the suspect? By chance, and for wrong labels, "
        "in half of them. Reliance is only used if the share of confident errors is at least "
        f"{limits.resting:g}." + _doubt(ShowsReliance(), e, limits),
        strip(
            marks,
            Axis(low, 1.0, zones, chance=0.5),
            words=f"Reliance on what each network does not see: {_list_marks(marks)}; by chance 0.5. A "
            f"reliance of at least {limits.reliance:g} indicates a shortcut.",
        ),
    )


def _insistence(e: Evidence, limits: Thresholds) -> Figure:
    zones = [
        Zone(limits.insistence, "hard images"),
        Zone(1.0, "conflicting or wrong labels", "unsure"),
    ]
    name = f"{e.full:,} of {e.clear:,} suspects"
    mark = Mark(name, e.insistence, f"{e.insistence:.2f}")
    return Figure(
        "Confident errors",
        "A network that was not trained on the suspects clearly predicts a class other than the label for "
        "some of them. This is the share of these for which it is as confident as for ordinary images.",
        strip(
            [mark],
            Axis(0.0, 1.0, zones),
            words=f"Confident errors {mark.text}, {name}. Below {limits.insistence:g}, the suspects are "
            "merely hard images.",
        ),
    )


def _separation(e: Evidence, limits: Thresholds) -> Figure:
    low = min(0.4, *(number.value for number in e.numbers("separation").values()))
    threshold = ShowsSeparation().threshold(e, limits)
    marks = _marks(ShowsSeparation(), e)
    return Figure(
        "Separation",
        "In how many pairs of a suspect and an ordinary image is another network less confident of that "
        "class for the suspect? By chance, and for wrong labels, in half of them. Separation is only used "
        "if the share of confident errors is high; among hard images it is low."
        + _doubt(ShowsSeparation(), e, limits),
        strip(
            marks,
            Axis(low, 1.0, _separation_zones(threshold, limits.mixed), chance=0.5),
            words=f"Separation by each network: {_list_marks(marks)}; by chance 0.5. At least "
            f"{threshold:.2f} indicates a shortcut, less than {limits.mixed:g} wrong labels.",
        ),
    )


def _separation_zones(threshold: float, mixed: float) -> list[Zone]:
    unclear = [Zone(threshold, "cannot tell")] if threshold > mixed else []
    shortcut = [Zone(1.0, "a shortcut", "found")] if threshold < 1 else []
    return [Zone(mixed, "wrong labels", "unsure"), *unclear, *shortcut]


def numbers(e: Evidence) -> Table | None:
    """Return the same numbers as a table, with p-values corrected for the number of networks."""
    if not e.networks:
        return None
    columns = [
        ("control network", "accuracy on suspects"),
        ("this network", "accuracy on suspects"),
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

"""Base classes for the questions of the verdict: any question, and one about a number of each network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

from .conclusions import Conclusion
from .evidence import Evidence, NumberName
from .formatting import beside, digits_apart, p_value, signed
from .statistics import Statistic, corrected, strongest
from .thresholds import Thresholds

Answer = Literal["yes", "no", "not asked"]
TableRow = tuple[str, str, str]  # the name of a number, its value, its threshold

# A number is a close call within this share of the distance from its value by chance to its threshold.
CLOSE = 0.1


class Margin(NamedTuple):
    """A number that answers a question, the threshold it is compared with, and its value by chance."""

    name: str
    value: float
    threshold: float
    chance: float = 0.0

    @property
    def is_close(self) -> bool:
        return abs(self.value - self.threshold) <= CLOSE * abs(self.threshold - self.chance)

    @property
    def is_count(self) -> bool:
        """Whether both numbers are whole and too large for shares."""
        numbers = (self.value, self.threshold)
        return min(numbers) > 1 and all(float(number).is_integer() for number in numbers)

    def __str__(self) -> str:
        digits = 0 if self.is_count else digits_apart(self.value, self.threshold)
        value, threshold = (f"{number:.{digits}f}" for number in (self.value, self.threshold))
        return f"{self.name} {value}, and the verdict changes at {threshold}"


class Question(ABC):
    """A yes-or-no question about the evidence."""

    name: ClassVar[str]
    asks: ClassVar[str]
    yes: ClassVar[Conclusion | None] = None  # None: continue with the next question
    no: ClassVar[Conclusion | None] = None
    miner_only: ClassVar[bool] = False  # whether the miner's mistakes are enough to answer it

    @abstractmethod
    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        """Return whether the answer is yes."""

    @abstractmethod
    def measured(self, e: Evidence, limits: Thresholds) -> str:
        """Describe what was measured."""

    @abstractmethod
    def required(self, e: Evidence, limits: Thresholds) -> str:
        """Describe what the answer yes requires."""

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        """Return the rows of the table of numbers."""
        return []

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        """Return how close the answer is to the other one; None if more than one number decides it."""
        return None

    def is_known(self, limits: Thresholds) -> bool:
        """Return whether the version that recorded these thresholds asked this question."""
        return True

    def is_asked(self, e: Evidence) -> bool:
        return self.miner_only or bool(e.networks)

    def answer(self, e: Evidence, limits: Thresholds) -> Answer:
        if not self.is_asked(e):
            return "not asked"
        return "yes" if self.holds(e, limits) else "no"

    def conclusion(self, e: Evidence, limits: Thresholds) -> Conclusion | None:
        """Return what follows from the answer; None if the next question decides."""
        return self.yes if self.holds(e, limits) else self.no

    def other_conclusion(self, e: Evidence, limits: Thresholds) -> Conclusion | None:
        """Return what would follow from the other answer."""
        return self.no if self.holds(e, limits) else self.yes


def has_insistence(e: Evidence, limits: Thresholds, least: float) -> bool:
    """Return whether there are enough confident errors, and their share is at least `least`."""
    return e.full >= limits.fewest_full and e.insistence >= least


def is_significant(statistic: Statistic, threshold: float, limits: Thresholds) -> bool:
    """Return whether a number is large enough and statistically significant."""
    return statistic.value >= threshold and statistic.p_value <= limits.p_value


class NetworkQuestion(Question):
    """A question about a number that every network gives; the strongest network answers it."""

    name: ClassVar[NumberName]
    null: ClassVar[str]  # a sentence: the number without a shortcut
    chance: ClassVar[float] = 0.0  # its value by chance

    @abstractmethod
    def threshold(self, e: Evidence, limits: Thresholds) -> float:
        """Return the value from which the number shows a shortcut."""

    def counts(self, e: Evidence, limits: Thresholds) -> bool:
        """Return whether there are enough confident errors for the number to count."""
        return True

    def holds(self, e: Evidence, limits: Thresholds) -> bool:
        best = strongest(e.numbers(self.name))
        return best is not None and self._shows(best[1], e, limits)

    def shown_by(self, e: Evidence, limits: Thresholds) -> dict[str, Statistic]:
        """Return every network whose number shows a shortcut, with the corrected p-value."""
        found = corrected(e.numbers(self.name))
        return {name: number for name, number in found.items() if self._shows(number, e, limits)}

    def _shows(self, number: Statistic, e: Evidence, limits: Thresholds) -> bool:
        return self.counts(e, limits) and is_significant(number, self.threshold(e, limits), limits)

    def margin(self, e: Evidence, limits: Thresholds) -> Margin | None:
        best = strongest(e.numbers(self.name))
        if best is None or best[1].p_value > limits.p_value or not self.counts(e, limits):
            return None
        return Margin(self.name, best[1].value, self.threshold(e, limits), self.chance)

    def measured(self, e: Evidence, limits: Thresholds) -> str:
        best = strongest(e.numbers(self.name))
        if best is None:
            return "nothing to compare" if e.networks else ""
        name, number = best
        value = beside(number.value, self.threshold(e, limits))
        return f"{self.name} {value} ({name}), {p_value(number.p_value)}"

    def rows(self, e: Evidence, limits: Thresholds) -> list[TableRow]:
        threshold = self.threshold(e, limits)
        return [
            (
                f"{self.name}, network {network!r}",
                f"{beside(number.value, threshold)}, {p_value(number.p_value)}",
                signed(threshold, digits_apart(number.value, threshold)),
            )
            for network, number in corrected(e.numbers(self.name)).items()
        ]

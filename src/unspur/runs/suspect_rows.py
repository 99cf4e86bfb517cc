"""The rows of suspects.csv and suspects.parquet: those that are written, and those that are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..data.splits import Part
from ..stages.corrections import EXCLUDE, SUSPECT, Corrections, NewLabel, sample_names
from ..stages.suspects import Suspects

NEW_LABEL = "new_label"
BLOCK = 10_000  # rows that are in memory at a time
COLUMNS = ("label", "score", "predicted", "flag", "note")


class CorrectedRow(NamedTuple):
    """A person's flag, note and new label of one sample, with its line in the file."""

    line: int
    name: str
    flag: str
    note: str = ""
    new_label: str = ""


@dataclass(frozen=True)
class SuspectRows:
    """The rows of the file. They are generated one by one, because a million rows would take much memory."""

    part: Part
    classes: Sequence[str]
    suspects: Suspects
    corrections: Corrections | None = None

    @cached_property
    def names(self) -> Sequence[str]:
        return sample_names(self.part)

    @cached_property
    def order(self) -> Tensor:
        """The samples, the highest score first."""
        return torch.argsort(self.suspects.score, descending=True, stable=True)

    @cached_property
    def header(self) -> tuple[str, ...]:
        named = "path" if self.names is self.part.names else "index"
        return (named, *COLUMNS, *((NEW_LABEL,) if self._new else ()))

    @property
    def _new(self) -> Mapping[int, NewLabel]:
        return self.corrections.labels if self.corrections else {}

    def __iter__(self) -> Iterator[Sequence[str]]:
        """Yield the names of the columns, then every row."""
        yield self.header
        for some in torch.split(self.order, BLOCK):
            yield from self._rows(some)

    def tables(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as columns, some rows at a time, with the score as numbers."""
        for some in torch.split(self.order, BLOCK):
            columns = zip(*self._rows(some), strict=True)
            table: dict[str, Any] = dict(zip(self.header, map(list, columns), strict=True))
            yield {**table, "score": self.suspects.score[some].numpy()}

    def _rows(self, some: Tensor) -> Iterator[Sequence[str]]:
        """Yield the rows of some samples."""
        guess, scores, flagged, labels = (
            values[some].tolist()
            for values in (
                *(self.suspects.predicted, self.suspects.score, self.suspects.conflict),
                self.part.targets.cpu(),
            )
        )
        new = bool(self._new)
        for i, label, predicted, score, flag in zip(
            some.tolist(), labels, guess, scores, flagged, strict=True
        ):
            cells = (self.names[i], self._label(i, label), f"{score:.4f}", self.classes[predicted])
            yield (*cells, self._flag(i, flag), self._note(i), *(self._new_label(i) if new else ()))

    def _flag(self, index: int, flagged: bool) -> str:
        if self.corrections is not None and self.corrections.excluded[index]:
            return EXCLUDE
        return SUSPECT if flagged else ""

    def _label(self, index: int, label: int) -> str:
        """Return the label that the sample had in the data."""
        new = self._new
        return self.classes[new[index].before if index in new else label]

    def _note(self, index: int) -> str:
        return self.corrections.notes.get(index, "") if self.corrections else ""

    def _new_label(self, index: int) -> tuple[str, ...]:
        return (self.classes[self._new[index].after] if index in self._new else "",)

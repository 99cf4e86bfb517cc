"""The rows of suspects.csv and suspects.parquet: those that are written, and those that are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from ..data.splits import Part
from ..stages.corrections import EXCLUDE, SUSPECT, Corrections, NewLabel, sample_names
from ..stages.suspects import Suspects

NEW_LABEL = "new_label"
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
    def order(self) -> list[int]:
        """The samples, the highest score first."""
        return torch.argsort(self.suspects.score, descending=True, stable=True).tolist()

    @cached_property
    def flags(self) -> list[str]:
        flags = [SUSPECT if flagged else "" for flagged in self.suspects.conflict.tolist()]
        if self.corrections is not None:
            for index in self.corrections.excluded.nonzero().flatten().tolist():
                flags[index] = EXCLUDE
        return flags

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
        label, predicted = self.part.targets.tolist(), self.suspects.predicted.tolist()
        score, names, flags, new = self.suspects.score.tolist(), self.names, self.flags, self._new
        for i in self.order:
            cells = (names[i], self._label(i, label[i]), f"{score[i]:.4f}")
            further = (self.classes[predicted[i]], flags[i], self._note(i))
            yield (*cells, *further, *(self._new_label(i) if new else ()))

    def columns(self) -> dict[str, Any]:
        """Return the rows as columns, with the score as numbers."""
        rows = list(zip(*list(self)[1:], strict=True))
        columns: dict[str, Any] = {name: list(rows[k]) for k, name in enumerate(self.header)}
        return {**columns, "score": self.suspects.score[torch.tensor(self.order)].numpy()}

    def _label(self, index: int, label: int) -> str:
        """Return the label that the sample had in the data."""
        new = self._new
        return self.classes[new[index].before if index in new else label]

    def _note(self, index: int) -> str:
        return self.corrections.notes.get(index, "") if self.corrections else ""

    def _new_label(self, index: int) -> tuple[str, ...]:
        return (self.classes[self._new[index].after] if index in self._new else "",)

"""What a person says of the training samples: suspects, samples to leave out, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ..data.splits import Part
from ..errors import DataError
from ..hashing import digest

SUSPECT, EXCLUDE = "suspect", "exclude"


@dataclass(frozen=True, eq=False)
class Corrections:
    """What a user says of the training samples: which are suspects, which to leave out, and why."""

    conflict: Tensor
    excluded: Tensor
    notes: Mapping[int, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of the flags; notes change nothing."""
        return digest("suspects", self.conflict, self.excluded)


def sample_names(part: Part) -> tuple[str, ...]:
    """What samples are called in the file: their paths, or their places where paths are not unique."""
    if part.names is not None and len(set(part.names)) == len(part):
        return part.names
    return tuple(map(str, range(len(part))))


def check_left(given: Corrections, targets: Tensor, classes: Sequence[str]) -> None:
    """Raise where the user leaves nothing of a class to train on."""
    for label in sorted(set(targets.tolist())):
        if bool(given.excluded[targets == label].all()):
            raise DataError(
                f"every training sample of {classes[label]!r} is flagged {EXCLUDE!r}: nothing of it is "
                "left to train on. Keep some, or remove the class from the data."
            )

"""Corrections by a person: which training samples are suspects, which to leave out, new labels, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from ..data.splits import Part, Splits, with_targets
from ..errors import DataError
from ..hashing import digest

SUSPECT, EXCLUDE = "suspect", "exclude"


@dataclass(frozen=True)
class NewLabel:
    """A label that a person has corrected: the class of the data, and the right one."""

    before: int
    after: int


@dataclass(frozen=True, eq=False)
class Corrections:
    """A user's answer for each training sample: is it a suspect, is it left out; new labels and notes.

    `source` is the file that the answers were read from.
    """

    conflict: Tensor
    excluded: Tensor
    notes: Mapping[int, str] = field(default_factory=dict)
    labels: Mapping[int, NewLabel] = field(default_factory=dict)
    source: str = ""

    @property
    def digest(self) -> str:
        """A hash of the flags; notes change nothing, and new labels change the hash of the data."""
        return digest("suspects", self.conflict, self.excluded)


def relabel(splits: Splits, corrections: Corrections | None) -> Splits:
    """Return the splits with the training labels that a person has corrected."""
    if corrections is None or not corrections.labels:
        return splits
    targets = splits.train.targets.clone()
    for index, label in corrections.labels.items():
        targets[index] = label.after
    for label in sorted(set(splits.train.targets.tolist()) - set(targets.tolist())):
        raise DataError(
            f"every training sample of {splits.classes[label]!r} gets another label: nothing of it is left "
            "to train on. Keep some, or remove the class from the data."
        )
    return replace(splits, train=with_targets(splits.train, targets))


def sample_names(part: Part) -> Sequence[str]:
    """Return the names of samples in suspects.csv: paths, or indices where paths are not unique."""
    if part.names is not None and _are_unique(part.names):
        return part.names
    return tuple(map(str, range(len(part))))


def _are_unique(names: Sequence[str]) -> bool:
    """Return whether no name is there twice; hashes take a tenth of the memory of a set of names."""
    hashes = np.fromiter(map(hash, names), np.int64, len(names))
    return len(np.unique(hashes)) == len(names) or len(set(names)) == len(names)


def check_left(corrections: Corrections, targets: Tensor, classes: Sequence[str]) -> None:
    """Raise if the user excludes every sample of a class."""
    for label in sorted(set(targets.tolist())):
        if bool(corrections.excluded[targets == label].all()):
            raise DataError(
                f"every training sample of {classes[label]!r} is flagged {EXCLUDE!r}: nothing of it is "
                "left to train on. Keep some, or remove the class from the data."
            )

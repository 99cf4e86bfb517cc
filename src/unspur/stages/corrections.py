"""A user's corrections of training samples: suspects, exclusions, new labels and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from ..data.splits import Part, Splits, with_targets
from ..errors import DataError
from ..store.hashing import digest

SUSPECT, EXCLUDE = "suspect", "exclude"


@dataclass(frozen=True)
class NewLabel:
    """A label that a user has corrected: the class in the data, and the correct one."""

    before: int
    after: int


@dataclass(frozen=True, eq=False)
class Corrections:
    """A user's decisions: for each training sample whether it is a suspect or excluded; labels and notes.

    `source` is the file that the decisions were read from.
    """

    conflict: Tensor
    excluded: Tensor
    notes: Mapping[int, str] = field(default_factory=dict)
    labels: Mapping[int, NewLabel] = field(default_factory=dict)
    source: str = ""

    @property
    def digest(self) -> str:
        """A hash of the flags. Notes do not affect results, and new labels change the hash of the data.

        The text changes if the same flags give another result.
        """
        return digest("suspects 2", self.conflict, self.excluded)


def relabel(splits: Splits, corrections: Corrections | None) -> Splits:
    """Return the splits with a user's corrected training labels."""
    if corrections is None or not corrections.labels:
        return splits
    targets = splits.train.targets.clone()
    for index, label in corrections.labels.items():
        targets[index] = label.after
    for label in sorted(set(splits.train.targets.tolist()) - set(targets.tolist())):
        raise DataError(
            f"every training sample of {splits.classes[label]!r} gets another label: no sample of the class "
            "is left to train on. Keep some, or remove the class from the data."
        )
    return replace(splits, train=with_targets(splits.train, targets))


def sample_names(part: Part) -> Sequence[str]:
    """Return the names of samples in suspects.csv: paths, or indices where paths are not unique."""
    if part.names is not None and _are_unique(part.names):
        return part.names
    return tuple(map(str, range(len(part))))


def _are_unique(names: Sequence[str]) -> bool:
    """Return whether all names differ; hashes need a tenth of the memory of a set of names."""
    hashes = np.fromiter(map(hash, names), np.int64, len(names))
    hashes.sort()  # np.unique would need several times the memory
    return bool((hashes[1:] != hashes[:-1]).all()) or len(set(names)) == len(names)


def check_left(corrections: Corrections, targets: Tensor, classes: Sequence[str]) -> None:
    """Raise if the user excludes every sample of a class."""
    for label in sorted(set(targets.tolist())):
        if bool(corrections.excluded[targets == label].all()):
            raise DataError(
                f"every training sample of {classes[label]!r} is flagged {EXCLUDE!r}: no sample of the class "
                "is left to train on. Keep some, or remove the class from the data."
            )

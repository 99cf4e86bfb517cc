"""The baseline file of a check: the verdict, the suspects of each class, the scores on each group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import StoreError
from ..store import parse_json, write_bytes
from ..store.strict_json import read_regular
from ..version import VERSION

MOST_BYTES = 2**24
MOST_ROWS = 100_000
LARGEST = 10**12

Count = Annotated[int, Field(ge=0, le=LARGEST)]
Name = Annotated[str, Field(max_length=10_000)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32,64}$")]


class _Strict(BaseModel):
    """A record without unknown fields, whose values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CountedGroup(_Strict):
    """A class or a group: its images, and how many of them are suspects or classified correctly."""

    name: Name
    images: Count
    counted: Count

    @model_validator(mode="after")
    def _is_part(self) -> CountedGroup:
        if self.counted > self.images:
            raise ValueError(f"{self.counted} of {self.images} images is impossible")
        return self

    @property
    def share(self) -> float:
        return self.counted / self.images if self.images else 0.0


class CheckSettings(_Strict):
    """The settings of the audit; checks can be compared only if their settings are equal."""

    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    steps: Count = 0
    size: Count = 0


class CheckedData(_Strict):
    """The data of a check: their hash, the verdict of the audit, and the suspects of each class."""

    digest: Digest
    images: Count
    verdict: Literal["shortcut", "nothing", "noise", "unclear"]
    text: Name
    classes: Annotated[list[CountedGroup], Field(max_length=MOST_ROWS)]


class CheckedModel(_Strict):
    """The scores of a model on the known groups; conflicting images are one of them."""

    digest: Digest
    groups: Annotated[list[CountedGroup], Field(max_length=MOST_ROWS)]


class Baseline(_Strict):
    """The result of a check, to compare later checks with."""

    format: Literal[1] = 1
    unspur: Annotated[str, Field(max_length=100)] = VERSION
    settings: CheckSettings
    data: CheckedData
    model: CheckedModel | None = None


def read_baseline(path: Path) -> Baseline | None:
    """Read a baseline; None if there is no such file."""
    if not path.exists():
        return None
    content = parse_json(read_regular(path, MOST_BYTES), path)
    try:
        return Baseline.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise StoreError(
            f"{path} is not a baseline of this version of unspur ({where}: {first['msg'][:200]}). Restore "
            "it, or write a new one with --update."
        ) from None


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline; it should be kept under version control."""
    text = json.dumps(baseline.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_bytes(path, f"{text}\n".encode())

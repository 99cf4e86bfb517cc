"""model.json: how to build a network, its classes, its input and the checksums of its weights.

Every value is checked when it is read. So a wrong value raises an error that names it, instead of causing
wrong predictions.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictStr,
    ValidationError,
    model_validator,
)

from ..data.decoding.pixels import Crop
from ..errors import StoreError
from ..store import damage, read_json

FORMAT = 1
MODEL = "model.json"
MOST_VALUES = 2**27  # values of one image: three channels of 6,688 x 6,688 pixels
Checksum = Annotated[str, Field(strict=True, pattern="^[0-9a-f]{64}$")]
Size = Annotated[int, Field(strict=True, ge=1, le=2**16)]
Name = Annotated[str, Field(strict=True, min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BuilderDescription(_Table):
    """How a network is built: by name with options, or by the user if it was given as a module."""

    name: Name
    options: dict[StrictStr, Any] = {}
    given: StrictBool = False
    paired: StrictStr | None = None
    sha256: Checksum | None = None  # of the Python file, if the name is one
    output: Literal["logits"] | None = None  # set if its own output is an object with `.logits`


class InputDescription(_Table):
    """The images that a network takes, and how they are normalised."""

    shape: tuple[Size, Size, Size]
    scale: Literal[1, 255]
    mean: tuple[FiniteFloat, ...]
    std: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]
    crop: Crop = "stretch"

    @model_validator(mode="after")
    def _fit_channels(self) -> InputDescription:
        if math.prod(self.shape) > MOST_VALUES:
            raise ValueError(f"an image may have at most {MOST_VALUES:,} values")
        if len(self.mean) != len(self.std) or len(self.mean) not in (0, 1, self.shape[0]):
            raise ValueError("mean and std need one number for each channel")
        return self


class SlimDescription(_Table):
    """The number of attention heads that each layer of a slim network has kept."""

    heads: dict[StrictStr, Size]


class ModelDescription(_Table):
    """The content of model.json."""

    format: Literal[1]
    unspur: StrictStr
    builder: BuilderDescription
    classes: Annotated[tuple[StrictStr, ...], Field(min_length=1)]
    input: InputDescription
    sha256: Checksum
    packed_sha256: Checksum | None = None
    slim: SlimDescription | None = None


def read_description(folder: Path) -> dict[str, Any]:
    """Read model.json and check every value."""
    path = folder / MODEL
    about = read_json(path)
    if about.get("format") != FORMAT:
        raise StoreError(f"{path} has format {about.get('format')!r}, not {FORMAT}.")
    try:
        ModelDescription.model_validate(about)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "input"
        raise damage(path, f"{where}: {first['msg']}", "run") from None
    return about

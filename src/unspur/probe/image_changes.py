"""Changes by name, as on the command line: cues that can be hidden, and functions of the user."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..boundary import explain_faults
from ..errors import UsageError
from .cues import Border, Colour, Corners, Cue, Detail, Light, Region
from .found_cues import Background, Text, installed
from .patches import Patch

PLAIN: dict[str, Callable[[], Cue]] = {
    "border": Border,
    "corners": Corners,
    "colour": Colour,
    "light": Light,
    "detail": Detail,
}
FOUND: dict[str, Callable[[], Cue]] = {"background": Background, "text": Text}
HIDEABLE = (*PLAIN, *FOUND, "region X,Y,W,H")
INSTALL = "pip install 'unspur[probe]'"
REGION = re.compile(r"region[ :=]+(\d{1,6}),(\d{1,6}),(\d{1,6}),(\d{1,6})")

ImageFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class StyleOf:
    """A change that gives images the style of a class."""

    label: str

    @property
    def name(self) -> str:
        return f"style of {self.label}"

    @property
    def title(self) -> str:
        return f"the style of {self.label}"


@dataclass(frozen=True)
class FunctionChange:
    """A function from an image (C, H, W) to an image of the same shape, and its control function, if any."""

    function: ImageFunction
    control: ImageFunction | None = None
    name: str = "function"

    @property
    def title(self) -> str:
        return f"the change {self.name}"

    def apply(self, images: Tensor) -> Tensor:
        return self._each(self.function, images)

    def apply_control(self, images: Tensor) -> Tensor | None:
        return None if self.control is None else self._each(self.control, images)

    def _each(self, function: ImageFunction, images: Tensor) -> Tensor:
        with explain_faults(f"the change {self.name} failed on an image", UsageError):
            changed = [function(image.clone()) for image in images]
        for image in changed:
            _check_image(image, images, self.name)
        return torch.stack(changed)


def _check_image(image: object, images: Tensor, name: str) -> None:
    expected = f"a tensor {tuple(images.shape[1:])} in {images.dtype}"
    if not isinstance(image, Tensor):
        raise UsageError(f"the change {name} returned a {type(image).__name__}, not {expected}.")
    if image.shape != images.shape[1:] or image.dtype != images.dtype:
        found = f"a tensor {tuple(image.shape)} in {image.dtype}"
        raise UsageError(f"the change {name} must return {expected}, but it returned {found}.")


Change = Cue | Patch | StyleOf | FunctionChange


def hide(what: str) -> Cue:
    """Return a cue by its name: border, corners, colour, light, detail, background, text, region X,Y,W,H."""
    what = " ".join(what.strip().lower().split())
    if what in PLAIN:
        return PLAIN[what]()
    if what in FOUND:
        if not installed():
            raise UsageError(f"hiding the {what} needs further packages. Run: {INSTALL}")
        return FOUND[what]()
    if found := REGION.fullmatch(what):
        return _region(*map(int, found.groups()))
    raise UsageError(
        f"there is no {what!r} to hide. Choose one of {', '.join(HIDEABLE)}; X, Y, W and H are the left "
        "edge, top edge, width and height of a region in pixels."
    )


def _region(left: int, top: int, width: int, height: int) -> Region:
    if not width or not height:
        raise UsageError("a region needs a width and a height of at least one pixel.")
    name = f"region {left},{top},{width},{height}"
    return Region(left, top, width, height, name=name, title=f"the {name}")


def every_change(channels: int) -> tuple[list[Change], list[str]]:
    """Return the built-in changes for images with this number of channels, and why others are left out."""
    names, left_out = [*PLAIN, *FOUND], []
    if channels == 1:
        names.remove("colour")
        left_out.append("colour: the images are grey")
    if not installed():
        names = [name for name in names if name not in FOUND]
        left_out.append(f"{' and '.join(FOUND)}: {INSTALL}")
    return [hide(name) for name in names], left_out


def as_change(value: object, control: ImageFunction | None = None) -> Change:
    """Return a user's argument as a change; it is a name as for `hide`, a change, or a function."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Patch | StyleOf | FunctionChange):
        return value
    if all(hasattr(value, name) for name in ("name", "title", "hide", "exchange")):
        return value  # type: ignore[return-value]
    if callable(value):
        return FunctionChange(value, control, getattr(value, "__name__", "function"))
    raise UsageError(f"a change is a name or a function from image to image, not {value!r}.")


def load_function(where: str) -> FunctionChange:
    """Load a function from image to image, named as `file.py:function`; this runs the file."""
    path, _, name = where.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise UsageError(f"{where!r} is no function in a file. Write --change file.py:function.")
    spec = importlib.util.spec_from_file_location(f"unspur_change_{Path(path).stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with explain_faults(f"{path} cannot be read", UsageError):
        spec.loader.exec_module(module)
    if not callable(function := getattr(module, name, None)):
        raise UsageError(
            f"{path} has no function {name!r}. Define it: it gets and returns an image."
        )
    control = getattr(module, f"{name}_control", None)
    return FunctionChange(function, control if callable(control) else None, name)


def check_style(changes: Sequence[Change], classes: Sequence[str]) -> None:
    """Raise if a change uses the style of a class that the model does not have."""
    for change in changes:
        if isinstance(change, StyleOf) and change.label not in classes:
            raise UsageError(
                f"the model has no class {change.label!r} for --swap-style. Its classes are "
                f"{', '.join(map(repr, classes))}."
            )

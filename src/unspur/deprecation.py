"""Keep old names working for a while, with a warning that names the replacement.

UPGRADING.md has the policy and a row for each of `DEPRECATIONS`. A test compares the two, and fails when the
version reaches the one in which an old name has to go.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Deprecation:
    """An old name as users write it, its replacement, and the versions of the warning and of the removal."""

    old: str
    new: str
    since: str
    removal: str

    def warn(self, stacklevel: int = 2) -> None:
        """Warn the caller; `stacklevel` counts from the function that calls this one."""
        warnings.warn(
            f"{self.old} is deprecated since unspur {self.since} and will be removed in {self.removal}. "
            f"Use {self.new}.",
            FutureWarning,  # shown to everybody, unlike DeprecationWarning
            stacklevel=stacklevel + 1,
        )


RESULT_NAME = Deprecation("unspur.Debiased", "unspur.DebiasedModel", "0.2.0", "0.4.0")
REACH = Deprecation(
    "unspur.density(masks, reach=...)", "unspur.density(masks, reachable=...)", "0.2.0", "0.4.0"
)
TRUE_GCE = Deprecation(
    'the setting mine.gce_form = "true"', 'mine.gce_form = "exact"', "0.2.0", "0.4.0"
)
DEPRECATIONS = (RESULT_NAME, REACH, TRUE_GCE)


def renamed_names(
    find: Callable[[str], Any], renamed: Mapping[str, tuple[str, Deprecation]]
) -> Callable[[str], Any]:
    """Return a module `__getattr__` that finds old names too, with a warning.

    `renamed` maps an old name to its new name and the deprecation.
    """

    def find_any(name: str) -> Any:
        if name not in renamed:
            return find(name)
        new, deprecation = renamed[name]
        deprecation.warn()
        return find(new)

    return find_any


def renamed_parameter(
    old: str, new: str, deprecation: Deprecation
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that passes the keyword argument `old` on as `new`, with a warning."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old not in kwargs:
                return function(*args, **kwargs)
            if new in kwargs:
                raise TypeError(
                    f"{old}= is the old name of {new}=, and both were given. Give {new}=."
                )
            deprecation.warn()
            kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def renamed_value(value: object, old: object, new: object, deprecation: Deprecation) -> object:
    """Return the new value of a setting where the old one is given, with a warning; else `value`."""
    if value != old:
        return value
    deprecation.warn(stacklevel=3)
    return new

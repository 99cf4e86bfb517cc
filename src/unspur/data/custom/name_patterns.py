"""Patterns of file names: `*_{class}_{group}.png` reads the class and the group of an image from its name.

A pattern matches the end of a path: the file name, and as many folders as the pattern contains. `*` stands
for any text within a name; `{class}` and `{group}` stand for the text that is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import DataError
from .listing import Listing, printable

FIELDS = ("class", "group")


@dataclass(frozen=True)
class NamePattern:
    """A pattern of file names with `{class}`, `{group}` or both."""

    text: str

    def __post_init__(self) -> None:
        if unknown := set(re.findall(r"{(.*?)}", self.text)) - set(FIELDS):
            raise DataError(
                f"the pattern {self.text!r} has an unknown field {{{min(unknown)}}}. Write {{class}} and "
                "{group}, as in '*_{class}_{group}.png'."
            )
        if not self.fields:
            raise DataError(
                f"the pattern {self.text!r} reads nothing. Write {{group}} where a file's name has the "
                "group, as in '*_{group}.png', and {class} where it has the class."
            )
        if any(self.text.count(f"{{{name}}}") > 1 for name in FIELDS):
            raise DataError(
                f"the pattern {self.text!r} has a field twice. Write * for one of them."
            )

    @property
    def fields(self) -> list[str]:
        """Return the fields that the pattern reads."""
        return [name for name in FIELDS if f"{{{name}}}" in self.text]

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        signs = {"*": "[^/]*", "?": "[^/]", **{f"{{{f}}}": f"(?P<{f}>[^/]+?)" for f in FIELDS}}
        parts = re.split(r"({class}|{group}|\*|\?)", self.text)
        return re.compile("".join(signs.get(part, re.escape(part)) for part in parts))

    def read(self, path: Path) -> dict[str, str] | None:
        """Return the fields of a path, or None if the pattern does not match."""
        end = "/".join(path.parts[-1 - self.text.count("/") :])
        found = self._expression.fullmatch(end)
        return (
            {name: printable(text) for name, text in found.groupdict().items()} if found else None
        )


def read_names(listing: Listing, pattern: NamePattern) -> Listing:
    """Return the listing with classes and groups read from the file names; raise if one does not match."""
    rows, unmatched = [], []
    for row in listing.rows:
        found = pattern.read(row.path)
        if found is None:
            unmatched.append(row.path)
            continue
        label, group = found.get("class", row.label), found.get("group", row.group)
        rows.append(row._replace(label=label, group=group))
    if unmatched:
        raise DataError(
            f"the pattern {pattern.text!r} does not match {len(unmatched)} of {len(listing.rows)} file names "
            f"of {listing.name}, {printable(unmatched[0], listing.root)!r} first. Correct the pattern, or "
            "the names."
        )
    return listing._replace(rows=rows)

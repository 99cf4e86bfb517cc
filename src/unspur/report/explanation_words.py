"""Which properties of the images predict the suspects, in sentences and as a table."""

from __future__ import annotations

from ..audit.explanation import FEWEST, ColumnEvidence, Explanation
from ..audit.formatting import p_value, percent

ORIGINS = {
    "table": "your table",
    "groups": "the groups of the data",
    "file": "the image files",
    "folder": "the folders",
    "pixels": "the pixels",
}
MOST_ROWS = 12  # of the table
NO_CAUSE = (
    "A property that predicts the suspects need not be the shortcut: it may only be correlated with the "
    "shortcut, or make images hard."
)


def sentences(explanation: Explanation) -> list[str]:
    """Say which column predicts the suspects, or that none does."""
    if explanation.suspects < FEWEST:
        return [
            f"There are fewer than {FEWEST} suspects, too few to find out what they have in common."
        ]
    compared, named = len(explanation.columns), explanation.named
    missing = _missing(explanation)
    if not named:
        return [f"None of {compared} properties of the images predicts the suspects.", *missing]
    first = f"The best predictor of suspects is {_name(named[0])}: {_rule(named[0])}. {_example(named[0])}"
    others = [_name(each) for each in named[1:4]]
    also = [f"The next best are {', '.join(others)}."] if others else []
    count = (
        f"{len(named)} of {compared} properties predict the suspects significantly; p-values are corrected "
        f"for {compared} tests."
    )
    return [first, *also, count, NO_CAUSE, *missing]


def _missing(explanation: Explanation) -> list[str]:
    if not explanation.missing:
        return []
    return [f"{explanation.missing:,} images have no row in {explanation.table}."]


def _name(each: ColumnEvidence) -> str:
    return f"{each.name!r} (from {ORIGINS.get(each.origin, each.origin)})"


def _rule(each: ColumnEvidence) -> str:
    return (
        f"within a class, a rule by it selects {percent(each.found, 0)} of the suspects and "
        f"{percent(each.picked, 0)} of the other images ({p_value(each.p_value)})"
    )


def _example(each: ColumnEvidence) -> str:
    example = each.example
    return (
        f"For example, in class {example.label!r}, {percent(example.suspects, 0)} of the suspects and "
        f"{percent(example.others, 0)} of the other images have {each.name!r} = {example.kind}."
    )


def rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """Return a row for each of the best columns: name, origin, advantage, found, picked, p-value."""
    return [
        (
            each.name,
            ORIGINS.get(each.origin, each.origin),
            f"{each.advantage:.2f}",
            percent(each.found, 0),
            percent(each.picked, 0),
            p_value(each.p_value),
        )
        for each in explanation.columns[:MOST_ROWS]
    ]

"""A probe in words, as rows of a table, and as JSON."""

from __future__ import annotations

from typing import Any

from .findings import MARGIN, ChangeEffect, ClassEffect, ModelEffect, Probe
from .paired import Interval, PairedShare

EXPLANATION = (
    "Effect: how many more images are classified as the class that the cue comes from, in percentage points, "
    "than with a cue of their own class (for a patch: than with a grey patch). Brackets: 95 % intervals "
    "over images, corrected for all comparisons. Accuracy: before and after the change. A model relies on a "
    f"cue if the whole interval lies above {100 * MARGIN:.0f} points."
)


def percent(share: float) -> str:
    """Format a share in percent; the percent sign stays on the line of its number."""
    return "–" if share != share else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def points(value: float) -> str:
    """Format a difference in percentage points, with its sign but without a negative zero."""
    return "–" if value != value else f"{100 * value:+z.1f}".replace("-", "−")


def between(interval: Interval) -> str:
    return "" if interval[0] != interval[0] else " to ".join(points(end) for end in interval)


def p_text(value: float) -> str:
    return f"p = {value:.2g}" if value >= 1e-12 else "p < 1e-12"


def headline(found: Probe) -> str:
    """Describe what the first model relies on."""
    claims = [change.title for change in found.claims]
    if not claims:
        return "No sign that the model relies on what was changed"
    named = claims[0] if len(claims) == 1 else f"{', '.join(claims[:-1])} and {claims[-1]}"
    return f"{_model(found.models[0]).capitalize()} relies on {named}"


def _model(name: str) -> str:
    """Return the name of a model within a sentence."""
    return "the model" if name == "model" else f"the {name} model"


def effect_sentence(change: ChangeEffect, model: str) -> str:
    """Describe the effect of a change on a model."""
    effect = change.models[model]
    pull = effect.pull
    numbers = f"{points(pull.difference)} points ({between(pull.interval)}; {p_text(pull.p_value)})"
    if effect.towards:
        return (
            f"With {change.title}, {_model(model)} classifies {percent(pull.after)} of the images as "
            f"{effect.towards}, and {percent(pull.before)} of the control images: {numbers}."
        )
    return (
        f"With {change.title} of an image of another class, {_model(model)} classifies "
        f"{percent(pull.after)} of the images as that class; with {change.title} of an image of their own "
        f"class, {percent(pull.before)}: {numbers}."
    )


def gap_sentence(change: ChangeEffect) -> str:
    """Compare the effects on the last and on the first model; "" if there is only one model."""
    if change.gap is None:
        return ""
    names = list(change.models)
    value, interval = change.gap
    less = "less" if value >= 0 else "more"
    return (
        f"The effect on the {names[-1]} model is {100 * abs(value):.1f} points {less} than on the {names[0]} "
        f"model (difference {between(interval)})."
    )


def flip_sentence(change: ChangeEffect, row: ClassEffect) -> str:
    """Describe how many images of a class the change moves to another class."""
    return (
        f"{row.taken} of {row.recognised} correctly classified images of {row.name} are classified as "
        f"{row.taken_for} {'with' if change.is_added else 'without'} {change.title}."
    )


def flipped_classes(effect: ModelEffect) -> list[ClassEffect]:
    """Return the classes that lose images to another class, the largest share first."""
    rows = [row for row in effect.classes if row.taken]
    return sorted(rows, key=lambda row: -row.taken / max(row.recognised, 1))


def table_of(found: Probe) -> list[list[str]]:
    """Return a row of text for each change, a header first."""
    effects = [f"effect, {model}" for model in found.models]
    shown = [
        f"{'accuracy' if found.labelled else 'same answer'}, {model}" for model in found.models
    ]
    return [["change", *effects, *shown], *(_cells(change) for change in found.changes)]


def _cells(change: ChangeEffect) -> list[str]:
    pulls = [_pull(each.pull) for each in change.models.values()]
    rights = [
        f"{percent(e.right.before)} to {percent(e.right.after)}" for e in change.models.values()
    ]
    return [f"{change.name}{' (?)' if change.doubt else ''}", *pulls, *rights]


def _pull(pull: PairedShare) -> str:
    return f"{points(pull.difference)} [{between(pull.interval)}]"


def class_table(found: Probe, change: ChangeEffect) -> list[list[str]]:
    """Return a row of text for each class, a header first: accuracy before and after the change."""
    header = ["class", "images", *(f"{model}, change in points" for model in found.models)]
    columns = [[_right(row.right) for row in each.classes] for each in change.models.values()]
    rows = [
        [row.name, str(row.right.count), *cells]
        for row, *cells in zip(change.first.classes, *columns, strict=True)
    ]
    return [header, *rows]


def _right(share: PairedShare) -> str:
    return (
        f"{percent(share.before)} to {percent(share.after)}: {points(share.difference)} "
        f"[{between(share.interval)}]"
    )


# -- JSON ---------------------------------------------------------------------------------------------


def as_json(found: Probe) -> dict[str, Any]:
    """Return all numbers as nested dictionaries."""
    return {
        "data": found.data,
        "images": found.images,
        "classes": list(found.classes),
        "models": list(found.models),
        "labelled": found.labelled,
        "comparisons": found.comparisons,
        "margin": MARGIN,
        "headline": headline(found),
        "left_out": list(found.left_out),
        "doubt": found.doubt,
        "changes": [_change_json(change) for change in found.changes],
    }


def _change_json(change: ChangeEffect) -> dict[str, Any]:
    gap = change.gap and {"points": change.gap[0], "interval": list(change.gap[1])}
    return {
        "name": change.name,
        "claimed": change.is_claimed,
        "doubt": change.doubt,
        "models": {name: _model_json(effect) for name, effect in change.models.items()},
        "gap": gap,
    }


def _model_json(effect: ModelEffect) -> dict[str, Any]:
    return {
        "effect": _share_json(effect.pull),
        "towards": effect.towards,
        "right": _share_json(effect.right),
        "classes": [
            {
                "name": row.name,
                "right": _share_json(row.right),
                "recognised": row.recognised,
                "taken": row.taken,
                "taken_for": row.taken_for,
            }
            for row in effect.classes
        ],
    }


def _share_json(share: PairedShare) -> dict[str, Any]:
    numbers = {
        "before": share.before,
        "after": share.after,
        "difference": share.difference,
        "low": share.interval[0],
        "high": share.interval[1],
        "p": share.p_value,
    }
    plain = {name: None if value != value else value for name, value in numbers.items()}
    return {"images": share.count, **plain}

"""Write the README of an exported model: what it is, what was measured, what it cannot do."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..runs.intervals import Interval, Intervals
from ..runs.named_models import is_only_ordinary, returns_ordinary

HUB = """\
---
license: {license}
library_name: unspur
pipeline_tag: image-classification
tags:
- debiasing
- pruning
- spurious-correlation
---

"""
INTERVALS = " In brackets: 95 % intervals over the scored images."
REJECTED = (
    "Debiasing was tried and is not worth its cost on these images, so this is the ordinary model."
)
USAGE = """\
```python
import unspur

model = unspur.load(".")  # images (N, C, H, W) in, logits out
```"""


def card(
    about: Mapping[str, Any],
    scores: Mapping[str, Any],
    run: Mapping[str, Any],
    table: list[list[str]],
    files: Mapping[str, str],
    *,
    hub: bool = False,
    license: str = "",
    intervals: Intervals | None = None,
) -> str:
    """Return the text of a README; with `hub` it begins with the front matter that Hugging Face reads.

    `intervals` are known only while the predictions of the run are stored.
    """
    head = HUB.format(license=json.dumps(license)) if license else HUB.format(license="unknown")
    version = about.get("unspur", "")
    parts = [
        f"# {plain(run.get('recipe', 'model'))}",
        _title(run, plain(version), ordinary_result=returns_ordinary(scores)),
        "## Verdict",
        _verdict(scores, run),
        "## Scores",
        _markdown(_score_rows(scores, intervals)),
        f"Measured on: {plain(scores['evaluated_on'])}." + INTERVALS * (intervals is not None),
        "## Cost",
        _markdown(table),
        "## Data and input",
        "\n".join([*_data(about, run), *_masks(scores)]),
        "## Files",
        "\n".join(f"- `{file}`: {what}" for file, what in files.items()),
        USAGE,
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(scores)),
    ]
    return (head if hub else "") + "\n\n".join(parts) + "\n"


def _title(run: Mapping[str, Any], version: str, *, ordinary_result: bool) -> str:
    if run.get("model") == "ordinary":
        return (
            f"An ordinary image classifier trained with unspur {version}: the model before the shortcut was "
            "removed, for comparison."
        )
    if ordinary_result:
        return (
            f"An ordinary image classifier trained with unspur {version}. No shortcut was removed."
        )
    return f"An image classifier from which a shortcut was removed with unspur {version}."


def _verdict(scores: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return the verdict of the audit or, if there was none, of the check of the suspects."""
    if run.get("model") == "ordinary":
        return "This is the ordinary model of a run. The verdict is in the folder of that run."
    found = scores.get("judge") or scores.get("mining")
    if not found:
        return "This run did not search for a shortcut."
    check = scores.get("gain_check")
    return f"{plain(found['text'])} {REJECTED if check and not check['keep'] else ''}".strip()


def _score_rows(scores: Mapping[str, Any], intervals: Intervals | None) -> list[list[str]]:
    known = scores["debiased"]["unbiased"] is not None
    columns = ["unbiased", "aligned", "conflicting", "worst_group"] if known else ["average"]
    rows = [["model", *(c.replace("_", " ") for c in columns)]]
    names = ("ordinary",) if is_only_ordinary(scores) else ("ordinary", "pruned", "debiased")
    for name in names:
        if scores.get(name):
            known_intervals = intervals.accuracy.get(name, {}) if intervals else {}
            cells = (_score(scores[name].get(c), known_intervals.get(c)) for c in columns)
            rows.append([name, *cells])
    return rows


def _score(value: float | None, interval: Interval | None) -> str:
    """Return an accuracy with its interval, as `81.2 % (79.5–82.8)`."""
    if value is None or interval is None:
        return percent(value)
    low, high = (f"{100 * bound:.1f}" for bound in interval)
    return f"{percent(value)} ({low}–{high})"


def _data(about: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[str]:
    shape, about_input = about["input"]["shape"], about["input"]
    classes = about["classes"]
    data = run.get("data", {})
    yield f"- data set: {plain(data.get('name', 'not recorded'))} (digest {plain(data.get('digest', '–'))})"
    more = " ..." if len(classes) > 20 else ""
    yield f"- {len(classes)} classes: {', '.join(map(plain, classes[:20]))}{more}"
    yield f"- input: {shape[0]} × {shape[1]} × {shape[2]}, " + (
        "bytes 0 to 255, divided by 255"
        if about_input["scale"] == 255
        else "floats, as in training"
    )
    if about_input["mean"]:
        mean, deviation = about_input["mean"], about_input["std"]
        yield f"- then normalised by channel: mean {mean}, standard deviation {deviation}"


def _masks(scores: Mapping[str, Any]) -> Iterator[str]:
    if scores.get("pruned"):
        yield f"- masks: {percent(scores['density']['overall'])} of the masked weights remain"


def _limits(scores: Mapping[str, Any]) -> Iterator[str]:
    yield "The model knows only the classes above; every image is assigned to one of them."
    if scores["debiased"]["unbiased"] is None:
        yield (
            "The shortcut was not labelled, so no accuracy here is corrected for it. Suspects are images "
            "that a deliberately biased network gets wrong, not the truth."
        )
    else:
        yield "Accuracy by group is about the shortcut that is labelled in the test data, and no other."
    yield "This method does not find a second shortcut, or one that nearly all training images follow."
    yield "Latency depends on the machine; compare the columns with each other."


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join("| " + " | ".join(map(plain, line)) + " |" for line in lines)


def plain(text: object) -> str:
    """Return text in one line, escaped for Markdown and HTML: names of classes can contain anything."""
    line = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", line)


def percent(value: float | None) -> str:
    """Return a share as a percentage, or a dash for None."""
    return "–" if value is None else f"{100 * value:.1f} %"

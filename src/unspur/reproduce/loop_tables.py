"""Tables and numbers about probes and checks, for their pages.

The records are written by scripts/probe_suite.py and scripts/check_false_alarms.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UnspurError
from ..runs.tables import markdown_table
from ..store import read_document

EXPECTED = {"border": "border", "tint": "colour", "patch": "corners", "light": "light"}
Cases = Sequence[Mapping[str, Any]]


def loop_text(results: Path, name: str) -> str:
    """Return a table or a number from the records of probes and checks, by its name in `TEXTS`."""
    if name not in TEXTS:
        raise UnspurError(
            f"there is no {name!r} among the results of probes and checks. Choose from {', '.join(TEXTS)}."
        )
    file, text = TEXTS[name]
    return text(read_document(results / file))


def planted(document: Mapping[str, Any]) -> Cases:
    """Return the cases with a planted shortcut."""
    return [case for case in document["cases"].values() if not case["clean"]]


def clean(document: Mapping[str, Any]) -> Cases:
    """Return the cases without a shortcut."""
    return [case for case in document["cases"].values() if case["clean"]]


def is_first(case: Mapping[str, Any]) -> bool:
    """Return whether the expected change is ranked first and is significant."""
    right = EXPECTED[case["kind"]]
    return bool(case["ranking"][0] == right and right in case["claims"])


def _right(document: Mapping[str, Any]) -> str:
    cases = planted(document)
    return f"{sum(map(is_first, cases))} of {len(cases)}"


def _ranked(document: Mapping[str, Any]) -> str:
    cases = planted(document)
    return f"{sum(case['ranking'][0] == EXPECTED[case['kind']] for case in cases)} of {len(cases)}"


def _claims(document: Mapping[str, Any]) -> str:
    cases = clean(document)
    return (
        f"{sum(len(case['claims']) for case in cases)} of {sum(len(c['effects']) for c in cases)}"
    )


def _clean_sets(document: Mapping[str, Any]) -> str:
    cases = clean(document)
    return f"{sum(bool(case['claims']) for case in cases)} of {len(cases)}"


def _largest(document: Mapping[str, Any]) -> str:
    """Return the largest effect on a clean set."""
    found = [
        (each["effect"], name, case)
        for case in clean(document)
        for name, each in case["effects"].items()
    ]
    effect, name, case = max(found, key=lambda each: each[0])
    return f"{100 * effect:.1f} points ({name}, {case['base']})"


def _table(document: Mapping[str, Any]) -> str:
    """Return the table of planted cues: the effect of the expected change, and of the next one."""
    rows = []
    groups = dict.fromkeys((case["base"], case["kind"]) for case in planted(document))
    for base, kind in groups:
        cases = [c for c in planted(document) if (c["base"], c["kind"]) == (base, kind)]
        first = sum(map(is_first, cases))
        rows.append(
            [
                base,
                kind,
                EXPECTED[kind],
                _effects(cases),
                _others(cases),
                f"{first} of {len(cases)}",
            ]
        )
    header = [
        "images",
        "planted",
        "expected change",
        "its effect",
        "largest other effect",
        "ranked first and significant",
    ]
    return "\n".join(markdown_table(header, rows))


def _effects(cases: Cases) -> str:
    return ", ".join(f"{100 * c['effects'][EXPECTED[c['kind']]]['effect']:.0f}" for c in cases)


def _others(cases: Cases) -> str:
    """Return the largest effect of another change in each case."""
    texts = []
    for case in cases:
        others = {n: e["effect"] for n, e in case["effects"].items() if n != EXPECTED[case["kind"]]}
        name = max(others, key=others.__getitem__)
        texts.append(f"{100 * others[name]:.0f} ({name})")
    return ", ".join(texts)


# -- checks -------------------------------------------------------------------------------------------


def _alarms(kind: str) -> Callable[[Mapping[str, Any]], str]:
    def text(document: Mapping[str, Any]) -> str:
        checks = document["checks"]
        return f"{checks[kind]} of {checks['clean']}"

    return text


def _model_alarms(document: Mapping[str, Any]) -> str:
    return f"{document['model']['alarms']} of {document['model']['checks']}"


def _controls(name: str) -> Callable[[Mapping[str, Any]], str]:
    def text(document: Mapping[str, Any]) -> str:
        found = document["planted"][name]
        return f"{found['alarms']} of {found['checks']}"

    return text


def _number(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda document: f"{document[name]:,}"


TEXTS: dict[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "probe table": ("probe.json.gz", _table),
    "probe right": ("probe.json.gz", _right),
    "probe ranked": ("probe.json.gz", _ranked),
    "probe claims": ("probe.json.gz", _claims),
    "probe clean sets": ("probe.json.gz", _clean_sets),
    "probe largest": ("probe.json.gz", _largest),
    "check any": ("check.json.gz", _alarms("any")),
    "check shortcut": ("check.json.gz", _alarms("shortcut")),
    "check suspects": ("check.json.gz", _alarms("suspects")),
    "check model": ("check.json.gz", _model_alarms),
    "check colour": ("check.json.gz", _controls("colour")),
    "check wrong labels": ("check.json.gz", _controls("wrong labels")),
    "check images": ("check.json.gz", _number("images")),
    "check size": ("check.json.gz", _number("size")),
    "check audits": ("check.json.gz", lambda document: f"{document['checks']['audits']}"),
    "check steps": ("check.json.gz", _number("steps")),
}

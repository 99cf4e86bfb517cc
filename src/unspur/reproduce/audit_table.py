"""The cases of the audit suite (scripts/audit_suite.py) as a table and as counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..audit import statistics

Case = dict[str, Any]

ROLES = ("development", "unseen")
TRUTHS = ("shortcut", "null", "noise")
FOLLOWED = 0.5  # error of the miner on conflicting images from which it is said to take a shortcut
HEADER = (
    *("role", "truth", "case", "seed", "suspects", "gain", "p", "reliance", "p"),
    *("confident errors", "separation", "p", "taken", "verdict", "right"),
)


def audit_table(cases: Sequence[Case]) -> str:
    """Format every case as a row."""
    rows = [HEADER, *map(_row, cases)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(HEADER) + "|", *lines[1:]])


def audit_page(cases: Sequence[Case]) -> str:
    """Format the table, and below it how many verdicts of each role are right."""
    counts = [
        f"- {role}: " + "; ".join(f"{truth}: {text}" for truth, text in found.items())
        for role, found in summary(cases).items()
    ]
    return "\n".join([audit_table(cases), "", *counts, "", recall_table(cases)]) + "\n"


def recall(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Count the shortcuts found by role, kind and share of conflicting images, with intervals."""
    shortcuts = [case for case in cases if case["truth"] == "shortcut"]
    cells: dict[tuple[str, str, float | None], list[bool]] = {}
    for case in shortcuts:
        for share in (case["share"], None):
            cells.setdefault((case["role"], case["kind"], share), []).append(case["right"])
    return [
        {
            **dict(zip(("role", "kind", "share"), cell, strict=True)),
            "found": sum(right),
            "cases": len(right),
            "interval": statistics.wilson(sum(right), len(right)),
        }
        for cell, right in cells.items()
    ]


def recall_table(cases: Sequence[Case], roles: Sequence[str] = ROLES) -> str:
    """Format how many shortcuts were found: a row per kind, a column per share, and a 95 % interval."""
    found = [each for each in recall(cases) if each["role"] in roles]
    shares = sorted({each["share"] for each in found if each["share"]})
    header = (
        "role",
        "kind",
        *(f"{100 * share:.1f} % conflicting" for share in shares),
        "all",
        "95 % interval",
    )
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for role, kind in dict.fromkeys((each["role"], each["kind"]) for each in found):
        here = {e["share"]: e for e in found if (e["role"], e["kind"]) == (role, kind)}
        cells = [_found(here[share]) if share in here else "–" for share in (*shares, None)]
        low, high = here[None]["interval"]
        interval = f"{100 * low:.0f} to {100 * high:.0f} %"
        lines.append("| " + " | ".join([role, kind, *cells, interval]) + " |")
    return "\n".join(lines)


def _found(cell: dict[str, Any]) -> str:
    return f"{cell['found']} of {cell['cases']}"


def summary(cases: Iterable[Case]) -> dict[str, dict[str, str]]:
    """Count the right verdicts by role and truth, and also for the shortcuts that the miner follows."""
    counts: dict[str, dict[str, str]] = {}
    for role, name, some in _kinds(list(cases)):
        if some:
            right = sum(case["right"] for case in some)
            counts.setdefault(role, {})[name] = f"{right} of {len(some)} right"
    return counts


def _kinds(cases: list[Case]) -> Iterator[tuple[str, str, list[Case]]]:
    for role in ROLES:
        for truth in TRUTHS:
            some = [case for case in cases if (case["role"], case["truth"]) == (role, truth)]
            yield role, truth, some
            if truth == "shortcut":
                taken = [case for case in some if case["taken"] >= FOLLOWED]
                yield role, "shortcut that the miner follows", taken


def _row(case: Case) -> tuple[str, ...]:
    found = case["evidence"]
    cells = (
        *(case[name] for name in ("role", "truth", "name", "seed")),
        *(found["suspects"], *_best(found["networks"], "gain")),
        *(*_best(found["networks"], "reliance"), f"{found['insistence']:.2f}"),
        *_best(found["networks"], "separation"),
        *(f"{case['taken']:.2f}" if "taken" in case else "–", case["verdict"]),
        "yes" if case["right"] else "**no**",
    )
    return tuple(map(str, cells))


def _best(networks: dict[str, Any], what: str) -> tuple[str, str]:
    """Return the value that the verdict uses, with its network, and the corrected p-value."""
    values = {
        name: statistics.Statistic(**seen[what]) for name, seen in networks.items() if seen[what]
    }
    best = statistics.strongest(values)
    return (f"{best[1].value:.2f} {best[0]}", f"{best[1].p_value:.0e}") if best else ("–", "–")

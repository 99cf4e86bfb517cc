"""How many shortcuts an audit suite found, by kind and share of conflicting images."""

from __future__ import annotations

import pytest

from unspur.reproduce.audit_table import recall, recall_table


def case(kind, share, right, role="unseen", truth="shortcut"):
    return {"role": role, "truth": truth, "kind": kind, "share": share, "right": right}


CASES = [
    *(case("patch", 0.01, right) for right in (True, True, False, True)),
    *(case("patch", 0.05, True) for _ in range(4)),
    case("light", 0.05, False),
    case("natural", 0.0, True),
    case("patch", 0.01, False, role="development"),
    case("plain", 0.0, False, truth="null"),
]


def test_recall_is_counted_by_role_kind_and_share():
    found = {(e["role"], e["kind"], e["share"]): e for e in recall(CASES)}
    assert (found["unseen", "patch", 0.01]["found"], found["unseen", "patch", 0.01]["cases"]) == (
        3,
        4,
    )
    assert (found["unseen", "patch", None]["found"], found["unseen", "patch", None]["cases"]) == (
        7,
        8,
    )
    assert found["unseen", "patch", None]["interval"] == pytest.approx((0.529, 0.978), abs=1e-3)
    assert ("unseen", "plain", 0.0) not in found


def test_the_table_has_a_row_for_each_kind():
    lines = recall_table(CASES, ("unseen",)).splitlines()
    assert (
        lines[0] == "| role | kind | 1.0 % conflicting | 5.0 % conflicting | all | 95 % interval |"
    )
    assert lines[2] == "| unseen | patch | 3 of 4 | 4 of 4 | 7 of 8 | 53 to 98 % |"
    assert lines[3] == "| unseen | light | – | 0 of 1 | 0 of 1 | 0 to 79 % |"
    assert lines[4].startswith("| unseen | natural | – | – | 1 of 1 |")
    assert len(lines) == 5

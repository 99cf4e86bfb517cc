"""What a command says about the time of a run before it begins."""

from __future__ import annotations

from unspur.audit.audit_cost import AuditCost
from unspur.cli.run_commands import _if_clean
from unspur.stages.estimate import Estimate
from unspur.workflow import Announcement

STAGES = [Estimate("pretrain", 9, False, 100.0, 0)]
PARTS = {"miner 1/2": 20.0, "miner 2/2": 20.0, "deprived 1/2": 80.0}


def test_the_shortest_time_is_said_only_if_it_is_another_one() -> None:
    usual = Announcement(STAGES, AuditCost(9, 22, PARTS, {}), closing=0.0)
    assert _if_clean(usual) == (
        ", 4 minutes if the audit finds no shortcut, or 2 minutes if it soon sees that there is none"
    )
    stored = Announcement(STAGES, AuditCost(9, 0, {}, {}), closing=0.0)
    assert _if_clean(stored) == ", 100 s if the audit finds no shortcut"


def test_without_an_audit_there_is_no_such_time() -> None:
    assert _if_clean(Announcement(STAGES, None, closing=0.0)) == ""

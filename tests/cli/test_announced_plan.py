"""What a command says about the time of a run before it begins."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from unspur.audit.audit_cost import AuditCost
from unspur.cli import audit_command
from unspur.cli.run_commands import _if_clean
from unspur.stages.estimate import Estimate
from unspur.workflow import Announcement

STAGES = [Estimate("pretrain", 9, False, 100.0, 0)]
PARTS = {"miner 1/2": 20.0, "miner 2/2": 20.0, "deprived 1/2": 80.0}


def test_the_shortest_time_is_said_only_if_it_is_another_one() -> None:
    more = [*STAGES, Estimate("finetune", 9, False, 300.0, 0)]
    usual = Announcement(more, AuditCost(9, 22, PARTS, {}), closing=0.0)
    assert _if_clean(usual) == (
        ", 4 minutes if the audit finds no shortcut, or 2 minutes if it soon sees that there is none"
    )
    stored = Announcement(more, AuditCost(9, 0, {}, {}), closing=0.0)
    assert _if_clean(stored) == ", 100 s if the audit finds no shortcut"
    nothing_more = Announcement(STAGES, AuditCost(9, 0, {}, {}), closing=0.0)
    assert _if_clean(nothing_more) == ""


def test_an_audit_says_if_nothing_has_to_be_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    splits = SimpleNamespace(name="photos", train=range(40), classes=("cat", "dog"))
    context = SimpleNamespace(splits=splits, device="cpu")
    monkeypatch.setattr(audit_command.workflow, "expect_costs", lambda context, parts: None)
    monkeypatch.setattr(audit_command.err, "print", lambda text, **how: said.append(text))
    for trainings in (22, 0):
        cost = AuditCost(9, trainings, PARTS, {})
        monkeypatch.setattr(audit_command, "audit_cost", lambda context, cost=cost: cost)
        audit_command._say_cost(context)  # type: ignore[arg-type]
    assert said[0].startswith(
        "photos: 40 images of 2 classes. At most 22 trainings of 9 steps, usually"
    )
    assert said[1] == "photos: 40 images of 2 classes. All trainings are stored."


def test_without_an_audit_there_is_no_such_time() -> None:
    assert _if_clean(Announcement(STAGES, None, closing=0.0)) == ""

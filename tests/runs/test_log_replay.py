"""Replay the log of a finished run: every logged step reaches the hook."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from unspur.runs.finished import Finished
from unspur.runs.log_replay import replay_log

LOGS: dict[str, list[dict[str, float]]] = {
    "pretrain": [{"step": 2, "loss": 0.5, "seconds": 1.0}, {"step": 4, "loss": 0.25}],
    "evaluate": [],
    "prune": [{"note": 1.0}, {"step": 2, "loss": 3.0}],
}


def test_every_logged_step_reaches_the_hook_in_order() -> None:
    artifacts: dict[str, Any] = {name: SimpleNamespace(log=log) for name, log in LOGS.items()}
    calls: list[object] = []
    replay_log(
        Finished(Path(), {}, {}, {}, "", artifacts, (), Path()), lambda *call: calls.append(call)
    )
    assert calls == [
        ("pretrain", 2, {"loss": 0.5}),
        ("pretrain", 4, {"loss": 0.25}),
        ("prune", 2, {"loss": 3.0}),
    ]

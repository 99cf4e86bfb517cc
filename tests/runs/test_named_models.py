"""The models of a run by name; without a shortcut, the result of a run is its ordinary model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspur.errors import StoreError
from unspur.runs import named_models


@pytest.mark.parametrize(
    ("scores", "name"),
    [
        ({"judge": {"debias": False, "text": "No sign of a shortcut."}}, "ordinary"),
        ({"judge": {"debias": True, "text": "A shortcut is likely."}}, "debiased"),
        ({}, "debiased"),
        (None, "debiased"),
    ],
)
def test_an_ordinary_model_is_not_called_debiased(
    scores: dict[str, object] | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_models, "open_model", lambda *_, **__: "the model")
    if scores is not None:
        (tmp_path / "scores.json").write_text(json.dumps(scores))
    assert named_models.open_models(tmp_path) == {name: "the model"}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (
            "comparison.json",
            r"is a comparison of methods.*: erm, jtt\. Name one .*such as .*/erm\.",
        ),
        ("audit.json", r"is the folder of an audit, which has no model\. Name the folder of a run"),
        ("notes.json", "is not the folder of a run"),
    ],
)
def test_a_folder_without_a_model_says_what_it_is(record: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / record).write_text("{}")
    for name in ("erm", "jtt"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.json").write_text("{}")
    with pytest.raises(StoreError, match=reason):
        named_models.open_models(tmp_path)

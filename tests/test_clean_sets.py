"""Without a shortcut the result is the ordinary model: a small version of scripts/clean_sets.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import unspur
from audits import tinted
from toys import TinyNet, shapes_set
from unspur.data.benchmarks import embedded, planted
from unspur.data.image_sizes import shrink
from unspur.data.splits import Splits
from unspur.recipes import lengths

SETTINGS = {f"{table}.steps": 30 for table in ("pretrain", "prune", "finetune")}


def digits(change: Callable[[planted.Base], Splits]) -> Splits:
    """Return 300 digits of the classes 0 and 1, at 8 pixels."""
    found = embedded.digits()
    base = planted.from_digits(found.train_images, found.train_labels, name="digits")
    two = base.only((base.labels < 2).nonzero().squeeze(1)).some(300, seed=0)
    return shrink(replace(change(two), bias={}), 8)


CLEAN: dict[str, Callable[[], Splits]] = {
    "bars": lambda: shapes_set(samples=160, conflicting=80),
    "bars in any tint": lambda: replace(tinted("null", n=300), bias={}),
    "digits": lambda: digits(planted.plain),
    "digits in any colour": lambda: digits(lambda b: planted.unrelated(b, "colour", seed=0)),
}


@pytest.mark.parametrize("name", CLEAN)
def test_the_result_is_the_ordinary_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lengths, "AUDIT_STEPS", (60, 60))
    splits = CLEAN[name]()
    torch.manual_seed(0)
    network = TinyNet(len(splits.classes))
    how = {"model": network, "device": "cpu", "store": tmp_path}
    done = unspur.debias(splits, settings=SETTINGS, **how)  # type: ignore[arg-type]
    assert done.scores["judge"]["debias"] is False
    assert done.masks == {}
    ordinary = unspur.debias(splits, settings=SETTINGS, method="erm", **how)  # type: ignore[arg-type]
    for key, weights in ordinary.model.state_dict().items():
        assert torch.equal(weights, done.model.state_dict()[key]), key

"""The page of runs from ImageNet weights: gains are paired by seed, in the paper's metric."""

from __future__ import annotations

from typing import Any

from unspur.reproduce.imagenet_item import IMAGENET, PAPER
from unspur.reproduce.item import RecordedRun, Result

SHARES = {"erm": (0.30, 0.40), "dcwp": (0.45, 0.51), "unspur": (0.60, 0.80)}


def _run(kind: str, seed: int, metric: str) -> RecordedRun:
    others = ("unbiased", "aligned", "conflicting", "worst_group")
    share = SHARES[kind][seed]
    bounds = [share - 0.1, share + 0.1]
    run: dict[str, Any] = {
        "seed": seed,
        "selection": {"rule": "last"},
        "debiased": {**dict.fromkeys(others, 0.5), metric: share},
        "density": {"overall": 0.25, "macs": 0.5},
        "extras": {"groups": {"intervals": dict.fromkeys(others, bounds)}},
    }
    return RecordedRun(run, "2026-01-01", "imagenet")


def _drawn() -> str:
    cells = IMAGENET.cells()
    found = {
        (data, kind): Result(each, tuple(_run(kind, seed, PAPER[data][1]) for seed in (0, 1)))
        for (data, kind), each in cells.items()
    }
    return "\n".join(IMAGENET.draw(found).parts)


def _row(text: str, *first: str) -> list[str]:
    rows = [
        [each.strip() for each in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return next(row for row in rows if row[: len(first)] == list(first))


def test_gains_are_paired_by_seed_and_stand_beside_those_of_the_paper() -> None:
    row = _row(_drawn(), "CIFAR10-C 1 %", "DCWP")
    # 45 - 30 = 15 and 51 - 40 = 11: mean 13; published 41.56 - 28.00 = 13.56
    assert row[4:] == ["ImageNet", "unbiased", "45.0, 51.0", "41.6", "15.0, 11.0", "13.6"]


def test_every_set_has_the_metric_of_the_paper_and_no_gain_for_erm() -> None:
    text = _drawn()
    assert _row(text, "faces 1 %", "ERM")[5:] == [
        "conflicting images",
        "30.0, 40.0",
        "52.3",
        "",
        "",
    ]
    ours = _row(text, "CelebA, a part", "unspur")
    assert ours[5:] == ["worst group", "60.0, 80.0", "–", "30.0, 40.0", "–"]


def test_cells_are_four_seeds_of_the_recipes_from_published_weights() -> None:
    cells = IMAGENET.cells()
    assert len(cells) == 9
    for (data, kind), each in cells.items():
        assert each.recipe.name == f"{data}-{kind}-imagenet"
        assert each.recipe.start.pretrained
        assert each.recipe.model.name == "mobilenet_v2"
        assert each.recipe.data.size == 96
        assert len(each.seeds) == 4

"""Stages that are trained at the same time: which they are; their results are those of one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import toys
from unspur import models, stages
from unspur.errors import Interrupted
from unspur.stages import driver
from unspur.stages import estimate as estimating
from unspur.stages.context import Context
from unspur.stages.estimate import estimate
from unspur.stages.stage_groups import SMALL_STEP, group_costs, lanes, stage_groups, threads_of
from unspur.training.inputs import Progress, Training

ALONE = [("mine",), ("pretrain",), ("prune",), ("finetune",)]
GROUPED = [("mine", "pretrain"), ("prune",), ("finetune",)]


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def context(folder: Path, *changes: str) -> Context:
    """Return a small run of the small network."""
    made = toys.context(folder, changes)
    builder = models.builder("convnet", len(made.splits.classes), {"width": 8})
    return replace(made, builder=builder)


def states(results: stages.driver.Results) -> dict[str, torch.Tensor]:
    """Return the tensors of mining and of the ordinary model."""
    return {
        f"{stage} {name}": tensor
        for stage in ("mine", "pretrain")
        for name, tensor in results[stage].tensors.items()
    }


def test_the_miner_and_the_ordinary_model_share_the_threads(
    tmp_path: Path, two_threads: None
) -> None:
    made = context(tmp_path)
    assert stage_groups(made) == GROUPED
    others = [
        toys.context(tmp_path),  # another network
        context(tmp_path, "mine.how=oracle"),
        replace(made, device=torch.device("meta")),
    ]
    assert all(stage_groups(each) == ALONE for each in others)
    torch.set_num_threads(1)
    assert stage_groups(made) == ALONE


def test_a_gpu_trains_the_miner_beside_the_ordinary_model_if_their_steps_are_small(
    tmp_path: Path,
) -> None:
    gpu = torch.device("cuda")
    made = replace(toys.context(tmp_path), device=gpu)  # any network, any number of threads
    assert stage_groups(made) == GROUPED
    assert lanes(made, GROUPED[0]) == 1
    threads = torch.get_num_threads()
    with threads_of(made, GROUPED[0]):
        assert torch.get_num_threads() == threads
    large = SMALL_STEP // made.splits.train.images[0, 0].numel()
    others = [
        replace(made, on_log=lambda stage, step, values: None),
        replace(toys.context(tmp_path, ["mine.how=oracle"]), device=gpu),
        replace(toys.context(tmp_path, [f"pretrain.batch={large}"]), device=gpu),
    ]
    assert all(stage_groups(each) == ALONE for each in others)


def test_the_results_are_those_of_one_thread(
    tmp_path: Path, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = []
    fit_together = driver.fit_together

    def record(trainings: list[Training], **options: object) -> None:
        lanes.append((len(trainings), options["lanes"], torch.get_num_threads()))
        fit_together(trainings, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(driver, "fit_together", record)
    results, _ = stages.run(context(tmp_path / "two"))
    assert lanes[0] == (2, 2, 1)
    assert set(lanes[1:]) <= {(1, 1, 2)}
    assert torch.get_num_threads() == 2
    for stage in ("mine", "pretrain"):
        about = results[stage].about
        assert (about["with"]["threads"], about["beside"]) == ("1", 2)
    again, _ = stages.run(context(tmp_path / "two"))  # warnings of other threads would be errors
    assert toys.same(states(again), states(results))
    torch.set_num_threads(1)
    alone, _ = stages.run(context(tmp_path / "one"))
    assert toys.same(states(alone), states(results))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_stages_side_by_side_on_a_gpu_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = torch.device("cuda")
    together, _ = stages.run(replace(context(tmp_path / "together"), device=gpu))
    assert together["mine"].about["beside"] == 2
    monkeypatch.setattr(driver, "stage_groups", lambda made: ALONE)
    alone, _ = stages.run(replace(context(tmp_path / "alone"), device=gpu))
    assert alone["mine"].about["beside"] == 1
    assert toys.same(states(alone), states(together))


def test_a_tracker_gets_one_stage_after_another(tmp_path: Path, two_threads: None) -> None:
    seen: list[str] = []
    made = replace(context(tmp_path), on_log=lambda stage, step, values: seen.append(stage))
    stages.run(made)
    assert [a for a, b in zip(seen, [*seen[1:], ""], strict=True) if a != b][:2] == [
        "mine",
        "pretrain",
    ]


def test_an_interrupted_group_goes_on_with_the_same_bits(tmp_path: Path, two_threads: None) -> None:
    whole, _ = stages.run(context(tmp_path / "whole"))

    class Stopper:
        def update(self, step: int, steps: int, loss: float) -> None:
            if step > steps / 2:
                raise Interrupted("stopped at half of all steps")

    @contextmanager
    def show(name: str) -> Iterator[Progress | None]:
        assert name == "mine, pretrain"
        yield Stopper()

    with pytest.raises(Interrupted, match=r"mine, pretrain: stopped"):
        stages.run(replace(context(tmp_path / "part"), show=show))
    partial = [path.name.partition("-")[0] for path in (tmp_path / "part").glob("*.partial")]
    assert sorted(partial) == ["mine", "pretrain"]
    resumed, _ = stages.run(replace(context(tmp_path / "part"), show=lambda name: nullcontext()))
    assert toys.same(states(resumed), states(whole))


def test_costs_follow_the_groups(
    tmp_path: Path, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        estimating, "step_seconds", lambda *_, **__: 2.0 if torch.get_num_threads() == 1 else 1.4
    )
    made = context(tmp_path)
    rows = {row.stage: row for row in estimate(stages.Run(made))}
    evaluations = rows["mine"].seconds - 40 * 1.0  # of one step on one thread, two at a time
    assert 0 <= evaluations < 20
    assert rows["prune"].seconds > 1.4 * 20
    costs = group_costs(made, {name: row.seconds for name, row in rows.items()} | {"report": 3.0})
    assert list(costs) == ["mine, pretrain", "prune", "finetune", "report"]
    assert costs["mine, pretrain"] == rows["mine"].seconds + rows["pretrain"].seconds

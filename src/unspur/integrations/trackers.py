"""Hooks that send losses and scores to TensorBoard, Weights & Biases or MLflow while a run trains.

    from unspur import trackers

    with trackers.TensorBoard("runs/tensorboard") as tracker:
        unspur.debias("photos", on_log=tracker)

A tracker is called with a stage, a step and values by name; any function of these three is a hook as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from ..errors import RecipeError
from ..extras import need


class Tracker(ABC):
    """Sends metrics to a tracker; used as a context manager, it closes the tracker at the end."""

    @abstractmethod
    def __call__(self, stage: str, step: int, values: Mapping[str, float], /) -> None:
        """Send the values of one step of a stage."""

    @abstractmethod
    def close(self, *, failed: bool = False) -> None:
        """Send what is still waiting and end the record of the run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(failed=kind is not None)


class TensorBoard(Tracker):
    """Writes one TensorBoard run per stage below a folder."""

    def __init__(self, folder: Path | str):
        need("tensorboard", "track")
        self.folder = Path(folder)
        self.writers: dict[str, Any] = {}

    def __call__(self, stage: str, step: int, values: Mapping[str, float], /) -> None:
        if stage not in self.writers:
            from torch.utils.tensorboard import SummaryWriter

            self.writers[stage] = SummaryWriter(str(self.folder / stage))
        for name, value in values.items():
            self.writers[stage].add_scalar(name, value, step)

    def close(self, *, failed: bool = False) -> None:
        """Close the files of all stages."""
        for writer in self.writers.values():
            writer.close()


class WandB(Tracker):
    """Sends metrics to Weights & Biases, named `pretrain/loss`; `options` go to `wandb.init`."""

    def __init__(self, project: str | None = None, **options: Any):
        self.run = need("wandb", "track").init(project=project, **options)
        self.stages: set[str] = set()

    def __call__(self, stage: str, step: int, values: Mapping[str, float], /) -> None:
        if stage not in self.stages:  # every stage counts its own steps
            self.stages.add(stage)
            self.run.define_metric(f"{stage}/step", hidden=True)
            self.run.define_metric(f"{stage}/*", step_metric=f"{stage}/step")
        self.run.log({f"{stage}/step": step, **_named(stage, values)})

    def close(self, *, failed: bool = False) -> None:
        """End the run of Weights & Biases."""
        self.run.finish(exit_code=int(failed))


class MLflow(Tracker):
    """Sends metrics to a new run of MLflow, named `pretrain/loss`; `options` go to `mlflow.start_run`."""

    def __init__(self, experiment: str | None = None, **options: Any):
        self.mlflow = need("mlflow", "track")
        if experiment is not None:
            options["experiment_id"] = self.mlflow.set_experiment(experiment).experiment_id
        self.run = self.mlflow.start_run(**options)

    def __call__(self, stage: str, step: int, values: Mapping[str, float], /) -> None:
        self.mlflow.log_metrics(_named(stage, values), step=step, run_id=self.run.info.run_id)

    def close(self, *, failed: bool = False) -> None:
        """End the run of MLflow."""
        self.mlflow.end_run("FAILED" if failed else "FINISHED")


def _named(stage: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{stage}/{name}": value for name, value in values.items()}


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
}


def open_tracker(text: str) -> Tracker:
    """Open the tracker that a command line names as `tensorboard:FOLDER` or `wandb:PROJECT`."""
    kind, _, name = text.partition(":")
    if kind not in TRACKERS or not name:
        raise RecipeError(
            f"there is no tracker {text!r}. Give tensorboard:FOLDER, wandb:PROJECT or mlflow:EXPERIMENT."
        )
    try:
        return TRACKERS[kind](name)
    except ModuleNotFoundError as error:
        raise RecipeError(str(error)) from error

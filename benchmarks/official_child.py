"""Run the authors' training in this process, and time its stages from outside.

`run` is called in a new process by official.py. It executes main.py of the authors' folder twice, as their
script for CMNIST does: once to find the suspects, once for everything else. Their methods are wrapped to
measure times. Their files are not changed.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from .official_shims import install, with_list_of_names

NEVER = "1000000000"  # so many steps between evaluations, which are timed on their own


class _DoneError(Exception):
    """Raised to end the first command after its last timed part."""


class StageTimer:
    """Counts the steps of a stage and records when the warm-up ends and when the stage ends.

    `aside` is the time spent on passes over the data between steps, which does not count for a step.
    """

    def __init__(self, warm_up: int):
        self.warm_up = warm_up
        self.rows: list[dict[str, Any]] = []
        self.aside = 0.0
        self.steps = 0
        self.began = 0.0

    def run(self, name: str, stage: Callable[[], Any]) -> Any:
        """Carry out a stage, and add a row with the milliseconds of one of its steps."""
        self.steps, self.aside = 0, 0.0
        result = stage()
        spent = _now() - self.began - self.aside
        timed = self.steps - self.warm_up
        self.add({"stage": name, "steps": timed, "ms": 1000 * spent / timed})
        return result

    def count_step(self) -> None:
        """Count a step at its beginning; the first step after the warm-up starts the clock."""
        if self.steps == self.warm_up:
            self.began, self.aside = _now(), 0.0
        self.steps += 1

    def run_pass(self, name: str, images: int, work: Callable[[], Any]) -> Any:
        """Carry out a pass over the data, and add a row with its seconds per image."""
        began = _now()
        result = work()
        spent = _now() - began
        self.aside += spent
        self.add({"pass": name, "images": images, "seconds": spent})
        return result

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        print(f"[official] {row}", file=sys.stderr, flush=True)


def _now() -> float:
    """Return the time after the device has finished its work."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def run(folder: Path, images: Path, work: Path, record: Path, steps: int) -> None:
    """Run both commands of the authors' script, and write the times to a file as JSON.

    `images` is the folder of data sets, `work` a folder for what their code writes, and `steps` the number of
    steps of every stage, of which the first fifth is a warm-up.
    """
    sys.dont_write_bytecode = True  # leave their folder as it is
    sys.path.insert(0, str(folder))
    changes = install()
    timer = StageTimer(warm_up=steps // 5)
    _wrap(timer)
    for arguments in _commands(images, work, steps):
        _execute(folder / "main.py", arguments)
    record.write_text(json.dumps({"rows": timer.rows, "changes": changes}))


def _execute(script: Path, arguments: list[str]) -> None:
    sys.argv = [str(script), *arguments]
    with contextlib.suppress(_DoneError):
        runpy.run_path(str(script), run_name="__main__")


def _commands(images: Path, work: Path, steps: int) -> list[list[str]]:
    """Return the arguments of both commands: those of the published runs on CMNIST at 1 %, but fewer steps.

    The second command has one step more, because it would take a checkpoint of the same step as its own.
    """
    shared = ["--mode=prune", "--data=cmnist", "--conflict_pct=1", "--seed=55"]
    shared += ["--pseudo_label_method=wrong"]
    shared += [f"--{name}_root_dir={images}" for name in ("train", "val")]
    shared += [f"--{name}_dir={work / name}" for name in ("log", "checkpoint", "result")]
    shared += [f"--{name}={NEVER}" for name in ("eval_every", "eval_every_retrain")]
    mining = ["--optimizer=SGD", "--select_with_GCE", "--lambda_upweight=0"]
    mining += [f"--pretrain_iter={steps}", "--pruning_iter=0", "--retrain_iter=0"]
    rest = ["--optimizer=Adam", "--lambda_upweight=50", "--lr_pre=1e-2", "--lr_main=1e-3"]
    rest += [f"--lr_decay_step_{part}={NEVER}" for part in ("pre", "main")]
    rest += [f"--pretrain_iter={steps + 1}", f"--pruning_iter={steps}", f"--retrain_iter={steps}"]
    return [shared + mining, shared + rest]


def _wrap(timer: StageTimer) -> None:
    """Wrap the methods of the authors' classes that are timed."""
    from data.data_loader import InputFetcher  # type: ignore[import-not-found]
    from training.pruning_solver import PruneSolver  # type: ignore[import-not-found]

    _replace(InputFetcher, "__next__", lambda method: _counting(timer, method))
    _replace(PruneSolver, "train_ERM", lambda method: _pretraining(timer, method))
    _replace(PruneSolver, "train_PRUNE", lambda method: _stage(timer, "prune", method))
    _replace(PruneSolver, "retrain", lambda method: _stage(timer, "finetune", method))
    _replace(PruneSolver, "update_pseudo_label", lambda method: _scoring(timer, method))
    _replace(PruneSolver, "save_wrong_idx", lambda method: _mining(timer, method))


def _replace(owner: type, name: str, wrap: Callable[[Callable[..., Any]], Any]) -> None:
    method = getattr(owner, name)
    setattr(owner, name, wraps(method)(wrap(method)))


def _counting(timer: StageTimer, method: Callable[..., Any]) -> Callable[..., Any]:
    def fetch(self: Any) -> Any:
        timer.count_step()
        return method(self)

    return fetch


def _stage(timer: StageTimer, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def train(self: Any, *args: Any, **more: Any) -> Any:
        return timer.run(name, lambda: method(self, *args, **more))

    return train


def _pretraining(timer: StageTimer, method: Callable[..., Any]) -> Callable[..., Any]:
    """Time pretraining, which both commands begin with, and one validation after it."""

    def train(self: Any, iters: int) -> Any:
        name = "mine" if self.args.select_with_GCE else "pretrain"
        result = timer.run(name, lambda: method(self, iters))
        loader = self.loaders.val
        timer.run_pass("validation", len(loader.dataset), lambda: self.validation(loader))
        return result

    return train


def _scoring(timer: StageTimer, method: Callable[..., Any]) -> Callable[..., Any]:
    def update(self: Any, scores: Any, loader: Any, *args: Any) -> Any:
        work = lambda: method(self, scores, loader, *args)  # noqa: E731
        return timer.run_pass("scores of samples", len(loader.dataset), work)

    return update


def _mining(timer: StageTimer, method: Callable[..., Any]) -> Callable[..., Any]:
    """Time the search for suspects, with which the first command ends."""

    def save(self: Any, loader: Any) -> None:
        batches = (with_list_of_names(batch) for batch in loader)
        timer.run_pass("suspects", len(loader.dataset), lambda: method(self, batches))
        raise _DoneError

    return save

"""Join the other processes of a job that torchrun or another launcher has started, and leave it again."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

from ..errors import Interrupted, TrainingError
from .agreement import any_of
from .launch import is_launched
from .lifeline import Lifeline
from .team import Team, current, working_in

# Long, because processes wait for the first one as long as it works. The lifeline detects dead processes.
WAIT = timedelta(days=7)


@contextmanager
def joined() -> Iterator[Team | None]:
    """Work together with the other processes of the job, if there are any, within the block.

    All processes must execute the same code within the block. If one of them fails or dies, all of them stop.
    """
    if current() is not None or not is_launched():
        yield current()
        return
    team = _join()
    with Lifeline(team.rank, team.size) as lifeline, working_in(team):
        try:
            yield from _wait_for_all(team)
        except BaseException as error:
            atexit.unregister(_leave)  # it could wait for a process that has died
            if (cause := _explain(error, lifeline, team)) is None:
                raise
            raise cause from error


def _wait_for_all(team: Team) -> Iterator[Team]:
    """Yield the team, and wait for all processes at the end, so that all files of the first are written."""
    try:
        yield team
    except SystemExit as end:  # the normal end of a command
        if end.code:
            raise
        any_of(False)
        raise
    any_of(False)


def _explain(error: BaseException, lifeline: Lifeline, team: Team) -> TrainingError | None:
    """Report an error to the other processes, or return their error if it was the cause of this one."""
    if isinstance(error, SystemExit) and not error.code:
        return None
    if _is_broken(error):
        culprit = lifeline.find_culprit()
        return None if culprit is None else TrainingError(culprit)
    lifeline.report(str(error) or type(error).__name__)
    if team.rank and isinstance(error, Exception) and not lifeline.has_first_left():
        _show(error, team)
    return None


def _show(error: Exception, team: Team) -> None:
    """Print the error of a process that is not the first, except the stop by Ctrl-C that all have."""
    if not isinstance(error, Interrupted):
        text = f"process {team.rank} of {team.size}: {type(error).__name__}: {error}"
        print(text, file=sys.stderr, flush=True)


def _is_broken(error: BaseException) -> bool:
    """Return whether an error means that another process has died or disconnected."""
    if isinstance(error, dist.DistError):
        return True
    text = str(error).lower()
    signs = ("connection closed", "connection reset", "broken pipe", "gloo", "nccl", "timed out")
    return isinstance(error, RuntimeError) and any(sign in text for sign in signs)


@cache  # a second group of the same processes could read keys of the first
def _join() -> Team:
    """Connect to the other processes."""
    if not dist.is_initialized():
        with _interruptible():
            dist.init_process_group(_backend(), timeout=WAIT)
        atexit.register(_leave)
    size = dist.get_world_size()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    control = dist.new_group(backend="gloo", timeout=WAIT)
    groups: Any = dist.new_subgroups  # has no type annotations
    node, _ = groups(group_size=here, backend="gloo", timeout=WAIT)
    rank, nccl = dist.get_rank(), "nccl" in dist.get_backend_config()
    return Team(rank, size, control, node, rank % here, node_size=here, can_be_captured=nccl)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end this process at once. Python's handler has to wait until torch has found the others."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is None or before == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _backend() -> str:
    """Return the backend: NCCL between GPUs; gloo on CPUs, or if processes share a GPU."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    has_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= here
    return "cpu:gloo,cuda:nccl" if has_gpus and dist.is_nccl_available() else "gloo"


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()

"""The training loop that all stages and methods use.

A Method defines the losses and the parameters that minimise them, an Order selects the samples of each batch,
and a Source loads the batch. All state of a method is a parameter or a buffer, and all randomness is a
function of (seed, step), so that a run that was killed and resumed gives the same bits as an uninterrupted
one.

`fit_together` runs several trainings at once on one GPU. They advance in lockstep, and each gives the same
result as alone. Inside a step nothing waits for the device. Losses are read once per log interval, at the
line marked "host sync" in `loop_state.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from itertools import chain
from threading import Event
from typing import Any

from ..data.batches import Source
from ..errors import Interrupted
from . import gpu_start
from .capture import capture_steps, one_by_one
from .fit_options import FitOptions
from .inputs import Checkpointer, Progress, Training, Watcher
from .lane_progress import LaneProgress, shared_progress
from .loop_state import Loop
from .method import Method
from .numerics import (
    deterministic,
    isolated_random_stream,
    matmul_precision,
    on_device,
    one_thread,
    stop_on_interrupt,
)
from .sampling import Order
from .stopping import Stopping


def fit(
    method: Method,
    source: Source,
    order: Order,
    options: FitOptions,
    *,
    watchers: Sequence[Watcher] = (),
    checkpointer: Checkpointer | None = None,
    progress: Progress | None = None,
) -> None:
    """Train a method in place for `options.steps` steps, from the checkpointer's checkpoint if it has one."""
    fit_together(
        [Training(method, source, order, options, watchers, checkpointer)], progress=progress
    )


def fit_together(
    trainings: Sequence[Training], *, progress: Progress | None = None, lanes: int = 1
) -> None:
    """Run several trainings, each in place and from its checkpoint if there is one; in parallel if possible.

    On a GPU, trainings with the same options (except lengths, seeds and optimisers) run side by side. On a
    CPU they run one after another, or `lanes` of them at a time with one thread each. With several lanes the
    networks must not draw from torch's global random stream.
    """
    gpu_start.finish()
    loops = [Loop(training) for training in trainings]
    groups: dict[Any, list[Loop]] = {}
    for number, loop in enumerate(loops):
        loop.restore()
        group_number = number if loop.device.type != "cuda" else None
        groups.setdefault((loop.pace, loop.step, loop.device, group_number), []).append(loop)
    finished: list[Loop] = []
    # CUDA graphs cannot be recorded in two threads at the same time.
    in_lanes = lanes > 1 and len(groups) > 1 and all(loop.device.type != "cuda" for loop in loops)
    try:
        with stop_on_interrupt() as stop:
            if in_lanes:
                _run_in_lanes(list(groups.values()), progress, stop, lanes, finished)
            else:
                for group in groups.values():
                    with _numerics(group[0]):
                        _run(group, progress, stop, finished)
    except BaseException:
        for loop in finished:  # keep finished trainings if another one fails
            loop.save()
        raise


@contextmanager
def _numerics(loop: Loop) -> Iterator[None]:
    """Apply the device, precision and determinism of a loop; restore torch's random stream afterwards."""
    options = loop.options
    with (
        on_device(loop.device),
        matmul_precision(options.precision),
        deterministic(options.deterministic, compiles=options.compile),
        isolated_random_stream(loop.device),
    ):
        yield


def _run_in_lanes(
    groups: Sequence[Sequence[Loop]],
    progress: Progress | None,
    stop: Event,
    lanes: int,
    finished: list[Loop],
) -> None:
    """Run groups of loops with equal precision and determinism, `lanes` at a time, each on one thread."""
    shares = _shares(progress, [group[0] for group in groups])
    with _numerics(groups[0][0]), one_thread(), ThreadPoolExecutor(lanes) as pool:
        running = [
            pool.submit(_run, group, share, stop, finished)
            for group, share in zip(groups, shares, strict=True)
        ]
        try:
            for done in as_completed(running):
                done.result()
        except BaseException:
            stop.set()  # the others stop after their next step
            raise
        finally:
            wait(running)


def _shares(progress: Progress | None, loops: Sequence[Loop]) -> list[LaneProgress | None]:
    """Return the progress of each loop as a part of all their steps."""
    return shared_progress(
        progress, [loop.options.steps for loop in loops], [loop.step for loop in loops]
    )


def _run(
    loops: Sequence[Loop], progress: Progress | None, stop: Event, finished: list[Loop]
) -> None:
    """Run loops with equal options in lockstep; the shorter ones finish while the others go on.

    Loops that finish are added to `finished`.
    """
    shares: Sequence[Progress | None] = [progress] * len(loops)
    if len({loop.options.steps for loop in loops}) > 1:
        shares = _shares(progress, loops)
    running = [pair for pair in zip(loops, shares, strict=True) if pair[0].steps_left]
    while running:
        _advance(running, stop)
        finished += [loop for loop, _ in running if not loop.steps_left]
        running = [pair for pair in running if pair[0].steps_left]


def _advance(running: Sequence[tuple[Loop, Progress | None]], stop: Event) -> None:
    """Advance loops in lockstep until the shortest is finished."""
    loops = [loop for loop, _ in running]
    count = min(loop.steps_left for loop in loops)
    feeds = zip(*(loop.feed(count) for loop in loops), strict=True)
    first, began = next(feeds), time.perf_counter()
    advance = capture_steps(loops, first) if loops[0].options.capture else one_by_one(loops)
    for loop in loops:
        loop.ready(time.perf_counter() - began)
    longest = max(loops, key=lambda loop: loop.steps_left)
    stopping = Stopping(stop, longest.options, longest.team, longest.step)
    for inputs in chain([first], feeds):
        for loop in loops:
            loop.set_rate()
        advance(inputs)
        for loop, share in running:
            loop.finish_step(share)
        saves, stops = stopping.decide(longest.step)
        if saves:
            for loop in loops:
                loop.save()
        if stops:
            raise _interruption(longest)


def _interruption(loop: Loop) -> Interrupted:
    advice = "Run the same command again to continue" + (
        " from here." if loop.checkpointer else "."
    )
    return Interrupted(f"stopped at step {loop.step} of {loop.options.steps}. {advice}")

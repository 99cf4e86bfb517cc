"""The one training loop.

A Method says what is minimised and by which parameters; an Order says who is in a batch; a Source makes
the batch. `fit` knows nothing else. All state of a method is a parameter or a buffer, all randomness is a
function of (seed, step): a run that was killed and started again gives the bits of an undisturbed one.

Several trainings can go on at once on one GPU (`fit_together`): they advance in lockstep, each as it would
alone. Inside a step nothing waits for the device. Losses are read once per log interval, at the marked line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from itertools import chain
from threading import Event
from typing import Any

from ..data.batches import Source
from ..errors import Interrupted
from .capture import capture_steps, one_by_one
from .fit_options import FitOptions
from .inputs import Checkpointer, Progress, Training, Watcher
from .lane_progress import shared_progress
from .loop_state import Loop
from .method import Method
from .numerics import (
    deterministic,
    isolated_random_stream,
    matmul_precision,
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
    """Train a method in place for `options.steps` steps, going on from the checkpointer's checkpoint."""
    fit_together(
        [Training(method, source, order, options, watchers, checkpointer)], progress=progress
    )


def fit_together(
    trainings: Sequence[Training], *, progress: Progress | None = None, lanes: int = 1
) -> None:
    """Do several trainings, each in place and from its checkpointer's checkpoint, as many at once as can be.

    On a GPU those with the same options (but for seeds and learning rates) run side by side. On a CPU they
    run one after another, or `lanes` of them at a time with a thread each. Networks in lanes must draw
    nothing from torch's global random stream.
    """
    loops = [Loop(training) for training in trainings]
    groups: dict[Any, list[Loop]] = {}
    for number, loop in enumerate(loops):
        loop.restore()
        group_number = number if loop.device.type != "cuda" else None
        groups.setdefault((loop.pace, loop.step, loop.device, group_number), []).append(loop)
    finished: list[Loop] = []
    try:
        with stop_on_interrupt() as stop:
            if lanes > 1 and len(groups) > 1:
                _run_in_lanes(list(groups.values()), progress, stop, lanes, finished)
            else:
                for group in groups.values():
                    with _numerics(group[0]):
                        _run(group, progress, stop)
                    finished += group
    except BaseException:
        for loop in finished:  # what is done is not lost with what is not
            loop.save()
        raise


@contextmanager
def _numerics(loop: Loop) -> Iterator[None]:
    """Compute as the options of a loop say, and leave torch's global random stream as it was."""
    options = loop.options
    with (
        matmul_precision(options.precision),
        deterministic(options.deterministic),
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
    """Advance groups of loops of equal numerics to their end, some at a time, each on one thread."""
    shares = shared_progress(progress, [group[0].options.steps for group in groups])
    with _numerics(groups[0][0]), one_thread(), ThreadPoolExecutor(lanes) as pool:
        running = {
            pool.submit(_run, group, share, stop): group
            for group, share in zip(groups, shares, strict=True)
        }
        try:
            for done in as_completed(running):
                done.result()
        except BaseException:
            stop.set()  # the others end after their next step
            raise
        finally:
            wait(running)
            finished += [
                loop for done, group in running.items() if _is_whole(done) for loop in group
            ]


def _is_whole(done: Future[None]) -> bool:
    """Return whether a training came to its end."""
    return not done.cancelled() and done.exception() is None


def _run(loops: Sequence[Loop], progress: Progress | None, stop: Event) -> None:
    """Advance loops of one pace, in lockstep, to their end."""
    feeds = zip(*(loop.feed() for loop in loops), strict=True)
    if (first := next(feeds, None)) is None:
        return
    began = time.perf_counter()
    advance = capture_steps(loops, first) if loops[0].options.capture else one_by_one(loops)
    for loop in loops:
        loop.ready(time.perf_counter() - began)
    stopping = Stopping(stop, loops[0].options, loops[0].team, loops[0].step)
    for inputs in chain([first], feeds):
        for loop in loops:
            loop.set_rate()
        advance(inputs)
        for loop in loops:
            loop.finish_step(progress)
        saves, stops = stopping.decide(loops[0].step)
        if saves:
            for loop in loops:
                loop.save()
        if stops:
            raise _interruption(loops[-1])


def _interruption(loop: Loop) -> Interrupted:
    advice = "Give the same command again to go on from here." if loop.checkpointer else ""
    return Interrupted(f"stopped at step {loop.step} of {loop.options.steps}. {advice}")

"""The one training loop.

A Method says what is minimised and by which parameters; an Order says who is in a batch; a Source makes
the batch. `fit` knows nothing else. All state of a method is a parameter or a buffer, all randomness is a
function of (seed, step): a run that was killed and started again gives the bits of an undisturbed one.

Several trainings can go on at once on one GPU (`fit_together`): they advance in lockstep, each as it would
alone. Inside a step nothing waits for the device. Losses are read once per log interval, at the marked line.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ..data.batches import Source
from ..errors import Interrupted
from .capture import capture_steps, one_by_one
from .fit_options import FitOptions
from .inputs import Checkpointer, Progress, Training, Watcher
from .loop_state import Loop
from .method import Method
from .numerics import deterministic, isolated_random_stream, matmul_precision, stop_on_interrupt
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


def fit_together(trainings: Sequence[Training], *, progress: Progress | None = None) -> None:
    """Do several trainings, each in place and from its checkpointer's checkpoint, as many at once as can be.

    On a GPU those with the same options (but for seeds and learning rates) run side by side; on a CPU, which
    one training keeps busy, they run one after another.
    """
    loops = [Loop(training) for training in trainings]
    groups: dict[Any, list[Loop]] = {}
    for number, loop in enumerate(loops):
        loop.restore()
        group_number = number if loop.device.type != "cuda" else None
        groups.setdefault((loop.pace, loop.step, loop.device, group_number), []).append(loop)
    finished: list[Loop] = []
    try:
        for group in groups.values():
            _run(group, progress)
            finished += group
    except BaseException:
        for loop in finished:  # what is done is not lost with what is not
            loop.save()
        raise


def _run(loops: Sequence[Loop], progress: Progress | None) -> None:
    """Advance loops of one pace, in lockstep, to their end."""
    options, device = loops[0].options, loops[0].device
    with (
        matmul_precision(options.precision),
        deterministic(options.deterministic),
        isolated_random_stream(device),
        stop_on_interrupt() as stop,
    ):
        feeds = zip(*(loop.feed() for loop in loops), strict=True)
        if (first := next(feeds, None)) is None:
            return
        began = time.perf_counter()
        advance = capture_steps(loops, first) if options.capture else one_by_one(loops)
        for loop in loops:
            loop.ready(time.perf_counter() - began)
        stopping = Stopping(stop, options, loops[0].team, loops[0].step)
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

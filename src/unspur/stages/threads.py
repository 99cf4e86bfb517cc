"""How many threads a training on the CPU uses: as asked for, or fewer where the machine is busy.

Threads of one operation wait for each other. Where other programs have the cores, two threads can be many
times slower than one.
"""

from __future__ import annotations

import os
import time

import torch
from torch import nn

BUSY = 0.5  # of the cores in use by other programs, from which on a trial decides
TRIALS, STEPS = 3, 4  # trials of each number of threads, and steps of a trial
CLEARLY = 0.9  # of the time with all threads, below which one thread is chosen


def choose_threads(asked: int | None = None) -> int:
    """Set and return the number of threads: as asked, as the environment says, or one if it is faster."""
    if asked:
        torch.set_num_threads(asked)
    elif torch.get_num_threads() > 1 and "OMP_NUM_THREADS" not in os.environ and is_busy():
        usual = torch.get_num_threads()
        torch.set_num_threads(1 if is_faster_alone(usual) else usual)
    return torch.get_num_threads()


def is_busy() -> bool:
    """Return whether other programs keep much of the machine busy, by the load of the last minute."""
    try:
        return os.getloadavg()[0] >= BUSY * (os.cpu_count() or 1)
    except OSError:  # not every system says so
        return False


def is_faster_alone(threads: int) -> bool:
    """Return whether one thread clearly beats several on steps of a small network, in turns."""
    seconds = {1: 0.0, threads: 0.0}
    for _ in range(TRIALS):
        for count in seconds:
            torch.set_num_threads(count)
            seconds[count] += _trial_seconds()
    return seconds[1] < CLEARLY * seconds[threads]


def _trial_seconds() -> float:
    """Return the seconds of a few steps of a small convolutional network."""
    with torch.random.fork_rng(devices=[]):
        model = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2))
        images = torch.rand(32, 3, 32, 32)
    model(images).mean().backward()
    began = time.perf_counter()
    for _ in range(STEPS):
        model(images).mean().backward()
    return time.perf_counter() - began

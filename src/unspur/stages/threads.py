"""Choose the number of threads for training on the CPU: as requested, or fewer if the machine is busy.

Threads of one operation wait for each other. If other programs use the cores, two threads can be many times
slower than one.
"""

from __future__ import annotations

import os
import time

import torch
from torch import nn

BUSY = 0.5  # share of cores used by other programs above which a trial decides
TRIALS, STEPS = 3, 4  # trials of each number of threads, and steps of a trial
CLEARLY_FASTER = 0.9  # one thread is chosen if its time is below this share


def choose_threads(requested: int | None = None) -> int:
    """Set and return the number of threads: `requested`, from the environment, or one if that is faster."""
    if requested:
        torch.set_num_threads(requested)
    elif torch.get_num_threads() > 1 and "OMP_NUM_THREADS" not in os.environ and is_busy():
        usual = torch.get_num_threads()
        torch.set_num_threads(1 if is_faster_alone(usual) else usual)
    return torch.get_num_threads()


def is_busy() -> bool:
    """Return whether the load of the last minute is high."""
    try:
        return os.getloadavg()[0] >= BUSY * (os.cpu_count() or 1)
    except OSError:  # not available on every system
        return False


def is_faster_alone(threads: int) -> bool:
    """Return whether one thread is clearly faster than several for steps of a small network."""
    seconds = {1: 0.0, threads: 0.0}
    for _ in range(TRIALS):
        for count in seconds:
            torch.set_num_threads(count)
            seconds[count] += _trial_seconds()
    return seconds[1] < CLEARLY_FASTER * seconds[threads]


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

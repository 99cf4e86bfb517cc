"""Load the libraries of a GPU in the background, while data are read and keys are computed.

The first convolution of a process loads hundreds of megabytes of kernels. A background thread carries it out
on a few zeros. It draws no random numbers and changes no settings.
"""

from __future__ import annotations

import contextlib
from threading import Thread

import torch
from torch.nn import functional as F

_started: dict[torch.device, Thread] = {}


def start(device: torch.device) -> None:
    """Begin to load the libraries of a GPU; later calls, and calls for a CPU, do nothing."""
    if device.type == "cuda" and device not in _started:
        _started[device] = Thread(target=_first_step, args=(device,), name="load GPU libraries")
        _started[device].start()


def finish() -> None:
    """Wait until the libraries are loaded, because a step cannot be recorded meanwhile."""
    for thread in _started.values():
        thread.join()


def _first_step(device: torch.device) -> None:
    """Run forward and backward passes of a layer; a problem is left to the training to report."""
    with contextlib.suppress(Exception), torch.cuda.device(device):
        for dtype in (torch.float32, torch.bfloat16):
            _convolve(device, dtype)
        torch.cuda.synchronize(device)


def _convolve(device: torch.device, dtype: torch.dtype) -> None:
    x = torch.zeros(8, 3, 32, 32, device=device, dtype=dtype)
    kernel = torch.zeros(8, 3, 4, 4, device=device, dtype=dtype, requires_grad=True)
    x, weight = (t.to(memory_format=torch.channels_last) for t in (x, kernel))
    maps = F.batch_norm(F.conv2d(x, weight, stride=2, padding=1), None, None, training=True)
    F.relu(maps).mean().backward()  # type: ignore[no-untyped-call]

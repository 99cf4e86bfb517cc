"""Compile the GPU kernels of masks in the background, while another stage is trained."""

from __future__ import annotations

import contextlib
from functools import cache
from threading import Thread
from typing import Literal

import torch

from . import layers

Use = Literal["logit", "probability", "drop"]  # learned masks by their noise, or dropout of weights


@cache
def compile_ahead(device: torch.device, use: Use) -> Thread | None:
    """Begin to compile the kernels for a use of masks, once per process; return the thread that does it.

    Returns None if there are no kernels for the device. If compiling fails, the training that needs the
    kernels compiles them again and raises the error.
    """
    if device.type != "cuda" or layers.kernels is None:
        return None
    thread = Thread(target=_compile, args=(device, use), name="compile mask kernels")
    thread.start()
    return thread


def _compile(device: torch.device, use: Use) -> None:
    with contextlib.suppress(Exception), torch.cuda.device(device):
        assert layers.kernels is not None
        layers.kernels.compile_for(use)

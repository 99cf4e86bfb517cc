"""The surroundings a step runs in: precision, determinism, a polite answer to Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar, cast

import torch

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Precision = Literal["fp32", "tf32", "bf16"]


def autocast(device: torch.device, precision: Precision) -> contextlib.AbstractContextManager[Any]:
    """Forward passes in bf16 where asked for."""
    if precision == "bf16":
        # No cache of cast weights: a captured step must cast them anew.
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    return contextlib.nullcontext()


@contextlib.contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """TF32 products and convolutions on a GPU unless plain fp32 is asked for."""
    allow = precision != "fp32"
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@contextlib.contextmanager
def deterministic(on: bool) -> Iterator[None]:
    """Only operations that give the same bits every time; torch's settings are put back after."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    if on:  # cuBLAS reads it when first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(on, warn_only=True)
    memory.fill_uninitialized_memory = False  # slow, and nothing here reads such memory
    torch.backends.cudnn.benchmark = not on
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=warned)
        memory.fill_uninitialized_memory = filled
        torch.backends.cudnn.benchmark = before[1]


def compiled(function: FunctionT, on: bool) -> FunctionT:
    """The function fused by torch.compile where asked for; shapes are fixed."""
    if not on:
        return function
    # A run is told apart by its tensors, so each makes an entry for the same code: sixteen and more.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 256)
    return cast(FunctionT, torch.compile(function, dynamic=False))


def own_stream(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Leave torch's global random stream as it was."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextlib.contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Set when the user presses Ctrl-C, so that training ends between two steps; twice ends at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.signal(signal.SIGINT, before)
            raise KeyboardInterrupt
        asked.set()

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)

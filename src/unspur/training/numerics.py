"""Settings of the process during training: precision, determinism, threads, handling of Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar, cast

import torch

from ..parallel import process_count

SAME_SIGNAL = 3.0  # seconds within which a second signal is ignored if there are several processes
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Precision = Literal["fp32", "tf32", "bf16"]


def autocast(device: torch.device, precision: Precision) -> contextlib.AbstractContextManager[Any]:
    """Run forward passes in bf16 if `precision` is "bf16"."""
    if precision == "bf16":
        # No cache of cast weights: a captured step must cast them again.
        return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    return contextlib.nullcontext()


@contextlib.contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Allow TF32 products and convolutions on a GPU unless `precision` is "fp32"."""
    allow = precision != "fp32"
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@contextlib.contextmanager
def deterministic(on: bool, *, compiles: bool = False) -> Iterator[None]:
    """Allow only deterministic operations if `on`, in compiled code too if `compiles`.

    torch's settings are restored afterwards.
    """
    before = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    if on:  # cuBLAS reads it when first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    fill = memory.fill_uninitialized_memory
    if compiles:  # this function imports torch's compiler, which takes a second
        torch.use_deterministic_algorithms(on, warn_only=True)
    torch.set_deterministic_debug_mode("warn" if on else "default")
    memory.fill_uninitialized_memory = False  # slow, and nothing here reads such memory
    torch.backends.cudnn.benchmark = not on
    try:
        yield
    finally:
        if compiles:
            torch.use_deterministic_algorithms(before[0] != 0)
        torch.set_deterministic_debug_mode(before[0])
        memory.fill_uninitialized_memory = fill
        torch.backends.cudnn.benchmark = before[1]


def compile_if(function: FunctionT, on: bool) -> FunctionT:
    """Compile the function with torch.compile if `on`; shapes are fixed."""
    if not on:
        return function
    # Each run has its own tensors and compiles the same code again; sixteen runs or more are usual.
    config: Any = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # 2.6
    setattr(config, limit, max(getattr(config, limit), 256))
    return cast(FunctionT, torch.compile(function, dynamic=False))


def on_device(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make a GPU the current one: CUDA graphs are recorded there, and kernels of Triton run there."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def isolated_random_stream(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Restore torch's global random stream after the block."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in every operation, also in threads that start inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Set an event at Ctrl-C, so that training stops after the current step; a second Ctrl-C stops at once.

    A launcher of several processes may forward the signal, so repeated signals within SAME_SIGNAL seconds
    count as one.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.getsignal(signal.SIGINT)
    window = SAME_SIGNAL if process_count() > 1 else 0.0
    began = 0.0

    def on_signal(number: int, frame: Any) -> None:
        nonlocal began
        if stop.is_set():
            if time.monotonic() - began < window:
                return
            signal.signal(signal.SIGINT, before)
            raise KeyboardInterrupt
        began = time.monotonic()
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)

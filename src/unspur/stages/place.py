"""The place of a run: the device, the store of results, and how progress is shown."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import RecipeError
from ..parallel import any_of, broadcast_first, current, from_first, is_first
from ..store import Store, default_store, open_store
from ..training import gpu_start
from .context import Show
from .log_hook import LogHook, tolerant
from .threads import choose_threads


@dataclass(frozen=True)
class Place:
    """The device, the store of results, and how progress is shown."""

    device: torch.device
    store: Store
    show: Show
    on_log: LogHook | None = None


def pick_device(name: str | None = None) -> torch.device:
    """Return the named device; without a name a GPU if there is one, otherwise the CPU."""
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and (team := current()) is not None:
        name = f"cuda:{team.node_rank % max(1, torch.cuda.device_count())}"
    try:
        device = torch.device(name)
    except RuntimeError:
        hint = " A GPU is called cuda." if name.startswith("gpu") else ""
        raise RecipeError(
            f"there is no device {name!r}.{hint} Choose cpu, cuda, cuda:1 ..."
        ) from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise RecipeError(
            f"the device {name!r} cannot be used here ({reason}). Choose cpu, cuda, cuda:1 ..."
        ) from None
    if device.index is not None and current() is not None:
        torch.cuda.set_device(device)  # for communication with other processes
    return device


def find_place(
    device: str | None, store: Path | str | None, show: Show, on_log: LogHook | None = None
) -> Place:
    """Return the place for the options of a command.

    Only the first process shows progress and calls `on_log`.
    """
    opened, chosen = open_store(store or default_store()), pick_device(device)
    gpu_start.start(chosen)
    return Place(chosen, opened, _once(show), _log_once(on_log))


def _once(show: Show) -> Show:
    """Show progress in the first process only."""
    return show if is_first() else lambda name: nullcontext()


def _log_once(on_log: LogHook | None) -> LogHook | None:
    """Call a hook in the first process alone, and never let it stop a training."""
    return tolerant(on_log) if on_log is not None and is_first() else None


def command_place(
    device: str | None,
    store: Path | str | None,
    show: Show,
    threads: int | None = None,
    on_log: LogHook | None = None,
) -> Place:
    """Return the place for the options of a command, and set the number of threads.

    With several processes, the first one chooses the number of threads for all.
    """
    place = find_place(device, store, show, on_log)
    if place.device.type == "cpu" or threads:
        choose_threads(threads or from_first(choose_threads))
    return place


@contextmanager
def temporary_place(
    device: str | None, show: Show, on_log: LogHook | None = None
) -> Iterator[Place]:
    """Return a place with a temporary store, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="unspur-") as folder:
        store = Store(Path(broadcast_first(folder)))
        yield Place(pick_device(device), store, _once(show), _log_once(on_log))
        any_of(False)  # wait until all processes have read from it

"""Run tasks on a Ray cluster: on an existing one, or on a new one on this machine.

A task whose worker dies is given to another worker. A task that raises an unspur error has failed; the
others continue.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnspurError, UsageError
from ..extras import need
from .pool import PoolState, TaskFailure

LOCAL = "local"  # address of a cluster on this machine, which ends with the command
RETRIES = 3  # how often a task whose worker died is tried again
ANSWER = 10.0  # seconds within which a cluster must answer
EVERY = 2.0  # seconds between two progress reports
OBJECT_STORE = 100 * 2**20  # bytes of a local cluster's object store: results are small


@dataclass(frozen=True)
class RayPool:
    """Runs tasks on a Ray cluster. Each task needs `cpus` and `gpus`, which may be fractions.

    `show` is called with the progress every few seconds.
    """

    address: str = LOCAL
    cpus: float = 1.0
    gpus: float = 0.0
    show: Callable[[PoolState], None] = field(default=lambda state: None, repr=False)

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any | TaskFailure]]:
        if not tasks:
            return
        with self._connect() as ray:
            call = ray.remote(_call).options(
                num_cpus=self.cpus,
                num_gpus=self.gpus,
                max_retries=RETRIES,
                name=getattr(function, "__name__", "task"),
            )
            threads, folder = max(1, int(self.cpus)), os.getcwd()
            waiting = {
                call.remote(threads, folder, function, arguments): number
                for number, arguments in enumerate(tasks)
            }
            yield from self._collect(ray, waiting)

    def _collect(
        self, ray: Any, waiting: dict[Any, int]
    ) -> Iterator[tuple[int, Any | TaskFailure]]:
        """Yield results as they arrive, and show the progress."""
        counts = {"done": 0, "failed": 0}
        began, slots = time.monotonic(), self._slots(ray)
        self.show(_state(waiting, counts, slots, began))
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=EVERY)
            for each in ready:
                number, result = waiting.pop(each), _result(ray, each)
                counts["failed" if isinstance(result, TaskFailure) else "done"] += 1
                yield number, result
            self.show(_state(waiting, counts, self._slots(ray), began))

    @contextlib.contextmanager
    def _connect(self) -> Iterator[Any]:
        """Connect to the cluster, or start one on this machine; disconnect afterwards."""
        try:
            ray = need("ray", extra="ray")
        except ModuleNotFoundError as error:
            raise UsageError(str(error)) from None
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self.address == LOCAL:
            # Ray would otherwise send usage statistics over the network.
            os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
            options |= {"object_store_memory": OBJECT_STORE, "include_dashboard": False}
            options["_node_ip_address"] = "127.0.0.1"  # no other machine can reach it
        try:
            _check_answers(self.address)
            ray.init(address=self.address, **options)
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UsageError(
                f"no Ray cluster answers at {self.address} ({reason}). Start one with "
                "`ray start --head`, or leave the address out for a cluster on this machine."
            ) from None
        try:
            if self.address == LOCAL and not self._slots(ray):
                raise UsageError(
                    f"a group of runs needs {self.cpus:g} CPUs and {self.gpus:g} GPUs, and this machine has "
                    "fewer. Choose a smaller --cpus-per-group or --gpus-per-group."
                )
            yield ray
        finally:
            ray.shutdown()

    def _slots(self, ray: Any) -> int:
        """Return how many tasks the cluster can run at the same time."""
        resources = ray.cluster_resources()
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        return min(int(resources.get(name, 0) / share) for name, share in needs.items() if share)


def _check_answers(address: str) -> None:
    """Raise OSError if nothing answers at an address; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=ANSWER).close()


def _call(
    threads: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    """Run a task in a worker, with one thread per CPU, in the working folder of the command."""
    with contextlib.suppress(OSError):  # a machine that does not have the folder
        os.chdir(folder)
    import torch  # here, so that the command line starts without it

    torch.set_num_threads(threads)
    try:
        return function(*arguments)
    except UnspurError as error:
        return TaskFailure(f"{type(error).__name__}: {error}")


def _result(ray: Any, reference: Any) -> Any | TaskFailure:
    """Return the result of a task, or why it failed after all retries."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        return TaskFailure(f"{type(error).__name__}: {lines[-1] if lines else 'no reason given'}")


def _state(waiting: dict[Any, int], counts: dict[str, int], slots: int, began: float) -> PoolState:
    """Return the progress. The remaining time is extrapolated from the finished tasks."""
    finished, left = sum(counts.values()), len(waiting)
    running = min(left, slots)
    seconds = (time.monotonic() - began) / finished * left if finished else None
    return PoolState(running, left - running, counts["done"], counts["failed"], seconds)

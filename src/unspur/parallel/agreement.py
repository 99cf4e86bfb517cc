"""Exchange Python objects between processes: a result of the first, a decision of all, an object of each.

Torch is imported only if there are other processes: the store uses these functions, and commands that list
its content should start without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UnspurError
from .team import Team, current

if TYPE_CHECKING:
    import torch.distributed as dist

T = TypeVar("T")


def from_first(work: Callable[[], T]) -> T:
    """Call `work` in the first process only, and return its result, or raise its error, in all processes."""
    team = current()
    if team is None:
        return work()
    outcome = attempt(work) if team.rank == 0 else (None, None)
    value, error = broadcast(sendable(outcome), team.control)
    if team.rank == 0:
        value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


def only_first(work: Callable[[], T]) -> T | None:
    """Call `work` in the first process only, and return None in the others; raise its error in all."""
    results: list[T] = []
    from_first(lambda: results.append(work()))
    return results[0] if results else None


def attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Call `work`; return its result and None, or None and the exception."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def sendable(outcome: tuple[Any, Exception | None]) -> tuple[Any, Exception | None]:
    """Replace a foreign exception, which may not be picklable, by a RuntimeError with its text."""
    value, error = outcome
    if error is None or isinstance(error, UnspurError):
        return outcome
    return value, RuntimeError(f"{type(error).__name__}: {error}")


def broadcast(value: T, group: dist.ProcessGroup) -> T:
    """Return the value of a group's first process, in all processes of the group."""
    import torch.distributed as dist

    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0), group=group)
    return box[0]  # type: ignore[no-any-return]


def broadcast_first(value: T) -> T:
    """Return the first process's value, in all processes."""
    team = current()
    return value if team is None else broadcast(value, team.control)


def any_of(flag: bool) -> bool:
    """Return whether a flag is set in any process."""
    team = current()
    return flag if team is None else bool(largest([float(flag)], team)[0])


def largest(numbers: Sequence[float], team: Team) -> list[float]:
    """Return the maximum of each number over all processes."""
    import torch
    import torch.distributed as dist

    found = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX, group=team.control)
    return found.tolist()


def gather_objects(value: T, team: Team) -> list[T]:
    """Return the value of every process, by rank."""
    import torch.distributed as dist

    found: list[Any] = [None] * team.size
    dist.all_gather_object(found, value, group=team.control)
    return found

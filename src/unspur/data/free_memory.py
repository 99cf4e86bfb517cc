"""How much memory this process may still use: that of the machine, or less in a container or a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")  # where Linux describes the limits of groups of processes
OWN_GROUPS = Path("/proc/self/cgroup")  # the groups of this process
# The files with limit and use in the two versions of control groups, and the beginning of what is counted in
# all groups below.
FILES = {
    2: ("memory.max", "memory.current", ""),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
}
CACHED = (
    "active_file",
    "inactive_file",
)  # copies of files, which the system gives back when needed


def free_memory() -> int:
    """Return the free memory in bytes; 4 GiB if the system does not say."""
    return min([_of_machine(), *_of_groups()])


def _of_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as facts:
            for line in facts:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return 4 * 2**30


def _of_groups() -> Iterator[int]:
    """Yield what every group with a limit has left that this process belongs to, the outer groups too."""
    try:
        lines = OWN_GROUPS.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for number, kinds, name in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if number != "0" and "memory" not in kinds.split(","):
            continue
        version, root = (2, GROUPS) if number == "0" else (1, GROUPS / "memory")
        own = root / name.lstrip("/")
        # Within a container the group's own folder may be the root of what is visible.
        for folder in (own, *own.parents):
            if folder.is_relative_to(root) and (left := _left(folder, version)) is not None:
                yield left


def _left(folder: Path, version: int) -> int | None:
    """Return what a group has left of its limit; None if it has none."""
    limit, use, total = FILES[version]
    try:
        most, used = int((folder / limit).read_text()), int((folder / use).read_text())
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, most - used + sum(int(facts[total + name]) for name in CACHED))
    except (OSError, ValueError, KeyError):  # no such group, or the limit is "max"
        return None

"""One training over several processes: which take part, the rows of each, what they exchange.

May import: errors, lazy.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .agreement import any_of, broadcast_first, from_first, only_first
    from .joining import joined
    from .launch import is_launched, launched_rank
    from .local_sharing import open_once
    from .passes import own_share, shared_pass
    from .sharding import gather_batch, gather_features, own_rows, sharded_step
    from .team import alone, current, is_first, process_count, processes_here
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "agreement": "any_of broadcast_first from_first only_first",
            "joining": "joined",
            "launch": "is_launched launched_rank",
            "local_sharing": "open_once",
            "passes": "own_share shared_pass",
            "sharding": "gather_batch gather_features own_rows sharded_step",
            "team": "alone current is_first process_count processes_here",
        },
    )

__all__ = [
    "alone",
    "any_of",
    "broadcast_first",
    "current",
    "from_first",
    "gather_batch",
    "gather_features",
    "is_first",
    "is_launched",
    "joined",
    "launched_rank",
    "only_first",
    "open_once",
    "own_rows",
    "own_share",
    "process_count",
    "processes_here",
    "sharded_step",
    "shared_pass",
]

"""One training over several processes: who takes part, each one's rows of a batch, what they exchange.

May import: errors.
"""

from .exchange import any_of, first_says, from_first
from .joining import joined, launched_rank
from .local_sharing import open_once
from .passes import own_share, shared_pass
from .sharding import gather_batch, gather_features, own_rows, sharded_step
from .team import alone, current, is_first, process_count, processes_here

__all__ = [
    "alone",
    "any_of",
    "current",
    "first_says",
    "from_first",
    "gather_batch",
    "gather_features",
    "is_first",
    "joined",
    "launched_rank",
    "open_once",
    "own_rows",
    "own_share",
    "process_count",
    "processes_here",
    "sharded_step",
    "shared_pass",
]

"""Tasks over many processes: one after another in this process, or on a Ray cluster.

May import: errors, extras.
"""

from .pool import Pool, PoolState, SerialPool, TaskFailure
from .ray_pool import LOCAL, RayPool

__all__ = ["LOCAL", "Pool", "PoolState", "RayPool", "SerialPool", "TaskFailure"]

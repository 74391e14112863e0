"""Which part of a data set is this worker's."""
from __future__ import annotations

from typing import Any, Optional

from torch.utils.data import Subset

from phub import _environment


def shard(dataset: Any, rank: Optional[int] = None, world_size: Optional[int] = None) -> Subset:
    """Each world_size-th example from the rank-th on; as many at each worker, so that all make the same number of
    steps: up to world_size - 1 examples are left out. What is not given is the environment's RANK and WORLD_SIZE."""
    rank = _environment.rank() if rank is None else rank
    world_size = _environment.world_size() if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not below world_size, {world_size}")
    length = len(dataset) // world_size
    return Subset(dataset, range(rank, length * world_size, world_size))

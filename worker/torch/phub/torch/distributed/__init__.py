"""The backend "phub" of torch.distributed: collectives over PHub's servers.

    import phub.torch.distributed
    torch.distributed.init_process_group("phub")

Servers come from PHUB_SERVERS, as phubrun sets it, credentials from PHUB_CREDENTIALS; rank and world size as with any
backend. Each group is a job, which the first collective joins. README.md says which collectives there are.
"""
import datetime
import inspect
from typing import Any

import torch.distributed as dist

from phub.torch.distributed._group import Group

__all__ = ["Group"]


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Group:
    return Group(store, rank, size, timeout)


def _register() -> None:
    register = dist.Backend.register_backend
    # 2 warns where it is not told for which devices; 1.13 does not ask.
    more = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(register).parameters else {}
    register("phub", _create, **more)


if not hasattr(dist.Backend, "PHUB"):
    _register()

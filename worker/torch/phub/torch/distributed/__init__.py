"""The backend "phub" of torch.distributed: collectives over PHub's servers.

    import phub.torch.distributed
    torch.distributed.init_process_group("phub")

Servers come from PHUB_SERVERS, as phubrun sets it, credentials from PHUB_CREDENTIALS; rank and world size as with any
backend. Each group is a job, which the first collective joins. README.md says which collectives there are.
"""
import inspect
from typing import Any

import torch
import torch.distributed as dist

from phub import _environment
from phub.errors import Error
from phub.torch.distributed._group import Calls, DeviceBackend, Group, calls_of
from phub.torch.distributed._names import DEVICES, HAS_BACKENDS_OF_PYTHON

__all__ = ["Group", "monitored_barrier", "register"]


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """torch.distributed.monitored_barrier, which before 2.14 takes no backend but Gloo, for groups of "phub"; others are
    handed on.

    Every rank of the group (None: the default one) calls it, one thread at a time. `timeout`: a timedelta, or seconds; None:
    the group's. Raises Error, a RuntimeError: at rank 0 the message names the first rank that did not come, with
    `wait_all_ranks` all of them, and at the others it says that rank 0 did not pass. The group goes on.
    """
    if group == dist.GroupMember.NON_GROUP_MEMBER:
        return
    # torch's own default group: what it gives out under public names differs between 1.13 and 2.
    own = calls_of(dist.distributed_c10d._get_default_group() if group is None else group)
    if own is not None:
        Calls.monitored_barrier(own, timeout, wait_all_ranks)
    else:
        dist.monitored_barrier(group, timeout, wait_all_ranks)


def _create(given: Any, _: Any) -> Any:
    """`given`: PyTorch's DistributedBackendOptions, which have the same group_id and ranks at every rank."""
    ranks = list(given.global_ranks_in_group)
    racks = _environment.racks(given.group_size, ranks or None)
    own = given.store, given.group_rank, given.group_size, given.timeout, f"group {given.group_id} of ranks {ranks}", racks
    others = _other_backends()
    if not others:
        return Group(*own)
    if not HAS_BACKENDS_OF_PYTHON:
        raise Error(f"init_process_group: PyTorch {torch.__version__} would replace {others} by phub for every device; give "
                    '"phub" alone and the other backend to new_group(backend=...), or install PyTorch 2.14 or later')
    return DeviceBackend(*own)


def _other_backends() -> str:
    """Those that init_process_group or new_group was given for other devices: nothing but its own frame has them."""
    frame = inspect.currentframe()
    while frame is not None and "backend_config" not in frame.f_locals:
        frame = frame.f_back
    devices = {} if frame is None else frame.f_locals["backend_config"].get_device_backend_map()
    return ", ".join(f"{device}:{backend}" for device, backend in devices.items() if backend != "phub")


def register() -> None:
    """Makes the backend known to PyTorch, which importing this module does. 2.14 and later call it by themselves."""
    if hasattr(dist.Backend, "PHUB"):
        return
    add = dist.Backend.register_backend
    # 2 warns where it is not told for which devices; 1.13 does not ask.
    more = {"devices": list(DEVICES)} if "devices" in inspect.signature(add).parameters else {}
    add("phub", _create, extended_api=True, **more)


register()

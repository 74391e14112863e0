"""What PyTorch 2 asks of a process group beside its collectives: names, devices, and the new names of collectives.

A group in Python gets none of these from PyTorch's C++ class: that class asks its own backends, of which this has none.
"""
from __future__ import annotations

from typing import Any, List, TypeVar

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

DEVICES = ("cpu", "cuda")
_Class = TypeVar("_Class", bound=type)

# 2.13 and later call a collective by its new name, earlier versions by the other one.
_NEW_NAMES = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "gather_single": "gather_into_tensor",
    "recvAnysource": "recv_anysource",
}


def _made_by_python(name: str) -> Any:
    """A class of PyTorch's, or object where Python can make no objects of it."""
    found: Any = getattr(_distributed_c10d, name, object)
    try:
        found(0, 1)
    except TypeError:
        return object
    return found


_Backend = _made_by_python("Backend")  # since 2.14
HAS_BACKENDS_OF_PYTHON = _Backend is not object


class BackendOfPyTorch(_Backend):  # type: ignore[misc,valid-type]
    """What PyTorch asks a backend that is written in Python."""

    # PyTorch's own properties of these names ask this class, for ever.
    supports_coalescing = supports_splitting = supports_shrinking = supports_reconfigure = supports_window = False
    _supports_time_estimate = False

    def getBackendName(self) -> str:
        return "phub"


class _Face(BackendOfPyTorch):
    """Stands for a group where PyTorch asks for its backend. It has no calls: PyTorch makes these at the group."""


class _NamedByPyTorch:
    """PyTorch's class has names and devices once it has a backend."""

    def take_names(self, rank: int, size: int) -> None:
        kind = dist.ProcessGroup.BackendType.CUSTOM
        self._face = _Face(rank, size)
        self._set_default_backend(kind)  # type: ignore[attr-defined]
        for device in DEVICES:
            self._register_backend(torch.device(device), kind, self._face)  # type: ignore[attr-defined]


class _NamedByItself:
    """Before 2.14 PyTorch takes no backend that is written in Python."""

    _given_name = _given_description = ""

    def take_names(self, rank: int, size: int) -> None:
        """Nothing is to be done."""

    def setGroupName(self, name: str) -> None:
        self._given_name = name

    def getGroupName(self) -> str:
        return self._given_name

    def setGroupDesc(self, description: str) -> None:
        self._given_description = description

    def getGroupDesc(self) -> str:
        return self._given_description

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device(device) for device in DEVICES]

    def _get_backend(self, _: torch.device) -> Any:
        """The group itself: it takes tensors of each device."""
        return self


Named: Any = _NamedByPyTorch if HAS_BACKENDS_OF_PYTHON else _NamedByItself


def with_new_names(group: _Class) -> _Class:
    """A class decorator."""
    for new, old in _NEW_NAMES.items():
        setattr(group, new, getattr(group, old))
    return group

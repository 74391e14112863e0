"""A tensor's memory as a second mapping of a client's.

DDP allocates its buckets itself, and backward writes into them; what is pushed is the client's memory. Where both are the
same pages nothing is copied to be pushed. PyTorch puts a storage into shared memory, pages of its own, under all tensors
that view it; Linux maps other pages in their place.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

import torch

from phub import _environment
from phub.errors import Error

_MAYMOVE, _FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value


# The same on every host, since ranks register the same keys. Where pages are others nothing is shared.
PAGE_BYTES = 4096


def pages_of(count: int) -> int:
    """Bytes of the whole pages that hold so many."""
    return -(-count // PAGE_BYTES) * PAGE_BYTES


def share(buffer: torch.Tensor, memory: torch.Tensor, workers: int) -> bool:
    """Whether `buffer`, all of its storage, is from now on the pages where `memory` begins, with the values that it has.
    False: it cannot be, and nothing is changed. Both are on pages of their own to the last one's end; those of `memory`
    are shared, so they outlive its owner. `workers` of this host, at most, do so at a time. To send the buffer to another
    process is an error from then on. Raises Error where the buffer is lost."""
    size = buffer.numel() * buffer.element_size()
    if not _can_be(buffer, memory, size, workers):
        return False
    length = pages_of(size)
    # Of a size of 0 mremap maps the same pages once more; it refuses where they are not shared.
    second = _mremap(memory.data_ptr(), 0, length, _MAYMOVE, None)
    if second == _FAILED:
        return False
    try:
        descriptor, _ = _storage_of(buffer)._share_fd_cpu_()
    except RuntimeError:  # no descriptors left, or no room
        _libc().munmap(second, length)
        return False
    memory[:buffer.numel()].copy_(buffer)
    if _mremap(second, length, length, _MAYMOVE | _FIXED, buffer.data_ptr()) == _FAILED:
        raise Error(f"the memory of a bucket cannot be mapped: {os.strerror(ctypes.get_errno())}")
    os.ftruncate(descriptor, 0)  # nobody sees those pages any more
    # Who is sent this storage maps that file, and would make it zeros: where it may only be read, that fails.
    readable = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(readable, descriptor, inheritable=False)
    os.close(readable)
    return True


def _can_be(buffer: torch.Tensor, memory: torch.Tensor, size: int, workers: int) -> bool:
    if not sys.platform.startswith("linux") or mmap.PAGESIZE != PAGE_BYTES:
        return False
    if buffer.device.type != "cpu" or buffer.dtype != memory.dtype:
        return False
    storage = _storage_of(buffer)
    if storage.nbytes() != size or not buffer.is_contiguous() or storage.is_shared() or memory.data_ptr() % PAGE_BYTES:
        return False
    # For a while each worker of the host has a bucket there; a page for which there is no room ends the process.
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return False
    return room.f_bavail * room.f_frsize >= (_environment.number("LOCAL_WORLD_SIZE", workers) + 1) * size


def _storage_of(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _mremap(old: int, old_size: int, size: int, flags: int, new: Any) -> Any:
    call = _libc().mremap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return call(old, old_size, size, flags, new)

"""DDP's buckets as keys of a job.

A bucket is several keys of whole pages, one after the other in the client's memory. The servers add up one while the
worker copies what has come back of another, and a bucket's memory may be the client's own (_remap).
"""
from __future__ import annotations

from typing import Any, List, Sequence

import torch

from phub.client import Client, Key
from phub.torch import _remap, _tensors

PIECE_BYTES = 4 << 20  # of a key at most, whole pages


def piece_sizes(elements: int, element_bytes: int) -> List[int]:
    """Of a bucket's keys, in elements: pages, the last one filled up."""
    whole = _remap.pages_of(elements * element_bytes)
    return [min(PIECE_BYTES, whole - begin) // element_bytes for begin in range(0, whole, PIECE_BYTES)]


class Bucket:
    """One that DDP has in each iteration, as it was when the job was joined."""

    def __init__(self, index: int, bucket: Any, element_bytes: int) -> None:
        buffer = bucket.buffer().detach()
        self.elements = buffer.numel()
        sizes = piece_sizes(self.elements, element_bytes)
        self.keys = [Key(f"bucket{index}.{piece}", size) for piece, size in enumerate(sizes)]
        self._buffer = buffer  # keeps its storage, so that no other one comes to lie there
        self._is_gradient = _has_gradients(bucket)
        self._is_shared = False

    def join(self, client: Client, first: int) -> None:
        """Of a client that has its keys, from `first` on."""
        self._client = client
        self._ids = range(first, first + len(self.keys))
        self._gradient = _tensors.gradients(client, self._ids)[:self.elements]
        self._result = _tensors.parameters(client, self._ids)[:self.elements]
        self._parts, begin = [], 0
        for key in self.keys:
            self._parts.append(slice(begin, min(begin + key.elements, self.elements)))
            begin += key.elements
        self._is_shared = _remap.share(self._buffer, self._gradient)

    def push(self, buffer: torch.Tensor) -> None:
        is_there = self._is_shared and buffer.data_ptr() == self._buffer.data_ptr()
        for key, part in zip(self._ids, self._parts):
            if not is_there:
                self._gradient[part].copy_(buffer[part])
            self._client.push(key)

    def finish(self, buffer: torch.Tensor) -> torch.Tensor:
        """Waits for the mean. Where gradients are views of the bucket it is copied there, else DDP copies it to them: until
        the next push from the client's memory, where that can be read as it is."""
        is_copied = self._is_gradient or buffer.device != self._result.device or buffer.dtype != self._result.dtype
        for key, part in zip(self._ids, self._parts):
            self._client.wait(key)
            if is_copied:
                buffer[part].copy_(self._result[part])
        return buffer if is_copied else self._result


def keys_of(buckets: Sequence[Bucket]) -> List[Key]:
    return [key for bucket in buckets for key in bucket.keys]


def _has_gradients(bucket: Any) -> bool:
    """Whether gradients are views of the bucket (gradient_as_bucket_view)."""
    begin = bucket.buffer().data_ptr()
    end = begin + bucket.buffer().numel() * bucket.buffer().element_size()
    return any(each.grad is not None and begin <= each.grad.data_ptr() < end for each in bucket.parameters())

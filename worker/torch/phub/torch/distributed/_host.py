"""A tensor of any device as flat memory of the host's."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence

import torch


def flat(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # Of one element, or of none, any stride is contiguous; other types only view one of 1.
    return values if values.stride(0) == 1 else values.as_strided((values.numel(),), (1,))


def overlap(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether one may have memory of another: of what lies between its first element and its last."""
    spans = []
    for tensor in tensors:
        if tensor.numel() > 0:
            last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
            spans.append((str(tensor.device), tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()))
    spans.sort()
    return any(one[0] == other[0] and other[1] < one[2] for one, other in zip(spans, spans[1:]))


class HostCopy:
    """Made by who calls the collective, so that what is read of a GPU is what its stream has written by then. get and put
    are the group's thread's."""

    def __init__(self, tensor: torch.Tensor, is_read: bool = True) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise TypeError("phub: sparse tensors are not exchanged; make them dense")
        self._tensor = tensor.detach()
        self._pinned: Any = None
        if tensor.is_cuda:
            if is_read:
                source = flat(tensor)
                self._pinned = _pinned_for(source)
                self._pinned.copy_(source, non_blocking=True)
            self._now = Moment(tensor)

    def numel(self) -> int:
        return self._tensor.numel()

    def get(self) -> torch.Tensor:
        """On the host, flat; to be written only by who puts it back."""
        if self._pinned is None:
            return flat(self._tensor)
        self._now.wait()
        return self._pinned

    def put(self, values: torch.Tensor) -> None:
        """It is there, for every stream, when this returns."""
        if self._tensor.is_cuda:
            self._put_on_gpu(values)
        elif values.data_ptr() != self._tensor.data_ptr():
            self._tensor.copy_(values.view(self._tensor.shape))

    def _put_on_gpu(self, values: torch.Tensor) -> None:
        if self._pinned is None:
            self._pinned = _pinned_for(self._tensor)
        if values.data_ptr() != self._pinned.data_ptr():
            self._pinned.copy_(values.view(self._pinned.shape))
        with self._now.later():
            self._tensor.copy_(self._pinned.view(self._tensor.shape), non_blocking=True)


class Moment:
    """When a call was made, in the caller's stream of a tensor's GPU. On the CPU everything is there at once."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._event: Any = None
        if tensor.is_cuda:
            self._device = tensor.device
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """What is done within is done in a stream of its own, after the call, and is over at the end."""
        if self._event is None:
            yield
            return
        stream = torch.cuda.Stream(self._device)
        stream.wait_event(self._event)
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()


def _pinned_for(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.numel(), dtype=tensor.dtype, pin_memory=True)

"""A tensor of any device as flat memory of the host's."""
from __future__ import annotations

from typing import Any

import torch


def flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)


class HostCopy:
    """Made by who calls the collective, so that what is read of a GPU is what its stream has written by then. get and put
    are the group's thread's."""

    def __init__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise TypeError("phub: sparse tensors are not exchanged; make them dense")
        self._tensor = tensor.detach()
        self._pinned: Any = None
        if tensor.is_cuda:
            source = flat(tensor)
            self._pinned = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            self._pinned.copy_(source, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(tensor.device))

    def numel(self) -> int:
        return self._tensor.numel()

    def get(self) -> torch.Tensor:
        """On the host, flat; not to be written."""
        if self._pinned is None:
            return flat(self._tensor)
        self._event.synchronize()
        return self._pinned

    def put(self, values: torch.Tensor) -> None:
        """It is there, for every stream, when this returns."""
        self._tensor.copy_(values.view(self._tensor.shape))
        if self._pinned is not None:
            torch.cuda.synchronize(self._tensor.device)

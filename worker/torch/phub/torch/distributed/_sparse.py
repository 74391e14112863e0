"""Sums of sparse tensors: everybody has everybody's indices and values, and adds them."""
from __future__ import annotations

from typing import List

import torch

from phub.torch.distributed import _reduce
from phub.torch.distributed._exchange import Exchange


def check(tensor: torch.Tensor, op: str) -> None:
    """Raises TypeError, before anything is exchanged."""
    if op != "SUM":
        raise TypeError(f"phub: {op} of sparse tensors is not there, only SUM; make them dense")


def summed(exchange: Exchange, own: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """`own` of all ranks, on the host; the same bits at each. As many numbers are sent for each rank as the one with most
    values has."""
    own = own.detach().cpu().coalesce()
    lengths = exchange.gather(_reduce.raw(torch.tensor([own.values().shape[0]])), rank, ranks)
    counts = [int(length.view(torch.int64)) for length in lengths]

    def everybodys(data: torch.Tensor) -> torch.Tensor:
        padded = data.new_zeros((max(counts), *data.shape[1:]))
        padded[:len(data)] = data
        parts: List[torch.Tensor] = exchange.gather(_reduce.raw(padded), rank, ranks)
        return torch.cat([part.view(data.dtype).reshape(padded.shape)[:count] for part, count in zip(parts, counts)])

    indices = everybodys(own.indices().t().contiguous()).t()
    return torch.sparse_coo_tensor(indices, everybodys(own.values().contiguous()), own.shape).coalesce()

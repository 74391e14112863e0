"""Which sums the servers make, and what ranks reduce themselves of everybody's values."""
from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist

from phub.errors import Error
from phub.torch.distributed._exchange import Exchange

# float32 is the servers'; in it 16 bits have room for the sum, which is rounded once.
_SUMMED = (torch.float32, torch.float16, torch.bfloat16)

_OPS: Dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum, "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def name_of(op: Any) -> str:
    """Of a ReduceOp, in 1.13 and in 2."""
    for name in [*_OPS, "AVG"]:
        if op == getattr(dist.ReduceOp, name):
            return name
    raise TypeError(f"phub: the reduction {op} is not there; there are AVG, {', '.join(_OPS)}")


def check(tensor: torch.Tensor, op: str) -> None:
    """Raises TypeError, before anything is exchanged."""
    if op in ("BAND", "BOR", "BXOR") and (tensor.is_floating_point() or tensor.is_complex()):
        raise TypeError(f"phub: {op} is for integers, not for {tensor.dtype}")
    if op == "AVG" and tensor.dtype == torch.bool:
        raise TypeError("phub: AVG of torch.bool is not there; convert it to a number")
    if op in ("MIN", "MAX") and tensor.is_complex():
        raise TypeError(f"phub: complex numbers have no {op}")


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """Its bytes, flat."""
    return tensor.reshape(-1).view(torch.uint8)


def reduced(exchange: Exchange, own: torch.Tensor, op: str, rank: int, ranks: int, in_place: bool = False) -> torch.Tensor:
    """`own`, flat and on the host, of all ranks; the same bits at each. `own` is written to only where it is `in_place`."""
    if op in ("SUM", "AVG") and own.dtype in _SUMMED:
        values = own.to(torch.float32)
        total = exchange.sum(values, values if in_place else None)
        return (total.div_(ranks) if op == "AVG" else total).to(own.dtype)
    parts: List[torch.Tensor] = [part.view(own.dtype) for part in exchange.gather(raw(own), rank, ranks)]
    total = parts[0].clone()
    for part in parts[1:]:
        total = _OPS["SUM" if op == "AVG" else op](total, part)
    if total.numel() != own.numel():
        raise Error("phub: ranks have tensors of different sizes")
    if op != "AVG":
        return total
    is_integer = not (total.is_floating_point() or total.is_complex())
    return torch.div(total, ranks, rounding_mode="trunc" if is_integer else None)

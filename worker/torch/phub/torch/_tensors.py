"""A client's memory as tensors. A view keeps the memory alive; only the gradient's may be written."""
from __future__ import annotations

import ctypes
from typing import Sequence, Union

import torch

from phub.client import Client
from phub.errors import Error

_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def gradient(client: Client, key: Union[int, str]) -> torch.Tensor:
    return torch.frombuffer(client.gradient(key), dtype=_TYPES[client.options.wire_type])


def parameter(client: Client, key: Union[int, str]) -> torch.Tensor:
    return torch.frombuffer(client.parameter(key), dtype=_TYPES[client.options.wire_type])


def gradients(client: Client, keys: Sequence[int]) -> torch.Tensor:
    """Of keys that lie one after the other, as one."""
    return _together(client, [client.gradient(key) for key in keys])


def parameters(client: Client, keys: Sequence[int]) -> torch.Tensor:
    return _together(client, [client.parameter(key) for key in keys])


def _together(client: Client, memories: Sequence[ctypes.Array]) -> torch.Tensor:
    begin = ctypes.addressof(memories[0])
    size = 0
    for memory in memories:
        if ctypes.addressof(memory) != begin + size:
            raise Error("keys do not lie one after the other in the client's memory")
        size += ctypes.sizeof(memory)
    whole = (ctypes.c_char * size).from_address(begin)
    whole._first = memories[0]  # type: ignore[attr-defined]  # the memory is the client's
    return torch.frombuffer(whole, dtype=_TYPES[client.options.wire_type])

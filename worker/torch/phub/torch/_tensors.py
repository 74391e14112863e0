"""A client's memory as tensors. A view keeps the memory alive; only the gradient's may be written."""
from __future__ import annotations

from typing import Union

import torch

from phub.client import Client

_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def gradient(client: Client, key: Union[int, str]) -> torch.Tensor:
    return torch.frombuffer(client.gradient(key), dtype=_TYPES[client.options.wire_type])


def parameter(client: Client, key: Union[int, str]) -> torch.Tensor:
    return torch.frombuffer(client.parameter(key), dtype=_TYPES[client.options.wire_type])


def item_bytes(client: Client) -> int:
    return torch.empty(0, dtype=_TYPES[client.options.wire_type]).element_size()

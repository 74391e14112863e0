"""A client's memory as tensors. A view keeps the memory alive; only the gradient's may be written."""
from __future__ import annotations

import ctypes
from typing import Union

import torch

from phub.client import Client
from phub.errors import Error

# Which the servers' float32 has exactly; of complex numbers both parts, as view_as_real has them.
_EXACT = (torch.float32, torch.float16, torch.bfloat16, torch.complex64)
_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def gradient(client: Client, key: Union[int, str]) -> torch.Tensor:
    return torch.frombuffer(client.gradient(key), dtype=_TYPES[client.options.get("wire_type", "fp32")])


def parameter(client: Client, key: Union[int, str]) -> torch.Tensor:
    return torch.frombuffer(client.parameter(key), dtype=_TYPES[client.options.get("wire_type", "fp32")])


def item_bytes(client: Client) -> int:
    return torch.empty(0, dtype=_TYPES[client.options.get("wire_type", "fp32")]).element_size()


def check(name: str, parameter: torch.Tensor) -> None:
    """Raises Error for a parameter that servers cannot have as it is."""
    if parameter.dtype in _EXACT:
        return
    smaller = "complex64" if parameter.is_complex() else "float32"
    raise Error(f"{name}: is {str(parameter.dtype)[6:]}, and the servers step in float32, which would round it; make it "
                f"{smaller} (.to(torch.{smaller})), or step in torch.optim, over DistributedDataParallel with the backend "
                "\"phub\"")


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Its numbers, for servers to see: the same memory, of complex ones both parts."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def are_same(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether `value`, on the CPU, rounded to the tensor's type, has the tensor's bits."""
    if tensor.shape != value.shape:
        return False
    value = value.to(tensor.dtype)
    if tensor.device.type == "cpu" and tensor.is_contiguous() and value.is_contiguous():
        size = tensor.numel() * tensor.element_size()
        return bool(_memcmp(tensor.data_ptr(), value.data_ptr(), size) == 0)
    value = value.to(tensor.device)
    return bool(((tensor == value) | ((tensor != tensor) & (value != value))).all())


_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

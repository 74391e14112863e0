"""Push and pull of numpy's arrays.

A view is of the client's own memory, without a copy: see Client.gradient and Client.parameter for when it may be
touched. It keeps the client's memory alive.
"""
from __future__ import annotations

from typing import Any, Union

import numpy

from phub.client import Client

_TYPES = {"fp32": numpy.float32, "fp16": numpy.float16}


def _type_of(client: Client) -> Any:
    wire_type = client.options.wire_type
    if wire_type not in _TYPES:
        raise TypeError(f"numpy has no {wire_type}: choose a wire_type of fp32 or fp16, or use phub.torch")
    return _TYPES[wire_type]


def gradient(client: Client, key: Union[int, str]) -> "numpy.ndarray[Any, Any]":
    """A flat view of what push sends."""
    return numpy.frombuffer(client.gradient(key), _type_of(client))


def parameter(client: Client, key: Union[int, str]) -> "numpy.ndarray[Any, Any]":
    """A flat view of the result, which cannot be written."""
    view = numpy.frombuffer(client.parameter(key), _type_of(client))
    view.flags.writeable = False
    return view


def push(client: Client, key: Union[int, str], values: "numpy.ndarray[Any, Any]") -> None:
    """Copies `values`, of any shape and real type, and starts their exchange."""
    target = gradient(client, key)
    if values.size != target.size:
        raise ValueError(f"key {key} has {target.size} elements, the array {values.size}")
    target.reshape(values.shape)[...] = values
    client.push(key)


def pull(client: Client, key: Union[int, str]) -> "numpy.ndarray[Any, Any]":
    """Waits, and returns a flat copy of the result."""
    client.wait(key)
    return parameter(client, key).copy()


def push_pull(client: Client, key: Union[int, str], values: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
    """The result for `values`, in their shape."""
    push(client, key, values)
    return pull(client, key).reshape(values.shape)

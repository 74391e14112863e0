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
    wire_type = client.options.get("wire_type", "fp32")
    if wire_type not in _TYPES:
        raise TypeError(f"numpy has no {wire_type}: choose a wire_type of fp32 or fp16, or use phub.torch")
    return _TYPES[wire_type]


def gradient(client: Client, key: Union[int, str]) -> "numpy.ndarray[Any, Any]":
    """A flat view of what push sends."""
    return client.kept_view(_gradient, key)[:]


def parameter(client: Client, key: Union[int, str]) -> "numpy.ndarray[Any, Any]":
    """A flat view of the result, which cannot be written."""
    return client.kept_view(_parameter, key)[:]


# A view is made once: that costs as much as an exchange of a small key. What is given away is a view of it, whose shape
# may be changed.
def _gradient(client: Client, key: int) -> "numpy.ndarray[Any, Any]":
    return numpy.frombuffer(client.gradient(key), _type_of(client))


def _parameter(client: Client, key: int) -> "numpy.ndarray[Any, Any]":
    view = numpy.frombuffer(client.parameter(key), _type_of(client))
    view.flags.writeable = False
    return view


def push(client: Client, key: Union[int, str], values: "numpy.ndarray[Any, Any]") -> None:
    """Copies `values`, of any shape and real type, and starts their exchange."""
    target = client.kept_view(_gradient, key)
    if values.size != target.size:
        raise ValueError(f"key {key} has {target.size} elements, the array {values.size}")
    target.reshape(values.shape)[...] = values
    client.push(key)


def pull(client: Client, key: Union[int, str]) -> "numpy.ndarray[Any, Any]":
    """Waits, and returns a flat copy of the result."""
    client.wait(key)
    return client.kept_view(_parameter, key).copy()


def push_pull(client: Client, key: Union[int, str], values: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
    """The result for `values`, in their shape."""
    push(client, key, values)
    return pull(client, key).reshape(values.shape)

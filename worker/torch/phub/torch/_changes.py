"""What a program changes where the servers would not see it: parameters outside step(), gradients after they were pushed.

A tensor's version counts what PyTorch writes into it, but not what is written by way of `.data`. So on the CPU a parameter is
compared with the servers' value as well, which costs what a copy does. Elsewhere its sum is compared with the sum that it
had.
"""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from phub.torch import _tensors


class Parameters:
    """Their values as they came from the servers.

    has_values: `values` stay what came until the next push, so that they can be compared with."""

    def __init__(self, parameters: Sequence[torch.Tensor], values: Sequence[torch.Tensor], has_values: bool) -> None:
        self._parameters, self._values, self._has_values = parameters, values, has_values
        self._versions = [-1] * len(parameters)
        self._sums: List[Any] = [None] * len(parameters)

    def note(self, index: int) -> None:
        """The parameter is what came just now."""
        parameter = self._parameters[index]
        self._versions[index] = parameter._version
        if self._looks_at_sum(parameter):
            self._sums[index] = _sum_of(parameter)

    def is_written(self, index: int) -> bool:
        """By PyTorch, since note(): by what it counts alone."""
        return self._parameters[index]._version != self._versions[index]

    def changed(self) -> List[int]:
        """Which have other values than those that came. REQUIRES: no key has been pushed since."""
        by_sum = self._with_other_sums()
        return [index for index in range(len(self._parameters)) if self._is_changed(index, index in by_sum)]

    def _is_changed(self, index: int, has_other_sum: bool) -> bool:
        parameter = self._parameters[index]
        if not self._has_values:
            return has_other_sum or self.is_written(index)
        if self._looks_at_sum(parameter) and not has_other_sum and not self.is_written(index):
            return False
        if not _tensors.are_same(_tensors.real(parameter), self._values[index]):
            return True
        self._versions[index] = parameter._version  # written with what was there, as by loading a checkpoint of this step
        return False

    def _looks_at_sum(self, parameter: torch.Tensor) -> bool:
        return not _is_on_host(parameter)

    def _with_other_sums(self) -> List[int]:
        looked_at = [index for index, parameter in enumerate(self._parameters) if self._looks_at_sum(parameter)]
        if not looked_at:
            return []
        now = torch.stack([_sum_of(self._parameters[index]).to(self._sums[looked_at[0]].device) for index in looked_at])
        then = torch.stack([self._sums[index].to(now.device) for index in looked_at])
        differ = ((now != then) & ~((now != now) & (then != then))).tolist()
        return [index for index, differs in zip(looked_at, differ) if differs]


def _is_on_host(parameter: torch.Tensor) -> bool:
    return parameter.device.type == "cpu"


def _sum_of(parameter: torch.Tensor) -> torch.Tensor:
    """Not waited for, on a GPU."""
    return _tensors.real(parameter).sum(dtype=torch.float64)


class Gradients:
    """As they were when they were pushed."""

    def __init__(self, count: int) -> None:
        self._pushed: List[Optional[Tuple[int, int]]] = [None] * count

    def note(self, index: int, gradient: Optional[torch.Tensor]) -> None:
        self._pushed[index] = _state_of(gradient)

    def is_changed(self, index: int, gradient: Optional[torch.Tensor]) -> bool:
        return self._pushed[index] != _state_of(gradient)


def _state_of(gradient: Optional[torch.Tensor]) -> Optional[Tuple[int, int]]:
    """Where it is and how often it was written; no reference, which would keep the memory."""
    return None if gradient is None else (gradient.data_ptr(), gradient._version)

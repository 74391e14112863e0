"""Where PyTorch lets others in, in 1.13 and in 2."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch


class _Hook:
    """A hook that can be removed; it keeps alive what it hangs on."""

    def __init__(self, handle: Any, node: Any = None) -> None:
        self._handle, self._node = handle, node

    def remove(self) -> None:
        self._handle.remove()
        self._node = None


def after_accumulation(parameter: torch.Tensor, call: Callable[[], None]) -> _Hook:
    """Calls when backward has added to the parameter's .grad; in the thread that computed it."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # 2.1 and later
        return _Hook(parameter.register_post_accumulate_grad_hook(lambda _: call()))
    # The node that accumulates is the parameter's as long as somebody has it.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return _Hook(node.register_hook(lambda *_: call()), node)


def before_forward(model: torch.nn.Module, indexes: Dict[int, int], receive: Callable[[int], None]) -> List[_Hook]:
    """Before a module's forward calls `receive` with the index of each parameter of its own, found by its id."""
    hooks = []
    for module in model.modules():
        own = [indexes[id(parameter)] for parameter in module.parameters(recurse=_reads_its_childrens(module))
               if id(parameter) in indexes]
        if own:
            hooks.append(_Hook(module.register_forward_pre_hook(_Receiving(own, receive))))
    return hooks


def _reads_its_childrens(module: torch.nn.Module) -> bool:
    """Some of PyTorch's own modules do not call their children but read their parameters, as MultiheadAttention does."""
    home = type(module).__module__
    return home.startswith("torch.nn.modules.") and home != torch.nn.modules.container.__name__


class _Receiving:
    """A hook before forward. A copy of the module, and one that is loaded from a file, has none."""

    def __init__(self, own: List[int], receive: Callable[[int], None]) -> None:
        self._own, self._receive = own, receive

    def __call__(self, *_: Any) -> None:
        for index in self._own:
            self._receive(index)

    def __reduce__(self) -> Tuple[Any, ...]:
        # Instead of it, something that every Python has: called with module and input it returns the input as it is.
        return getattr, ({}, "get")

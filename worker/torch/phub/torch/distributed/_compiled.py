"""Keeps torch.compile out of the backend. A compiled DistributedDataParallel calls the backend from C++ while Dynamo compiles
each function that Python enters."""
from __future__ import annotations

from types import FunctionType
from typing import TypeVar

import torch

_Class = TypeVar("_Class", bound=type)


def never_compiled(own: _Class) -> _Class:
    """A class decorator: Dynamo compiles none of the functions of this class, nor what these call."""
    if not hasattr(torch._C, "_dynamo"):  # 1.13
        return own
    dynamo = torch._C._dynamo.eval_frame
    for name, value in list(vars(own).items()):
        if not isinstance(value, FunctionType):
            continue
        if hasattr(dynamo, "set_code_exec_strategy"):
            skip = dynamo._FrameAction.SKIP
            dynamo.set_code_exec_strategy(value.__code__, dynamo._FrameExecStrategy(skip, skip))
        else:  # before 2.7. This imports Dynamo, which takes seconds.
            setattr(own, name, torch._dynamo.disable(value))
    return own

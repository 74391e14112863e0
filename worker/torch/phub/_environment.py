"""Who this process is among those that were started together: what phubrun and torchrun set."""
from __future__ import annotations

import os
from typing import Any, Dict

from phub.errors import Error

_made: Dict[str, int] = {}


def number(name: str, otherwise: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return otherwise
    try:
        return int(text)
    except ValueError:
        raise Error(f"the environment's {name} is \"{text}\", which is no number") from None


def rank() -> int:
    return number("RANK", 0)


def world_size() -> int:
    return number("WORLD_SIZE", 1)


def job(kind: str) -> str:
    """A name of a job of this run. The second one of a process has another, the same at each rank."""
    base = f"{os.environ.get('PHUB_JOB', 'torch')}-{kind}"
    _made[base] = _made.get(base, 0) + 1
    return base if _made[base] == 1 else f"{base}-{_made[base]}"


def options(kind: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """`given`, and for what is not in it what the environment says."""
    complete = {"workers": world_size(), "worker_index": rank(), **given}
    if "job" not in complete:
        complete["job"] = job(kind)
    return complete

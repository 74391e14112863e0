"""What ranks write for each other into the group's store.

Nothing here waits inside of the store: a TCPStore has one connection, which others of this process would wait for. So a
text has a counter beside it, which is asked again and again; `add` of 0 is the one question that every store answers at once.
"""
from __future__ import annotations

import threading
import time
from typing import Any, Optional

from phub.errors import Error

_FIRST, _LONGEST = 0.001, 0.05  # seconds between two looks


class Board:
    """Any thread."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._is_closed = threading.Event()

    def close(self) -> None:
        """Who waits raises Error within a look."""
        self._is_closed.set()

    def write(self, name: str, text: str) -> None:
        """Once for a name."""
        self._store.set(name, text)
        self._store.add(f"{name}/is there", 1)

    def has(self, name: str) -> bool:
        return self._store.add(f"{name}/is there", 0) > 0

    def read(self, name: str, seconds: float) -> Optional[str]:
        """Waits for it so long at most; then None. Raises Error after close."""
        deadline, pause = time.monotonic() + seconds, _FIRST
        while not self.has(name):
            if time.monotonic() > deadline:
                return None
            if self._is_closed.wait(pause):
                raise Error("the group was left")
            pause = min(2 * pause, _LONGEST)
        return self._store.get(name).decode()

    def erase(self, name: str) -> None:
        for each in (name, f"{name}/is there"):
            self._store.delete_key(each)

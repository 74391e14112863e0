"""Completes torch futures in threads that nothing else needs, so that their callbacks may wait.

A future's callbacks run in the thread that completes it. In a group's own thread, a callback that waits for another collective
of the group would wait for ever. In the main thread, Ctrl-C could arrive in a callback, and PyTorch makes a RuntimeError of it.
"""
from __future__ import annotations

import atexit
import collections
import os
import threading
from typing import Any, Callable, Deque, Optional, Sequence, Set, Tuple

_IDLE = 10.0  # seconds until a thread without work ends
_PATIENCE = 2.0  # seconds for callbacks when the interpreter ends
_SLICE = 0.1  # seconds; a wait looks at signals so often


class _Threads:
    """A list of futures never waits for the callbacks of another list: where no thread is idle, a new one is started.
    Any thread."""

    def __init__(self) -> None:
        self.process = os.getpid()
        lock = threading.Lock()
        self._has_work, self._has_rest = threading.Condition(lock), threading.Condition(lock)
        self._work: Deque[Tuple[Sequence[Any], Optional[Callable[[], None]]]] = collections.deque()
        self._threads: Set[threading.Thread] = set()
        self._idle = 0

    def add(self, futures: Sequence[Any], then: Optional[Callable[[], None]]) -> None:
        with self._has_work:
            self._work.append((futures, then))
            if self._idle >= len(self._work):
                self._has_work.notify()
                return
            thread = threading.Thread(target=self._run, name="phub callbacks", daemon=True)
            self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        while True:
            with self._has_work:
                self._idle += 1
                self._has_rest.notify_all()
                self._has_work.wait_for(lambda: self._work, _IDLE)
                self._idle -= 1
                if not self._work:
                    self._threads.discard(threading.current_thread())
                    return
                futures, then = self._work.popleft()
            for future in futures:
                future.set_result(None)
            if then is not None:
                then()
            del futures, then

    def rest(self, seconds: float) -> None:
        """Waits until no callback runs, so long at most."""
        with self._has_rest:
            self._has_rest.wait_for(lambda: not self._work and self._idle == len(self._threads), seconds)


_threads = _Threads()


def complete(futures: Sequence[Any], then: Optional[Callable[[], None]] = None) -> None:
    """Sets the result of each to None, one after another in another thread, and calls `then` there. Returns at once."""
    global _threads
    if _threads.process != os.getpid():  # a forked child has none of the threads
        _threads = _Threads()
    _threads.add(futures, then)


def complete_and_wait(futures: Sequence[Any]) -> None:
    """As complete; returns when each has its result and its callbacks are over. Ctrl-C interrupts the wait."""
    is_over = threading.Event()
    complete(futures, is_over.set)
    while not is_over.wait(_SLICE):
        pass


# A thread that comes back from PyTorch's C++ while the interpreter ends would end the process.
atexit.register(lambda: _threads.rest(_PATIENCE))

"""A group's thread, and what callers have of what is under way."""
from __future__ import annotations

import atexit
import collections
import datetime
import os
import queue
import threading
import time
import traceback
import weakref
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work as _Work

from phub.errors import Error, ForkedError
from phub.torch import _callbacks
from phub.torch.distributed._compiled import never_compiled
from phub.torch.distributed._exchange import Exchange

_SLICE = 0.1  # seconds; a wait looks at signals so often
_UNASKED_MAX = 64  # collectives that nobody has asked about
_ASKED_MAX = 2  # that somebody has
_PATIENCE = 2.0  # seconds for the thread when the interpreter ends


@never_compiled
class Pending(_Work):  # type: ignore[misc]
    """Something that is over one day. wait() raises what went wrong. Any thread."""

    def __init__(self, tensors: List[torch.Tensor], patience: Optional[float] = None) -> None:
        """`patience`: seconds from now, after which wait() raises; None: this ends by itself."""
        super().__init__()
        self._tensors = tensors
        self._patience = patience
        self._deadline = None if patience is None else time.monotonic() + patience
        self._failure: Optional[BaseException] = None
        self._kept: Optional[Kept] = None
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._end: Any = None  # the future that is completed, and what callers have of it, once one has asked
        self._future: Any = None

    def keep_in(self, kept: "Kept") -> None:
        kept.add(self)
        self._kept = kept

    def finish(self, failure: Optional[BaseException]) -> None:
        """Once. Callbacks of the future run in another thread, and may wait for what this thread does next."""
        self._failure = failure
        with self._lock:
            self._is_over.set()
            end = self._end
        if end is not None:
            _callbacks.complete([end])

    def _get(self) -> List[torch.Tensor]:
        if self._failure is not None:
            raise self._failure
        return self._tensors

    def _late(self, seconds: float) -> Error:
        """What wait() raises where it has waited for so long."""
        self.give_up()
        return Error(f"after a timeout of {seconds:g} s {self.what()} is not over")

    def is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def what(self) -> str:
        return "the collective"

    def give_up(self) -> None:
        """Nobody waits any longer."""

    def wait(self, timeout: Any = None) -> bool:
        if self._kept is not None:
            self._kept.was_asked(self)
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else 0.0
        deadline = time.monotonic() + seconds if seconds > 0 else self._deadline
        while not self._is_over.wait(_SLICE):
            if deadline is not None and time.monotonic() > deadline:
                late = self._late(seconds or self._patience or 0.0)
                if not self._is_over.is_set():
                    raise late
        self._get()
        return True

    def is_completed(self) -> bool:
        return self._is_over.is_set()

    def is_success(self) -> bool:
        return self.is_completed() and self._failure is None

    def exception(self) -> Optional[BaseException]:
        return self._failure

    def get_future(self) -> Any:
        if self._kept is not None:
            self._kept.was_asked(self)
        with self._lock:
            if self._future is None:
                end: Any = torch.futures.Future()
                # An error that is raised in `then` is the one that both 1.13 and 2 hand on.
                self._future = end.then(lambda _: self._get())
                if not self._is_over.is_set():
                    self._end = end
                    return self._future
                _callbacks.complete_and_wait([end])
            return self._future

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        raise Error("source_rank: a collective has none")

    def _source_rank(self) -> int:
        return self.source_rank()


@never_compiled
class Several(Pending):
    """Over when all of these are."""

    def __init__(self, works: Sequence[Pending]) -> None:
        super().__init__([tensor for work in works for tensor in work.result()])
        self._works = works
        ends: Any = torch.futures.collect_all([work.get_future() for work in works])
        ends.then(lambda _: self.finish(next((work.exception() for work in works if not work.is_success()), None)))

    def wait(self, timeout: Any = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return super().wait(timeout)


class Kept:
    """Works that C++ may have, which does not keep what is Python's of them: its wait would be another one, for ever.
    Until somebody has asked how it ends, and a little longer: DDP asks twice in join. Any thread."""

    def __init__(self) -> None:
        self._unasked: Dict[int, Pending] = {}
        self._asked: Deque[Pending] = collections.deque(maxlen=_ASKED_MAX)

    def add(self, work: Pending) -> None:
        for key in list(self._unasked)[:max(0, len(self._unasked) - _UNASKED_MAX)]:
            oldest = self._unasked.get(key)  # others take theirs meanwhile
            if oldest is not None and oldest.is_completed():
                self._unasked.pop(key, None)
        self._unasked[id(work)] = work

    def was_asked(self, work: Pending) -> None:
        if self._unasked.pop(id(work), None) is not None:
            self._asked.append(work)


@never_compiled
class Collective(Pending):
    """What a group's thread makes."""

    def __init__(self, call: Callable[[Exchange], None], tensors: List[torch.Tensor]) -> None:
        super().__init__(tensors)
        self._call = call

    def run(self, exchange: Exchange, earlier: Optional[BaseException]) -> Optional[BaseException]:
        """The group's thread. What went wrong with it, or before it."""
        failure = earlier
        if earlier is None:
            try:
                with torch.inference_mode():  # also tensors of who is in it may be written
                    self._call(exchange)
            except BaseException as error:
                # Whose frames view the client's memory: it is to leave the job when it is closed.
                traceback.clear_frames(error.__traceback__)
                failure = exchange.explained(error)
        del self._call
        self.finish(failure)
        return failure


class _Running:
    """A group's thread and what it works on, for as long as it runs: the group may go before it."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.queue: Any = queue.SimpleQueue()
        self.process = os.getpid()
        self.thread = threading.Thread(target=_run, args=(self,), name="phub group", daemon=True)

    def end(self) -> None:
        if os.getpid() != self.process:
            return
        self.queue.put(None)
        self.thread.join(_PATIENCE)
        self.exchange.stop()
        self.thread.join(_PATIENCE)
        if self.thread.is_alive():
            self.exchange.abandon()


class GroupThread:
    """Makes a group's collectives one after the other. It ends with the group, and with the interpreter."""

    def __init__(self, exchange: Exchange) -> None:
        running = self._running = _Running(exchange)
        self._kept = Kept()
        # When all that was begun is over. What ends clients at exit is behind it, so registered before end.
        weakref.finalize(self, running.queue.put, None).atexit = False
        atexit.register(running.end)
        running.thread.start()

    def add(self, work: Collective) -> Collective:
        if os.getpid() != self._running.process:
            raise ForkedError(f"this group belongs to process {self._running.process}, which forked this one")
        work.keep_in(self._kept)
        self._running.queue.put(work)
        return work


def _run(running: _Running) -> None:
    exchange = running.exchange
    failure: Optional[BaseException] = None
    while True:
        work = running.queue.get()
        if work is None:
            exchange.close()
            atexit.unregister(running.end)
            return
        had_failed = failure is not None
        failure = work.run(exchange, failure)
        del work
        if failure is not None and not had_failed:
            exchange.close()  # the others are told now, whatever it was, and do not wait for what never comes

"""send and recv: what callers have of them, and which message is for whom."""
from __future__ import annotations

import collections
import ctypes
import threading
from typing import Any, Counter, Dict, List, NamedTuple, Optional

import torch

from phub.errors import Error
from phub.torch.distributed._compiled import never_compiled
from phub.torch.distributed._host import HostCopy
from phub.torch.distributed._work import Pending

ANNOUNCED_MAX = 2**14  # of one rank, that nobody has received


def bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def memory(data: torch.Tensor) -> memoryview:
    """Of flat uint8 on the host, which the caller keeps."""
    size = data.numel()
    return memoryview((ctypes.c_char * size).from_address(data.data_ptr()) if size else b"").cast("B")


@never_compiled
class Send(Pending):
    """The tensor is read until it is over."""

    def __init__(self, tensor: torch.Tensor, to: int, tag: int, patience: float) -> None:
        super().__init__([tensor], patience)
        self.to, self.tag, self.bytes = to, tag, bytes_of(tensor)
        self.line: Any = None  # has give_up
        self._copy = HostCopy(tensor)

    def data(self) -> torch.Tensor:
        return self._copy.get().view(torch.uint8)

    def what(self) -> str:
        return f"the send of {self.bytes} bytes to rank {self.to} with tag {self.tag}"

    def give_up(self) -> None:
        self.line.give_up(self)


@never_compiled
class Receive(Pending):
    """`source` None: from any rank."""

    def __init__(self, tensor: torch.Tensor, source: Optional[int], tag: int, patience: float, mailbox: "Mailbox") -> None:
        super().__init__([tensor], patience)
        self.source, self.tag, self.bytes = source, tag, bytes_of(tensor)
        self._dtype = tensor.dtype
        self._copy = HostCopy(tensor, is_read=False)
        self._mailbox = mailbox
        self._use = threading.Lock()
        self.is_given_up = False  # the tensor is its owner's again

    def takes(self, source: int, tag: int) -> bool:
        return tag == self.tag and self.source in (None, source)

    def put(self, data: torch.Tensor, source: int) -> None:
        """Its bytes, flat, which are as many as it has room for; then it is over."""
        with self._use:
            if self.is_given_up:
                raise Error(f"{self.what()} was given up when its message was under way")
            self.source = source
            failure: Optional[BaseException] = None
            try:
                with torch.inference_mode():
                    self._copy.put(data.view(self._dtype))
            except Exception as error:
                failure = error
            self.finish(failure)

    def source_rank(self) -> int:
        if self.source is None:
            raise Error("source_rank: nothing has been received yet; wait() first")
        return self.source

    def what(self) -> str:
        return (f"the recv of {self.bytes} bytes from {'any rank' if self.source is None else f'rank {self.source}'} "
                f"with tag {self.tag}")

    def give_up(self) -> None:
        with self._use:
            self.is_given_up = not self.is_completed()
        self._mailbox.forget(self)


class Announced(NamedTuple):
    """A message that a rank has; its bytes come when they are asked for."""

    line: Any  # has its rank, and accept(announced, receive)
    number: int
    tag: int
    bytes: int


class Mailbox:
    """Which message is for which recv: of those that a recv takes the first that came, for the first that asked.
    Any thread."""

    def __init__(self, others: int) -> None:
        self._others = others
        self._lock = threading.RLock()  # want_again calls want
        self._announced: List[Announced] = []  # that nobody has asked for
        self._counts: Counter[int] = collections.Counter()  # of these, by rank
        self._wanted: List[Receive] = []  # for which nothing has come
        self._lines: Dict[int, Any] = {}  # by rank
        self._gone: Dict[int, str] = {}  # by rank: why nothing comes from there any more

    def open(self, line: Any) -> bool:
        """Whether it is that rank's first."""
        with self._lock:
            is_first = self._lines.setdefault(line.rank, line) is line
            if is_first:
                self._gone.pop(line.rank, None)  # it could not be reached before
            return is_first

    def retry(self, rank: int) -> None:
        """It is tried once more to reach that rank."""
        with self._lock:
            if rank not in self._lines:
                self._gone.pop(rank, None)

    def announce(self, announced: Announced) -> None:
        with self._lock:
            rank = announced.line.rank
            for at, receive in enumerate(self._wanted):
                if receive.takes(rank, announced.tag):
                    del self._wanted[at]
                    announced.line.accept(announced, receive)
                    return
            if self._counts[rank] >= ANNOUNCED_MAX:
                raise Error(f"rank {rank} sends more than {ANNOUNCED_MAX} messages that this rank does not receive")
            self._counts[rank] += 1
            self._announced.append(announced)

    def want(self, receive: Receive) -> None:
        with self._lock:
            for at, announced in enumerate(self._announced):
                if receive.takes(announced.line.rank, announced.tag):
                    del self._announced[at]
                    self._counts[announced.line.rank] -= 1
                    announced.line.accept(announced, receive)
                    return
            if self._is_hopeless(receive):
                raise Error(f"{receive.what()}: {self._why(receive)}")
            self._wanted.append(receive)

    def want_again(self, receive: Receive) -> None:
        """What was to come was withdrawn."""
        with self._lock:
            if receive.is_given_up:
                return
            try:
                self.want(receive)
            except Error as failure:
                receive.finish(failure)

    def forget(self, receive: Receive) -> None:
        with self._lock:
            if receive in self._wanted:
                self._wanted.remove(receive)

    def lost(self, rank: int, why: str, line: Any = None) -> None:
        """The connection that its messages come on, or, where none of these has come, the one to it."""
        with self._lock:
            if self._lines.get(rank) is not line:
                return
            self._gone[rank] = why
            self._announced = [each for each in self._announced if each.line is not line]
            failed = [each for each in self._wanted if self._is_hopeless(each)]
            self._wanted = [each for each in self._wanted if not self._is_hopeless(each)]
        for each in failed:
            each.finish(Error(f"{each.what()}: {self._why(each)}"))

    def is_awaited(self, rank: int) -> bool:
        """Whether a recv of that rank's has time left."""
        with self._lock:
            return any(each.source == rank and not each.is_late() for each in self._wanted)

    def proceed(self, line: Any) -> None:
        """What it had accepted first is over."""
        with self._lock:
            line.proceed()

    def _is_hopeless(self, receive: Receive) -> bool:
        return len(self._gone) >= self._others if receive.source is None else receive.source in self._gone

    def _why(self, receive: Receive) -> str:
        return "; ".join(self._gone.values()) if receive.source is None else self._gone[receive.source]

"""Connections between two ranks. On each messages go one way, from who made it, and permissions come back.

A message is announced with its tag and its bytes, which follow when the other has somewhere to put them: so nothing
piles up at who does not receive. One message's bytes at a time are asked for, so neither end ever waits for the other to
read what is in its way.
"""
from __future__ import annotations

import collections
import os
import selectors
import socket
import struct
import threading
import time
import weakref
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

import torch

from phub.errors import Error
from phub.torch.distributed._messages import ANNOUNCED_MAX, Announced, Mailbox, Receive, Send, memory

_ANNOUNCEMENT, _BYTES, _WITHDRAWN = 0, 1, 2
_HEADER = struct.Struct("<BqQ")  # which; the tag, or the message's number on this connection; bytes
_PERMISSION = struct.Struct("<QQ")  # the message's number; how many bytes there is room for: others end it


_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


def start(target: Callable[..., None], name: str, *arguments: Any) -> None:
    """A thread of its own, which ends when its connection does."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    thread.start()
    _threads.add(thread)


def wait_for_threads(seconds: float) -> None:
    """When the interpreter ends: what comes back from PyTorch's C++ then would end the process. All that are connected must
    have been closed."""
    deadline = time.monotonic() + seconds
    for thread in list(_threads):
        thread.join(max(0.0, deadline - time.monotonic()))


def exactly(stream: socket.socket, size: int, deadline: Optional[float] = None) -> bytes:
    """Raises OSError where it ends before, or has not all come by then."""
    data = bytearray(size)
    _fill(stream, memoryview(data), deadline)
    return bytes(data)


def _fill(stream: socket.socket, data: memoryview, deadline: Optional[float] = None) -> None:
    done = 0
    while done < len(data):
        if deadline is not None:
            stream.settimeout(max(0.001, deadline - time.monotonic()))
        got = stream.recv_into(data[done:])
        if got == 0:
            raise OSError("its connection is closed")
        done += got


def end(stream: socket.socket, process: int) -> None:
    """Wakes the thread that reads it. A fork shares the connection, which goes on."""
    if os.getpid() == process:
        try:
            stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already


class Absent(Error):
    """A rank that has not opened its port yet."""


class Incoming:
    """What one rank sends. run() is its thread's; the mailbox calls accept, under its lock."""

    def __init__(self, mailbox: Mailbox, rank: int, stream: socket.socket) -> None:
        self.rank = rank
        self._mailbox, self._stream = mailbox, stream
        self._count = 0
        self._accepted: Deque[Tuple[Announced, Receive]] = collections.deque()

    def run(self) -> None:
        if not self._mailbox.open(self):
            return
        try:
            while True:
                kind, number, size = _HEADER.unpack(exactly(self._stream, _HEADER.size))
                if kind == _ANNOUNCEMENT:
                    self._mailbox.announce(Announced(self, self._count, number, size))
                    self._count += 1
                else:
                    self._take(kind, number, size)
        except Exception as failure:
            why = f"rank {self.rank} has left, or failed: {failure}"
            self._mailbox.lost(self.rank, why, self)
            for _, receive in list(self._accepted):
                receive.finish(Error(f"{receive.what()}: {why}"))

    def accept(self, announced: Announced, receive: Receive) -> None:
        if announced.bytes != receive.bytes:
            self._permit(announced, receive)
            receive.source = self.rank
            receive.finish(Error(f"{receive.what()}: it sends {announced.bytes} bytes; both need tensors of one size and type"))
            return
        self._accepted.append((announced, receive))
        if len(self._accepted) == 1:
            self._permit(announced, receive)

    def _permit(self, announced: Announced, receive: Receive) -> None:
        said = _PERMISSION.pack(announced.number, receive.bytes)
        try:  # under the lock of all: nobody waits for a rank that reads none of these
            is_said = self._stream.send(said, socket.MSG_DONTWAIT) == len(said)
        except OSError:
            is_said = False
        if not is_said:
            end(self._stream, os.getpid())  # who reads it is told

    def _take(self, kind: int, number: int, size: int) -> None:
        announced, receive = self._accepted[0] if self._accepted else (None, None)
        if announced is None or receive is None or (announced.number, announced.bytes) != (number, size):
            raise Error("it sends what it was not asked for")
        if kind == _WITHDRAWN:  # the next one that comes is for this recv
            self._mailbox.proceed(self)
            self._mailbox.want_again(receive)
            return
        data = torch.empty(size, dtype=torch.uint8)
        _fill(self._stream, memory(data))
        receive.put(data, self.rank)
        self._mailbox.proceed(self)

    def proceed(self) -> None:
        """The first is over. Under the mailbox's lock."""
        self._accepted.popleft()
        if self._accepted:
            self._permit(*self._accepted[0])


class Outgoing:
    """What this rank sends to one other. run() is its thread's, the rest anybody's."""

    def __init__(self, rank: int, connect: Callable[[int], socket.socket], lost: Callable[[int, str], None],
                 is_awaited: Callable[[int], bool]) -> None:
        """`connect` raises Absent where it is to be called once more for what came meanwhile; `is_awaited`: whether
        something is to come from that rank. `lost` is told, at the end, why."""
        self.rank = rank
        self._connect, self._lost, self._is_awaited = connect, lost, is_awaited
        self._lock = threading.Lock()
        self._new: List[Send] = []
        self._waiting: Dict[int, Send] = {}  # by number: announced
        self._given_up: "weakref.WeakSet[Send]" = weakref.WeakSet()
        self._count = 0
        self._failure: Optional[str] = None
        self._sending: Optional[Send] = None
        self._stream: Optional[socket.socket] = None
        self._process = os.getpid()
        self._woken, self._wake = socket.socketpair()
        start(self._run, f"phub to rank {rank}")

    def add(self, send: Send) -> None:
        with self._lock:
            if self._failure is not None:
                raise Error(f"{send.what()}: {self._failure}")
            if len(self._new) + len(self._waiting) >= ANNOUNCED_MAX:
                raise Error(f"{send.what()}: {ANNOUNCED_MAX} are under way that rank {self.rank} does not receive")
            send.line = self
            self._new.append(send)
            if len(self._new) == 1:
                self._wake.send(b"1")

    def close(self) -> None:
        end(self._wake, self._process)

    def has_failed_to_connect(self) -> bool:
        with self._lock:
            return self._failure is not None and self._stream is None

    def give_up(self, send: Send) -> None:
        """Its tensor is its owner's again: it is withdrawn when the other asks for it."""
        with self._lock:
            self._given_up.add(send)
            if send is self._sending and self._stream is not None:
                end(self._stream, self._process)  # half of it is there

    def _run(self) -> None:
        try:
            while self._stream is None:
                try:
                    self._stream = self._connect(self.rank)
                except Absent as failure:
                    self._go_on_after(failure)
            with selectors.DefaultSelector() as selector:
                selector.register(self._stream, selectors.EVENT_READ, self._send)
                selector.register(self._woken, selectors.EVENT_READ, self._announce)
                while True:
                    for key, _ in selector.select():
                        key.data()
        except Exception as failure:
            self._fail(f"rank {self.rank} has left, or failed: {failure}")

    def _go_on_after(self, failure: Absent) -> None:
        """A send or recv that came meanwhile has its own time."""
        is_awaited = self._is_awaited(self.rank)
        with self._lock:
            if is_awaited or any(not each.is_late() for each in self._new):
                return
            self._failure = str(failure)  # nobody adds one now
        raise failure

    def _announce(self) -> None:
        if not self._woken.recv(4096):
            raise Error("this rank has left the group")
        with self._lock:
            new, self._new = self._new, []
            first, self._count = self._count, self._count + len(new)
            self._waiting.update(enumerate(new, first))
        assert self._stream is not None
        self._stream.sendall(b"".join(_HEADER.pack(_ANNOUNCEMENT, each.tag, each.bytes) for each in new))

    def _send(self) -> None:
        assert self._stream is not None
        number, room = _PERMISSION.unpack(exactly(self._stream, _PERMISSION.size))
        send = self._waiting.get(number)
        if send is None:
            raise Error("it asks for what there is not")
        with self._lock:
            is_given_up = send in self._given_up
            self._sending = None if is_given_up else send
        failure: Optional[BaseException] = None
        if room == send.bytes and is_given_up:
            self._stream.sendall(_HEADER.pack(_WITHDRAWN, number, send.bytes))
            failure = Error(f"{send.what()} was given up")
        elif room == send.bytes:
            self._stream.sendall(_HEADER.pack(_BYTES, number, send.bytes))
            data = send.data()
            self._stream.sendall(memory(data))
        else:
            failure = Error(f"{send.what()}: it has room for {room} bytes; both need tensors of one size and type")
        with self._lock:
            self._sending = None
            del self._waiting[number]
        send.finish(failure)

    def _fail(self, why: str) -> None:
        with self._lock:
            self._failure = why
            failed = [*self._waiting.values(), *self._new]
            self._waiting, self._new = {}, []
        for each in [self._stream, self._woken, self._wake]:
            if each is not None:
                each.close()
        for send in failed:
            send.finish(Error(f"{send.what()}: {why}"))
        self._lost(self.rank, why)

"""send and recv between the ranks of a group: a port of each rank that uses them, opened when it first does.

Addresses are on the group's board. Both ends of a connection prove that they have the group's secret. What goes over these
connections is not encrypted.
"""
from __future__ import annotations

import atexit
import hmac
import os
import secrets
import socket
import struct
import threading
import time
import weakref
from typing import Any, Dict, Optional, Tuple

import torch

from phub.errors import Error, ForkedError
from phub.torch.distributed._addresses import is_loopback, own_address, reachable
from phub.torch.distributed._lines import Absent, Incoming, Outgoing, end, exactly, start, wait_for_threads
from phub.torch.distributed._messages import Mailbox, Receive, Send
from phub.torch.distributed._trust import SignedBoard, Trust

_NONCE_BYTES = 32
_HELLO = struct.Struct(f"<I{_NONCE_BYTES}s")  # who has connected, and what the other is to sign
_PROOF_BYTES = 64
_GREETING = 10.0  # seconds for who has connected to say who it is
_STRANGERS_MAX = 32  # that have not said so yet, or as many as there are ranks
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between two tries to be let in
_PATIENCE = 2.0  # seconds for the threads when the interpreter ends


class _Proof:
    """What both ends of a connection sign: neither end's signature is any other's, nor one of another connection."""

    def __init__(self, trust: Trust, to: int, said: bytes, answer: bytes, seconds: float) -> None:
        """`to`: the rank that was connected to; `said`: the whole hello of who connected; `answer`: the other's nonce."""
        self._parts = to, said.hex(), answer.hex()
        self._trust, self._seconds = trust, seconds

    def of(self, end: str) -> bytes:
        return self._trust.sign("peer", end, *self._parts, seconds=self._seconds).encode()


class _Door:
    """Where the others' connections come in; it belongs to its thread."""

    def __init__(self, where: Tuple[socket.AddressFamily, str], trust: Trust, rank: int, size: int, mailbox: Mailbox) -> None:
        self._trust, self._rank, self._size, self._mailbox = trust, rank, size, mailbox
        self._strangers: Dict[int, socket.socket] = {}  # by descriptor, in the order in which they came
        self._lock = threading.Lock()
        self._is_closed = False
        self._open: Dict[int, socket.socket] = {}  # by descriptor
        self._process = os.getpid()
        family, host = where
        address: Any = socket.getaddrinfo(host, 0, family, socket.SOCK_STREAM)[0][4]  # with the number of its zone
        self._listener = socket.create_server(address, family=family, backlog=min(size + 16, 4096))
        self.port: int = self._listener.getsockname()[1]
        start(self._run, "phub peers")

    def close(self) -> None:
        self._is_closed = True
        end(self._listener, self._process)
        with self._lock:
            for stream in self._open.values():
                end(stream, self._process)

    def _run(self) -> None:
        while not self._is_closed:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                threading.Event().wait(0.05)  # it is closed, or descriptors are short
                continue
            with self._lock:
                if len(self._strangers) >= max(_STRANGERS_MAX, self._size):  # a rank says at once who it is
                    end(next(iter(self._strangers.values())), self._process)
                self._strangers[stream.fileno()] = stream
            try:
                start(self._greet, "phub peer", stream)
            except RuntimeError:  # no more threads
                self._forget(stream)
                stream.close()
        self._listener.close()

    def _forget(self, stranger: socket.socket) -> None:
        with self._lock:
            del self._strangers[stranger.fileno()]

    def _greet(self, stream: socket.socket) -> None:
        line: Optional[Incoming] = None
        with stream:
            try:
                rank = self._proved(stream, time.monotonic() + _GREETING)
                if rank is not None:
                    _settle(stream)
                    line = Incoming(self._mailbox, rank, stream)
            except (OSError, Error):
                pass  # a stranger
            finally:
                self._forget(stream)
            if line is None:
                return
            with self._lock:
                self._open[stream.fileno()] = stream
                is_late = self._is_closed
            if not is_late:
                line.run()
            with self._lock:
                del self._open[stream.fileno()]

    def _proved(self, stream: socket.socket, deadline: float) -> Optional[int]:
        """Which rank it is."""
        said = exactly(stream, _HELLO.size, deadline)
        (rank, _) = _HELLO.unpack(said)
        if rank >= self._size or rank == self._rank:
            return None
        nonce = secrets.token_bytes(_NONCE_BYTES)
        proof = _Proof(self._trust, self._rank, said, nonce, _GREETING)
        stream.sendall(nonce + proof.of("answers"))
        is_proved = hmac.compare_digest(exactly(stream, _PROOF_BYTES, deadline), proof.of("connects"))
        return rank if is_proved else None


def _settle(stream: socket.socket) -> None:
    stream.settimeout(None)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class _Ways:
    """What there is when a rank has sent or received; nobody here knows Peers, so these go when that goes."""

    def __init__(self, board: SignedBoard, trust: Trust, rank: int, size: int, servers: str, patience: float) -> None:
        self._board, self._trust, self._rank, self._patience = board, trust, rank, patience
        self.mailbox = Mailbox(size - 1)
        where = own_address(servers)
        self._host = where[1]
        try:
            self._door = _Door(where, trust, rank, size, self.mailbox)
        except OSError as failure:
            raise Error(f"send and recv: no port can be opened at {self._host}: {failure}; give an address of this host in "
                        "PHUB_PEER_ADDRESS") from None
        try:
            board.write(f"peer {rank}", f"{self._door.port} {self._host} {socket.gethostname()}")
        except BaseException:
            self._door.close()
            raise
        self._to: Dict[int, Outgoing] = {}

    def to(self, rank: int) -> Outgoing:
        """Under the lock of Peers."""
        if rank in self._to and self._to[rank].has_failed_to_connect():
            del self._to[rank]  # it may be there by now
            self.mailbox.retry(rank)
        if rank not in self._to:
            self._to[rank] = Outgoing(rank, self._connect, self.mailbox.lost, self.mailbox.is_awaited)
        return self._to[rank]

    def close(self) -> None:
        self._board.close()
        self._door.close()
        for each in list(self._to.values()):
            each.close()

    def _connect(self, rank: int) -> socket.socket:
        said = self._board.read(f"peer {rank}", self._patience)
        if said is None:
            raise Absent(f"after a timeout of {self._patience:g} s it neither sends nor receives")
        port, host, machine = said.split(" ", 2)
        is_here = machine == socket.gethostname()
        if is_loopback(host) and not is_here:
            raise Error(f"its address, {host}, holds on {machine} alone; give one that this host reaches in its "
                        "PHUB_PEER_ADDRESS")
        return self._introduced(reachable(host, self._host, is_here), int(port), rank)

    def _introduced(self, host: str, port: int, rank: int) -> socket.socket:
        """Tries again where the other end closes the connection: it has only so many that have not proved who they are."""
        deadline = time.monotonic() + self._patience
        for pause in (*_PAUSES, None):
            stream = socket.create_connection((host, port), timeout=max(0.001, deadline - time.monotonic()))
            try:
                self._prove(stream, rank, deadline)
                _settle(stream)
                return stream
            except BaseException as failure:
                stream.close()
                if not isinstance(failure, OSError) or pause is None:
                    raise
            threading.Event().wait(pause)
        raise AssertionError("the last try returns, or raises")

    def _prove(self, stream: socket.socket, rank: int, deadline: float) -> None:
        hello = _HELLO.pack(self._rank, secrets.token_bytes(_NONCE_BYTES))
        stream.sendall(hello)
        said = exactly(stream, _NONCE_BYTES + _PROOF_BYTES, deadline)
        proof = _Proof(self._trust, rank, hello, said[:_NONCE_BYTES], self._patience)
        if not hmac.compare_digest(said[_NONCE_BYTES:], proof.of("answers")):
            raise Error("who answers at its address is no rank of the group")
        stream.sendall(proof.of("connects"))


def _close(ways: Dict[str, _Ways], process: int) -> None:
    if os.getpid() == process:
        for each in ways.values():
            each.close()


class Peers:
    """Any thread."""

    def __init__(self, board: SignedBoard, trust: Trust, rank: int, size: int, servers: str, patience: float) -> None:
        """`servers` as in Options; `patience`: seconds for a message."""
        self._board, self._trust, self._rank, self._size = board, trust, rank, size
        self._servers, self._patience = servers, patience
        self._lock = threading.Lock()
        self._ways: Dict[str, _Ways] = {}  # empty, or the one
        self._process = os.getpid()
        weakref.finalize(self, _close, self._ways, self._process).atexit = False
        _all.add(self)

    def close(self) -> None:
        _close(self._ways, self._process)

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> Send:
        """Raises what is wrong with the call."""
        ways = self._opened(to)
        send = Send(tensor, to, tag, self._patience)
        ways.to(to).add(send)
        return send

    def receive(self, tensor: torch.Tensor, source: Optional[int], tag: int) -> Receive:
        """`source` None: any rank. Raises what is wrong with the call."""
        ways = self._opened(source)
        receive = Receive(tensor, source, tag, self._patience, ways.mailbox)
        ways.mailbox.want(receive)
        return receive

    def _opened(self, peer: Optional[int]) -> _Ways:
        if os.getpid() != self._process:
            raise ForkedError(f"this group belongs to process {self._process}, which forked this one")
        if peer is not None and (not 0 <= peer < self._size or peer == self._rank):
            raise ValueError(f"phub: rank {self._rank} of {self._size} cannot send to rank {peer}, or receive from it")
        with self._lock:
            if not self._ways:
                self._ways["the one"] = _Ways(self._board, self._trust, self._rank, self._size, self._servers,
                                              self._patience)
            ways = self._ways["the one"]
            if peer is not None:
                ways.to(peer)  # when it has gone a recv is told too
            return ways


_all: "weakref.WeakSet[Peers]" = weakref.WeakSet()


def _end_at_exit() -> None:
    for peers in list(_all):
        peers.close()
    wait_for_threads(_PATIENCE)


atexit.register(_end_at_exit)

"""send and recv between the ranks of a group: a port of each rank that uses them, opened when it first does.

Addresses and a secret, which keeps strangers out, are on the group's board. What goes over these connections is not
encrypted.
"""
from __future__ import annotations

import atexit
import hmac
import ipaddress
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
from phub.torch.distributed._board import Board
from phub.torch.distributed._lines import Absent, Incoming, Outgoing, end, exactly, start, wait_for_threads
from phub.torch.distributed._messages import Mailbox, Receive, Send

_SECRET = "secret of the peers"
_SECRET_BYTES = 32
_RANK = struct.Struct("<I")
_GREETING = 10.0  # seconds for who has connected to say who it is
_STRANGERS_MAX = 32  # that have not said so yet, or as many as there are ranks
_PATIENCE = 2.0  # seconds for the threads when the interpreter ends


def make_secret(board: Board) -> None:
    """Rank 0's, before anybody sends."""
    board.write(_SECRET, secrets.token_hex(_SECRET_BYTES))


def own_address(servers: str) -> Tuple[socket.AddressFamily, str]:
    """Of this host, for the others: PHUB_PEER_ADDRESS, or that from which it reaches the first of the servers."""
    chosen = os.environ.get("PHUB_PEER_ADDRESS")
    host, _, port = (chosen + ":9" if chosen else servers.split(",")[0].strip()).rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)
    except OSError as failure:
        raise Error(f"send and recv: {host} has no address ({failure}); give this host's in PHUB_PEER_ADDRESS") from None
    for family, kind, protocol, _, address in found:
        if chosen:
            return family, str(address[0])
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(address)  # of a datagram socket: nothing is sent
            except OSError:
                continue
            return family, probe.getsockname()[0]
    raise Error(f"send and recv: this host has no way to {host}; give its own address in PHUB_PEER_ADDRESS")


class _Door:
    """Where the others' connections come in; it belongs to its thread."""

    def __init__(self, family: socket.AddressFamily, host: str, secret: bytes, size: int, mailbox: Mailbox) -> None:
        self._secret, self._size, self._mailbox = secret, size, mailbox
        self._strangers: Dict[int, socket.socket] = {}  # by descriptor, in the order in which they came
        self._lock = threading.Lock()
        self._is_closed = False
        self._open: Dict[int, socket.socket] = {}  # by descriptor
        self._process = os.getpid()
        self._listener = socket.create_server((host, 0), family=family, backlog=min(size + 16, 4096))
        self.address = self._listener.getsockname()[:2]
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
                said = exactly(stream, len(self._secret) + _RANK.size, time.monotonic() + _GREETING)
                (rank,) = _RANK.unpack(said[len(self._secret):])
                if hmac.compare_digest(said[:len(self._secret)], self._secret) and rank < self._size:
                    _settle(stream)
                    line = Incoming(self._mailbox, rank, stream)
            except OSError:
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


def _settle(stream: socket.socket) -> None:
    stream.settimeout(None)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class _Ways:
    """What there is when a rank has sent or received; nobody here knows Peers, so these go when that goes."""

    def __init__(self, board: Board, rank: int, size: int, servers: str, patience: float) -> None:
        self._board, self._rank, self._patience = board, rank, patience
        self._secret = bytes.fromhex(self._read(_SECRET, "nobody has begun the group"))
        self.mailbox = Mailbox(size - 1)
        family, host = own_address(servers)
        try:
            self._door = _Door(family, host, self._secret, size, self.mailbox)
        except OSError as failure:
            raise Error(f"send and recv: no port can be opened at {host}: {failure}; give an address of this host in "
                        "PHUB_PEER_ADDRESS") from None
        board.write(f"peer {rank}", f"{self._door.address[1]} {self._door.address[0]} {socket.gethostname()}")
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

    def _read(self, name: str, otherwise: str) -> str:
        said = self._board.read(name, self._patience)
        if said is None:
            raise Absent(f"after a timeout of {self._patience:g} s {otherwise}")
        return said

    def _connect(self, rank: int) -> socket.socket:
        port, host, machine = self._read(f"peer {rank}", "it neither sends nor receives").split(" ", 2)
        if ipaddress.ip_address(host.partition("%")[0]).is_loopback and machine != socket.gethostname():
            raise Error(f"its address, {host}, holds on {machine} alone; give one that this host reaches in its "
                        "PHUB_PEER_ADDRESS")
        stream = socket.create_connection((host, int(port)), timeout=self._patience)
        _settle(stream)
        stream.sendall(self._secret + _RANK.pack(self._rank))
        return stream


def _close(ways: Dict[str, _Ways], process: int) -> None:
    if os.getpid() == process:
        for each in ways.values():
            each.close()


class Peers:
    """Any thread."""

    def __init__(self, board: Board, rank: int, size: int, servers: str, patience: float) -> None:
        """`servers` as in Options; `patience`: seconds for a message."""
        self._board, self._rank, self._size = board, rank, size
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
                self._ways["the one"] = _Ways(self._board, self._rank, self._size, self._servers, self._patience)
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

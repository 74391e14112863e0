"""Keeps one host's processes of a run. phubrun sends this file to each host, whose python3 runs it: nothing of the
package need be there.

Orders come on standard input and reports go out on standard output, each a JSON object on a line. A mark that phubrun chose
begins each report, for others may print there too. Its processes live no longer than it. When its input ends, or nobody has
spoken for some time, it asks them to end, kills them, and ends.
"""
from __future__ import annotations

import codecs
import collections
import ctypes
import json
import os
import re
import select
import selectors
import signal
import socket
import subprocess
import time
from typing import Any, Deque, Dict, List, Optional, Tuple

_LINE_MAX = 65536  # characters; of a longer line a part is reported before its end is there
_SHOWN_AFTER = 0.1  # seconds; so is a line whose end does not come, as a bar's or a question's
_END = re.compile("(\r\n|\r|\n)")
_READ_BYTES = 65536
_LAST_READS = 17  # of one that has ended: what a pipe holds at most
_ORDER_BYTES_MAX = 16 << 20
_REPORTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Kept:
    """A process in a process group of its own."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name, self.process = name, process
        self.ended = os.pidfd_open(process.pid)
        assert process.stdout is not None
        self.output = process.stdout
        os.set_blocking(self.output.fileno(), False)
        self.is_read = True  # its output
        self.shown_at: Optional[float] = None  # when what has no end yet is reported all the same
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def said(self, data: bytes) -> List[Tuple[str, str]]:
        """What can be reported: lines, each with its end, and a part of a line that is too long to wait for. `data` b"": no
        more comes."""
        *ended, self._rest = _END.split(self._rest + self._decoder.decode(data, not data))
        parts = [(text, end[-1]) for text, end in zip(ended[::2], ended[1::2])]
        if not self._rest:
            self.shown_at = None
        elif not data or len(self._rest) > _LINE_MAX:
            parts += self.unfinished()
        elif parts or self.shown_at is None:
            self.shown_at = time.monotonic() + _SHOWN_AFTER
        return parts

    def unfinished(self) -> List[Tuple[str, str]]:
        """What has no end yet, if there is something."""
        text, self._rest, self.shown_at = self._rest, "", None
        return [(text, "")] if text else []

    def send(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


def _held_port() -> socket.socket:
    """Holds a port, for the workers' own meeting or for a server: bound, and not listened on. A program that asks for any
    port gets another one. A program that asks for this one by its number and with SO_REUSEADDR, as PyTorch and phub-server
    do, gets it."""
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            held = socket.socket(family)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            held.bind(("", 0))
            return held
        except OSError:
            if family == socket.AF_INET:
                raise
    raise AssertionError


class Keeper:
    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._kept: Dict[str, Kept] = {}
        self._orders: Deque[bytes] = collections.deque()
        self._rest = b""
        self._grace, self._silence = 10.0, 60.0
        self._heard = time.monotonic()
        self._held = [_held_port()]  # until the end
        self._is_alone = False  # nobody gives orders any more
        self._kill_at: Optional[float] = None
        self._selector = selectors.DefaultSelector()
        self._signals, wakeup = socket.socketpair()
        self._signals.setblocking(False)
        wakeup.setblocking(False)
        self._wakeup = wakeup  # stays open
        for number in _REPORTED:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(wakeup.fileno())
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        self._selector.register(0, selectors.EVENT_READ, self._read_orders)
        os.set_blocking(0, False)
        os.set_blocking(1, False)

    def run(self) -> None:
        held, = self._held
        self._report(there=os.getpid(), port=held.getsockname()[1], cpus=len(os.sched_getaffinity(0)),
                     ipv6=held.family == socket.AF_INET6)
        while self._kept or not self._is_alone:
            ends = [end for end in (self._kill_at if self._is_alone else self._heard + self._silence,
                                    *(each.shown_at for each in self._kept.values())) if end is not None]
            for key, _ in self._selector.select(max(0.0, min(ends) - time.monotonic()) if ends else None):
                key.data()
            for each in self._kept.values():
                if each.shown_at is not None and time.monotonic() >= each.shown_at:
                    self._report(of=each.name, said=each.unfinished())
            while self._orders:
                self._obey(json.loads(self._orders.popleft()))
            now = time.monotonic()
            if not self._is_alone and now >= self._heard + self._silence:
                self._be_alone()
            if self._kill_at is not None and now >= self._kill_at:
                self._kill_at = None
                for each in self._kept.values():
                    each.send(signal.SIGKILL)

    def _report(self, **what: Any) -> None:
        """Waits for who does not read as long as they speak."""
        left = self._mark + json.dumps(what).encode() + b"\n"
        while left and not self._is_alone:
            end = self._heard + self._silence
            readable, writable, _ = select.select([0], [1], [], max(0.0, end - time.monotonic()))
            if readable:
                self._read_orders()
            try:
                left = left[os.write(1, left):]
            except BlockingIOError:
                if not readable and not writable:
                    self._be_alone()
            except OSError:
                self._be_alone()

    def _be_alone(self) -> None:
        if self._is_alone:
            return
        self._is_alone = True
        self._orders.clear()
        self._selector.unregister(0)
        self._kill_at = time.monotonic() + self._grace
        for each in self._kept.values():
            each.send(signal.SIGTERM)

    def _on_signals(self) -> None:
        """What to do about them is phubrun's to say: it knows the processes of all hosts."""
        for number in self._signals.recv(64):
            if number in _REPORTED:
                self._report(signal=number)

    def _read_orders(self) -> None:
        try:
            data = os.read(0, _READ_BYTES)
        except BlockingIOError:
            return  # read in the same turn
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._orders.extend(lines)
        self._heard = time.monotonic()
        if not data or len(self._rest) > _ORDER_BYTES_MAX:
            self._be_alone()

    def _obey(self, order: Dict[str, Any]) -> None:
        self._grace = order.get("grace", self._grace)
        self._silence = order.get("silence", self._silence)
        if "hold" in order:
            more = [_held_port() for _ in range(order["hold"])]
            self._held += more
            self._report(ports=[held.getsockname()[1] for held in more])
        if "start" in order:
            self._start(order["start"], order["command"], order["environment"], order["folder"])
        if "signal" in order and order["to"] in self._kept:
            self._kept[order["to"]].send(order["signal"])

    def _start(self, name: str, command: List[str], environment: Dict[str, str], folder: str) -> None:
        if not os.path.isdir(folder):
            self._report(of=name, not_started=f"there is no folder {folder}: share it, or name another with --folder")
            return
        try:
            process = subprocess.Popen(
                command, env={**os.environ, **environment}, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_end_with_parent)
        except OSError as error:
            self._report(of=name, not_started=f"{command[0]}: {error.strerror}", is_missing=error.errno == 2)
            return
        kept = self._kept[name] = Kept(name, process)
        self._selector.register(kept.output, selectors.EVENT_READ, lambda: self._on_output(kept))
        self._selector.register(kept.ended, selectors.EVENT_READ, lambda: self._on_end(kept))

    def _on_output(self, kept: Kept) -> bool:
        """Whether there may be more."""
        if not kept.is_read:
            return False  # its end came in the same turn
        try:
            data = os.read(kept.output.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if parts := kept.said(data):
            self._report(of=kept.name, said=parts)
        if not data:
            self._stop_reading(kept)
        return bool(data)

    def _stop_reading(self, kept: Kept) -> None:
        kept.is_read = False
        self._selector.unregister(kept.output)

    def _on_end(self, kept: Kept) -> None:
        self._selector.unregister(kept.ended)
        kept.send(signal.SIGKILL)  # to what it left behind; until it is waited for the number is its own
        status = kept.process.wait()
        # What it said before. A process that it left behind may hold the pipe: that is not waited for.
        for _ in range(_LAST_READS):
            if not self._on_output(kept):
                break
        if kept.is_read:
            self._stop_reading(kept)
        if parts := kept.said(b""):
            self._report(of=kept.name, said=parts)
        os.close(kept.ended)
        kept.output.close()
        del self._kept[kept.name]
        self._report(of=kept.name, ended=status)


if __name__ == "__main__":
    Keeper(mark).run()  # noqa: F821: what reads this file has it

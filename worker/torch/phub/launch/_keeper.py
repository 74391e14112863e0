"""Keeps one host's processes of a run. phubrun sends this file to each host, whose python3 runs it: nothing of the
package need be there.

Orders come on standard input and reports go out on standard output, each a JSON object on a line. Its processes live no
longer than it. When its input ends, or nobody has spoken for some time, it asks them to end, kills them, and ends.
"""
from __future__ import annotations

import collections
import ctypes
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import time
from typing import Any, Deque, Dict, List, Optional

LINE_BYTES_MAX = 65536  # of what a process says; a longer line is cut into several
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
        self.rest = b""
        self.is_read = True  # its output

    def send(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Keeper:
    def __init__(self) -> None:
        self._kept: Dict[str, Kept] = {}
        self._orders: Deque[bytes] = collections.deque()
        self._rest = b""
        self._grace, self._silence = 10.0, 60.0
        self._heard = time.monotonic()
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
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        self._report(there=os.getpid(), port=port, cpus=len(os.sched_getaffinity(0)))
        while self._kept or not self._is_alone:
            end = self._kill_at if self._is_alone else self._heard + self._silence
            for key, _ in self._selector.select(None if end is None else max(0.0, end - time.monotonic())):
                key.data()
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
        left = json.dumps(what).encode() + b"\n"
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
        *lines, kept.rest = (kept.rest + data).split(b"\n")
        if kept.rest and (not data or len(kept.rest) > LINE_BYTES_MAX):
            lines.append(kept.rest)
            kept.rest = b""
        if lines:
            self._report(of=kept.name, said=[line.decode(errors="replace").rstrip("\r") for line in lines])
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
        if kept.rest:
            self._report(of=kept.name, said=[kept.rest.decode(errors="replace")])
        os.close(kept.ended)
        kept.output.close()
        del self._kept[kept.name]
        self._report(of=kept.name, ended=status)


if __name__ == "__main__":
    Keeper().run()

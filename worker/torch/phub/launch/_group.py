"""Processes that live and end together: their output line by line, their signals, who failed first.

One thread, which sleeps until one of them says something or ends, or a signal comes.
"""
from __future__ import annotations

import collections
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Deque, Dict, List, Optional, Pattern

LAST_LINES = 20
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Member:
    """A process of the group, in a process group of its own."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", is_server: bool) -> None:
        self.name, self.process, self.is_server = name, process, is_server
        self.ended = os.pidfd_open(process.pid)
        self.is_running = True
        self.last_lines: Deque[str] = collections.deque(maxlen=LAST_LINES)
        self.found: Any = None  # of wait_for_line
        self._awaited: Optional[Pattern[str]] = None
        self._rest = b""

    @property
    def status(self) -> int:
        return 0 if self.process.returncode is None else self.process.returncode

    def expect(self, line: Pattern[str]) -> None:
        self._awaited = line

    def say(self, data: bytes) -> None:
        """Prints whole lines; nothing: what is left."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            lines, self._rest = [self._rest], b""
        for raw in lines:
            line = raw.decode(errors="replace").rstrip("\r")
            self.last_lines.append(line)
            if self._awaited and (match := self._awaited.search(line)):
                self.found, self._awaited = match, None
                continue  # for us, not for who looks on
            print(f"[{self.name}] {line}", flush=True)

    def send(self, number: int) -> None:
        if self.is_running:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass


class Group:
    """Takes over the process's signals until end()."""

    def __init__(self, grace: float) -> None:
        self.signal = 0  # the first that ended the group
        self._grace = grace
        self._members: List[Member] = []
        self._selector = selectors.DefaultSelector()
        self._first_failure: Optional[Member] = None
        self._kill_at: Optional[float] = None
        self._signals, wakeup = socket.socketpair()
        self._signals.setblocking(False)
        wakeup.setblocking(False)
        self._wakeup = wakeup  # stays open
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        self._before: Dict[int, Any] = {number: signal.signal(number, lambda *_: None) for number in _FORWARDED}
        self._fd_before = signal.set_wakeup_fd(wakeup.fileno())

    def start(self, name: str, command: List[str], environment: Dict[str, str], is_server: bool = False) -> Member:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        member = Member(name, process, is_server)
        self._members.append(member)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, lambda: self._on_output(member))
        self._selector.register(member.ended, selectors.EVENT_READ, lambda: self._on_end(member))
        return member

    def wait_for_line(self, member: Member, line: Pattern[str]) -> Any:
        """The line's match; None: the process has ended, or the group is ending."""
        member.expect(line)
        while member.found is None and member.is_running and self._kill_at is None:
            self._turn()
        return member.found

    def wait(self) -> Optional[Member]:
        """Until no worker is left. Who failed first; None: nobody."""
        while any(each.is_running and not each.is_server for each in self._members):
            self._turn()
        return self._first_failure

    def end(self) -> None:
        """Nothing of the group is left running."""
        failed = self._first_failure  # servers that end now do not fail
        self._ask_all_to_end()
        while any(each.is_running for each in self._members):
            self._turn()
        self._first_failure = failed
        for each in self._members:
            assert each.process.stdout is not None
            each.process.stdout.close()
            os.close(each.ended)
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._selector.close()
        self._signals.close()
        self._wakeup.close()

    def _turn(self) -> None:
        left = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
        for key, _ in self._selector.select(left):
            key.data()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            for each in self._members:
                each.send(signal.SIGKILL)
            self._kill_at = time.monotonic() + self._grace

    def _ask_all_to_end(self, number: int = signal.SIGTERM) -> None:
        for each in self._members:
            each.send(number)
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace

    def _on_signals(self) -> None:
        for number in self._signals.recv(64):
            if number in _ENDING:
                self.signal = self.signal or number
                print(f"phubrun: {signal.Signals(number).name}: ending", file=sys.stderr, flush=True)
                self._ask_all_to_end(number)
            elif number in _FORWARDED:
                for each in self._members:
                    if not each.is_server:
                        each.send(number)

    def _on_output(self, member: Member) -> None:
        assert member.process.stdout is not None
        if member.process.stdout.fileno() not in self._selector.get_map():
            return  # its end came in the same turn
        try:
            data = os.read(member.process.stdout.fileno(), 65536)
        except BlockingIOError:
            return
        member.say(data)
        if not data:
            self._selector.unregister(member.process.stdout)

    def _on_end(self, member: Member) -> None:
        self._selector.unregister(member.ended)
        member.send(signal.SIGKILL)  # to what it left behind; until it is waited for the number is its own
        member.process.wait()
        member.is_running = False
        self._drain(member)
        # A server that ends while its workers run has failed, however it ended.
        has_failed = member.status != 0 or (member.is_server and self._kill_at is None)
        if has_failed and self._kill_at is None:
            self._first_failure = member
            self._ask_all_to_end()

    def _drain(self, member: Member) -> None:
        """What it said before it ended. A process that it left behind may hold the pipe: that is not waited for."""
        assert member.process.stdout is not None
        stream = member.process.stdout
        if stream.fileno() not in self._selector.get_map():
            return
        while True:
            try:
                data = os.read(stream.fileno(), 65536)
            except BlockingIOError:
                break
            member.say(data)
            if not data:
                break
        member.say(b"")
        self._selector.unregister(stream)


def ended_how(status: int) -> str:
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

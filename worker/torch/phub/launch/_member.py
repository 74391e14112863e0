"""A worker or a server of the run, on one of its hosts, and where its lines go."""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import signal
import sys
from typing import Any, Deque, Iterable, List, NamedTuple, Optional, Pattern, TextIO

from phub.launch._host import LAST_LINES, Host


class Failure(NamedTuple):
    what: str
    status: int  # of phubrun
    last_lines: List[str]


class Member:
    def __init__(self, name: str, host: Host, is_server: bool, folder: Optional[pathlib.Path]) -> None:
        """`folder`: its lines go to a file there, instead of standard output."""
        self.name, self.host, self.is_server = name, host, is_server
        self.is_running = True
        self.is_missing = False  # its program
        self.status = 0
        self.last_lines: Deque[str] = collections.deque(maxlen=LAST_LINES)
        self.found: Any = None  # of wait_for_line
        self._awaited: Optional[Pattern[str]] = None
        self._file: Optional[TextIO] = None
        if folder is not None:
            self._file = open(folder / f"{name.replace(' ', '-')}.log", "w", encoding="utf-8")

    def expect(self, line: Pattern[str]) -> None:
        self._awaited = line

    def say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.last_lines.append(line)
            if self._awaited and (match := self._awaited.search(line)):
                self.found, self._awaited = match, None  # for us, not for who looks on
            elif self._file is not None:
                self._write(line)
            else:
                _print(f"[{self.name}] {line}")

    def send(self, number: int) -> None:
        if self.is_running:
            self.host.order(signal=number, to=self.name)

    def end(self, status: int) -> None:
        self.is_running, self.status = False, status
        if self._file is not None:
            self._file.close()

    def _write(self, line: str) -> None:
        """Where the disk is full the run is asked to end in its order, once for each file."""
        assert self._file is not None
        try:
            print(line, file=self._file, flush=True)
        except OSError as error:
            name = self._file.name
            with contextlib.suppress(OSError):
                self._file.close()  # with what is left in its buffer
            with contextlib.suppress(OSError):
                print(f"phubrun: {name}: {error.strerror}; the run ends", file=sys.stderr)
            self._file = open(os.devnull, "w", encoding="utf-8")
            signal.raise_signal(signal.SIGTERM)

    def failure(self, is_far: bool) -> Failure:
        where = f" on {self.host.name}" if is_far else ""
        how = f"was ended by {_signal_name(-self.status)}" if self.status < 0 else f"ended with status {self.status}"
        return Failure(f"{self.name}{where} failed first: it {how}. Its last lines:",
                       128 - self.status if self.status < 0 else self.status or 1, list(self.last_lines))


_is_heard = True


def _print(line: str) -> None:
    """Where nobody reads any more (`| head`) the run is asked to end, once, in its order."""
    global _is_heard
    if not _is_heard:
        return
    try:
        print(line, flush=True)
    except OSError:
        _is_heard = False
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # what is left in its buffer would be tried again at the end
        signal.raise_signal(signal.SIGTERM)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time one

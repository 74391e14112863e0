"""A worker or a server of the run, on one of its hosts, and where its lines go."""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import signal
from typing import Any, Deque, Iterable, List, NamedTuple, Optional, Pattern, TextIO, Tuple

from phub.launch._host import LAST_LINES, Host
from phub.launch._screen import Screen, harmless

_LINE_MAX = 65536  # characters that are kept of a line


def file_name(member: str) -> str:
    return member.replace(" ", "-").replace("/", "+")


class Failure(NamedTuple):
    what: str
    status: int  # of phubrun
    last_lines: List[str]


class Member:
    def __init__(self, name: str, host: Host, is_server: bool, folder: Optional[pathlib.Path], screen: Screen) -> None:
        """`folder`: its lines go to a file there, instead of the screen."""
        self.name, self.host, self.is_server = name, host, is_server
        self.is_running = True
        self.is_missing = False  # its program
        self.status = 0
        self.last_lines: Deque[str] = collections.deque(maxlen=LAST_LINES)
        self.found: Any = None  # of wait_for_line
        self._line = ""  # what has no end yet
        self._is_back = False  # it ended with a carriage return: what follows is written over it
        self._awaited: Optional[Pattern[str]] = None
        self._screen = screen
        self._file: Optional[TextIO] = None
        if folder is not None:
            self._file = open(folder / f"{file_name(name)}.log", "w", encoding="utf-8", errors="backslashreplace",
                              newline="")

    def expect(self, line: Pattern[str]) -> None:
        self._awaited = line

    def say(self, parts: Iterable[Tuple[str, str]]) -> None:
        """Each a text and its end: "\\n", "\\r", or "" where the line goes on."""
        for text, end in parts:
            if self.host.place.is_far:
                text = harmless(text)
            line = self._joined(text, end)
            if self._awaited is None:
                self._show(text, end)
            elif line is not None:  # for us, or for who looks on
                if match := self._awaited.search(line):
                    self.found, self._awaited = match, None
                else:
                    self._show(line, "\n")

    def _joined(self, text: str, end: str) -> Optional[str]:
        """The line that ends here."""
        if text and self._is_back:
            self._line, self._is_back = "", False
        self._line = (self._line + text)[-_LINE_MAX:]
        self._is_back = self._is_back or end == "\r"
        if end != "\n":
            return None
        line, self._line, self._is_back = self._line, "", False
        self.last_lines.append(line)
        return line

    def send(self, number: int) -> None:
        if self.is_running:
            self.host.order(signal=number, to=self.name)

    def end(self, status: int) -> None:
        self.is_running, self.status = False, status
        if self._line:
            self.last_lines.append(self._line)
            if self._awaited is not None:
                self._show(self._line, "\n")
        self._screen.end_line(self.name)
        if self._file is not None:
            self._file.close()

    def _show(self, text: str, end: str) -> None:
        if self._file is None:
            self._screen.say(self.name, text, end)
        else:
            self._write(text + end)

    def _write(self, text: str) -> None:
        """Where the disk is full the run is asked to end in its order, once for each file."""
        assert self._file is not None
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            name = self._file.name
            with contextlib.suppress(OSError):
                self._file.close()  # with what is left in its buffer
            with contextlib.suppress(OSError):
                self._screen.note(f"phubrun: {name}: {error.strerror}; the run ends")
            self._file = open(os.devnull, "w", encoding="utf-8")
            signal.raise_signal(signal.SIGTERM)

    def failure(self, is_far: bool) -> Failure:
        where = f" on {self.host.name}" if is_far else ""
        how = f"was ended by {_signal_name(-self.status)}" if self.status < 0 else f"ended with status {self.status}"
        return Failure(f"{self.name}{where} failed first: it {how}. Its last lines:",
                       128 - self.status if self.status < 0 else self.status or 1, list(self.last_lines))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time one

"""A host of the run, seen from phubrun: the connection to its keeper, and what that says."""
from __future__ import annotations

import collections
import json
import os
import pathlib
import secrets
import subprocess
import threading
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional

from phub.launch._places import Place
from phub.launch._screen import Screen, harmless

LAST_LINES = 20
_KEEPER = pathlib.Path(__file__).with_name("_keeper.py")
_READ_BYTES = 65536
_REPORT_BYTES_MAX = 16 << 20


class Host:
    """`orders` may come from several threads; the rest is for one."""

    def __init__(self, place: Place, screen: Screen) -> None:
        self.name, self.place = place.name, place
        self.there: Dict[str, int] = {}  # what it says when it is: a port that it holds, its CPUs, whether it has IPv6
        self.ports: List[int] = []  # that it holds for servers
        self.is_running = True
        self.last_lines: Deque[str] = collections.deque(maxlen=LAST_LINES)  # what ssh or srun say, or its shell
        self.process = subprocess.Popen(place.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.ended = os.pidfd_open(self.process.pid)
        self._screen = screen
        # Before each report: a login file may print what looks like one, or a line without an end.
        self._mark = f"phubrun-{secrets.token_hex(8)} "
        self._lock = threading.Lock()
        self._rest = {self.stdout: b"", self.stderr: b""}
        for stream in self._rest:
            os.set_blocking(stream.fileno(), False)
        self._write([_KEEPER.read_text(encoding="utf-8"), self._mark])

    def order(self, **what: Any) -> None:
        self._write(what)

    def _write(self, what: Any) -> None:
        """Nothing where nobody listens any more: that is seen by its end."""
        data = json.dumps(what).encode() + b"\n"
        with self._lock:
            if self.stdin.closed:
                return
            try:
                self.stdin.write(data)
                self.stdin.flush()
            except OSError:
                pass

    def leave(self) -> None:
        """Its keeper ends what is left there, and then itself."""
        with self._lock:
            try:
                self.stdin.close()
            except OSError:
                pass

    def read(self, stream: Any, on_report: Callable[[Dict[str, Any]], None]) -> Optional[int]:
        """Bytes; 0 at its end, None where there are none now. Lines that are no reports are said for it."""
        try:
            data = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return None
        for line in self._lines(stream, data):
            other, mark, rest = line.partition(self._mark) if stream is self.stdout else (line, "", "")
            report = _parsed(rest) if mark else None
            if report is None:
                self.say(line)
                continue
            if other:
                self.say(other)
            on_report(report)
        return len(data)

    def _lines(self, stream: Any, data: bytes) -> Iterator[str]:
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        if rest and (not data or len(rest) > _REPORT_BYTES_MAX):
            lines.append(rest)
            rest = b""
        self._rest[stream] = rest
        return (line.decode(errors="replace").rstrip("\r") for line in lines)

    def say(self, line: str) -> None:
        line = harmless(line)
        self.last_lines.append(line)
        self._screen.note(f"phubrun: {self.name}: {line}")

    def close(self) -> None:
        self.leave()
        self.stdout.close()
        self.stderr.close()
        os.close(self.ended)


_KINDS = {"there": int, "port": int, "cpus": int, "ipv6": bool, "of": str, "ended": int, "ports": list, "not_started": str, "is_missing": bool,
          "signal": int, "said": list}
_ENDS = ("\n", "\r", "")


def _parsed(line: str) -> Any:
    """A report, or None: a host that says something else must not end phubrun."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or any(not isinstance(value, _KINDS.get(name, type(None))) for name, value in report.items()):
        return None
    if "there" in report and not ({"port", "cpus", "ipv6"} <= report.keys() and report["cpus"] > 0):
        return None
    if not all(type(port) is int and 0 < port < 65536 for port in report.get("ports", ())):
        return None
    is_said = all(isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) and part[1] in _ENDS
                  for part in report.get("said", ()))
    return report if is_said else None

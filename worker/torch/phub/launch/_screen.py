"""What phubrun prints: lines of several processes on one standard output, each with its process's name before it.

A progress bar, which a process writes with carriage returns, is drawn over itself as on a terminal of its own.
For one thread.
"""
from __future__ import annotations

import os
import re
import signal
import sys
from typing import Dict, Optional

# Control characters but for the tab, and those that change the direction of text or end a line.
_HARMFUL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_TEXT_MAX = 4096  # characters of a bar that are drawn again
_ERASE = "\r\x1b[K"


def harmless(text: str) -> str:
    """With control characters written as \\x1b: what another host says must not command this terminal."""
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class Screen:
    """Standard output; and standard error for phubrun's own words."""

    def __init__(self) -> None:
        self._owner: Optional[str] = None  # whose line has no end yet
        self._text = ""  # of that line
        self._is_back = False  # that line ended with a carriage return: what follows is written over it
        self._cut: Dict[str, str] = {}  # lines without an end that others took the place of: what is gone of them
        self._is_heard = True

    def say(self, name: str, text: str, end: str) -> None:
        """`end`: "\\n", "\\r", or "" where the line goes on."""
        is_own = self._owner == name
        if not text and end == "\r":
            self._is_back = self._is_back or is_own
            return
        gone = self._cut.pop(name, None)
        if not text and gone is not None:
            if not gone:
                return  # its line stands there, and has ended
            text = gone
        if is_own and (not self._is_back or (not text and end == "\n")):
            shown, self._text = text, (self._text + text)[-_TEXT_MAX:]
        else:
            shown = f"{'' if self._owner is None else self._between(is_own)}[{name}] {text}"
            self._text = text
        self._owner, self._is_back = (None, False) if end == "\n" else (name, end == "\r")
        self._write(shown + ("\n" if end == "\n" else ""))

    def note(self, text: str) -> None:
        """A line of phubrun's own."""
        self.end_line()
        print(text, file=sys.stderr, flush=True)

    def end_line(self, name: Optional[str] = None) -> None:
        """Ends the open line, if it is of `name`; None: whichever process's it is."""
        if self._owner is not None and name in (None, self._owner):
            self._cut[self._owner] = ""
            self._owner, self._is_back = None, False
            self._write("\n")

    def _between(self, is_own: bool) -> str:
        """From a line without an end to the next one. A bar of another process is erased where that can be: it comes again."""
        if is_own or self._owner is None:
            return "\r"
        is_erased = self._is_back and sys.stdout.isatty()
        self._cut[self._owner] = self._text if is_erased else ""
        return _ERASE if is_erased else "\n"

    def _write(self, text: str) -> None:
        """Where nobody reads any more (`| head`) the run is asked to end, once, in its order."""
        if not self._is_heard:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            self._is_heard = False
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # what is left in its buffer would be tried again at the end
            signal.raise_signal(signal.SIGTERM)

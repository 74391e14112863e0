"""Processes on several hosts that live and end together: their lines, their signals, who failed first.

One thread, which sleeps until a host says something or ends, or a signal comes; a second one tells the hosts that we live.
"""
from __future__ import annotations

import collections
import pathlib
import selectors
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Pattern

from phub.launch._host import Host
from phub.launch._member import Failure, Member
from phub.launch._places import Place
from phub.launch._screen import Screen

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_WORDS_IN_A_SILENCE = 4


class Manner(NamedTuple):
    """How a run goes. Seconds."""
    grace: float  # from asking processes to end until they are killed
    deadline: float  # for a host to answer
    silence: float  # after which a host's processes end, if it hears nothing of us
    output: Optional[pathlib.Path] = None  # a folder for the lines, instead of standard output


class Group:
    """Takes over the process's signals until end()."""

    def __init__(self, manner: Manner) -> None:
        self.signal = 0  # the first that ended the group
        self.failure: Optional[Failure] = None  # the first
        self.hosts: List[Host] = []
        self.screen = Screen()
        self._manner = manner
        self._members: Dict[str, Member] = {}
        self._selector = selectors.DefaultSelector()
        self._is_ending = False
        self._ends: List[float] = []  # when more is done to those that were asked to end
        self._told: Dict[str, "collections.Counter[int]"] = {}  # signals, by who says them
        self._signals, wakeup = socket.socketpair()
        self._signals.setblocking(False)
        wakeup.setblocking(False)
        self._wakeup = wakeup  # stays open
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)
        self._before: Dict[int, Any] = {number: signal.signal(number, lambda *_: None) for number in _FORWARDED
                                       if signal.getsignal(number) is not signal.SIG_IGN}  # as under nohup
        self._fd_before = signal.set_wakeup_fd(wakeup.fileno())
        self._is_over = threading.Event()
        self._speaker = threading.Thread(target=self._speak, daemon=True)

    def reach(self, places: Iterable[Place]) -> None:
        """Raises OSError with who cannot be reached, and the cure."""
        for place in places:
            try:
                host = Host(place, self.screen)
            except FileNotFoundError as error:
                raise OSError(f"{error.filename} is not on the path") from None
            self.hosts.append(host)
            host.order(grace=self._manner.grace, silence=self._manner.silence)
            self._listen(host)
        self._speaker.start()
        end = time.monotonic() + self._manner.deadline
        while not self._is_ending:
            late = [host for host in self.hosts if not host.there]
            lost = [host for host in late if not host.is_running]
            if not late:
                return
            if lost or time.monotonic() >= end:
                raise OSError("; ".join(self._unreached(host) for host in lost or late))
            self._turn(end)
        raise OSError("ended before all hosts answered")

    def hold_ports(self, host: Host, count: int) -> List[int]:
        """Ports of the host that nobody else gets by chance while the run lasts. Raises OSError."""
        host.order(hold=count)
        end = time.monotonic() + self._manner.deadline
        while len(host.ports) < count and host.is_running and not self._is_ending and time.monotonic() < end:
            self._turn(end)
        if len(host.ports) < count:
            raise OSError(f"{host.name} has not said which ports it holds, within {self._manner.deadline:g} s (--deadline)")
        return host.ports

    def _unreached(self, host: Host) -> str:
        said = "".join(f" ({line})" for line in list(host.last_lines)[-1:])
        when = "" if not host.is_running else f" within {self._manner.deadline:g} s (--deadline)"
        return f"{host.name} cannot be reached{when}{said}: {host.place.cure}"

    def _listen(self, host: Host) -> None:
        for stream in (host.stdout, host.stderr):
            self._selector.register(stream, selectors.EVENT_READ, self._reader(host, stream))
        self._selector.register(host.ended, selectors.EVENT_READ, lambda: self._on_host_end(host))

    def _reader(self, host: Host, stream: Any) -> Callable[[], None]:
        def read() -> None:
            # Its end may have come in the same turn.
            if stream in self._selector.get_map() and host.read(stream, lambda what: self._on_report(host, what)) == 0:
                self._selector.unregister(stream)
        return read

    def start(self, name: str, host: Host, command: List[str], environment: Dict[str, str], folder: str,
              is_server: bool = False) -> Member:
        """Raises OSError where the group is ending."""
        if self._is_ending:
            raise OSError(self.failure.what if self.failure else "ended before all had started")
        member = self._members[name] = Member(name, host, is_server, self._manner.output, self.screen)
        host.order(start=name, command=command, environment=environment, folder=folder)
        return member

    def wait_for_line(self, member: Member, line: Pattern[str]) -> Any:
        """The line's match; None: the process has ended, the group is ending, or the deadline is over."""
        member.expect(line)
        end = time.monotonic() + self._manner.deadline
        while member.found is None and member.is_running and not self._is_ending and time.monotonic() < end:
            self._turn(end)
        return member.found

    def wait(self) -> Optional[Failure]:
        """Until no worker is left. Who failed first; None: nobody."""
        while self._running(is_server=False):
            self._turn()
        return self.failure

    def end(self) -> None:
        """Nothing of the group is left running: workers end, then servers, then what kept them."""
        if not self._is_ending:
            self._ask_to_end(False, signal.SIGTERM)
        while self._running(is_server=False):
            self._turn()
        self._ask_to_end(True, signal.SIGTERM)
        while self._running(is_server=True):
            self._turn()
        self._is_over.set()
        self._set_ends()
        for host in self.hosts:
            host.leave()
            if not host.there:
                host.process.terminate()
        while any(host.is_running for host in self.hosts):
            self._turn()
        for host in self.hosts:
            host.close()
        signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._selector.close()
        self._signals.close()
        self._wakeup.close()

    def _running(self, is_server: bool) -> List[Member]:
        return [each for each in self._members.values() if each.is_running and each.is_server == is_server]

    def _speak(self) -> None:
        while not self._is_over.wait(self._manner.silence / _WORDS_IN_A_SILENCE):
            for host in self.hosts:
                host.order()

    def _turn(self, end: Optional[float] = None) -> None:
        ends = self._ends[:1] + ([] if end is None else [end])
        left = max(0.0, min(ends) - time.monotonic()) if ends else None
        for key, _ in self._selector.select(left):
            key.data()
        if self._ends and time.monotonic() >= self._ends[0]:
            del self._ends[0]
            self._do_more()

    def _do_more(self) -> None:
        """To those that should have ended: they are killed, and where that is not answered, the way to them is."""
        late = self._running(is_server=False) or self._running(is_server=True)
        for each in late:
            each.send(signal.SIGKILL)
        if not self._ends:
            for host in [each.host for each in late] or self.hosts:
                if host.is_running:
                    host.process.kill()

    def _set_ends(self) -> None:
        self._ends = [time.monotonic() + self._manner.grace * times for times in (1, 2)]

    def _ask_to_end(self, is_server: bool, number: int) -> None:
        running = self._running(is_server)
        if is_server or not self._is_ending:
            self._set_ends()
        self._is_ending = True
        for each in running:
            each.send(number)

    def _on_signals(self) -> None:
        for number in self._signals.recv(64):
            self._on_signal("phubrun", number)

    def _on_signal(self, source: str, number: int) -> None:
        """One that comes to several hosts, as from Slurm, is sent on once."""
        counts = [told[number] for told in self._told.values()]
        own = self._told.setdefault(source, collections.Counter())
        own[number] += 1
        if number not in _FORWARDED or own[number] <= max(counts, default=0):
            return
        if number in _ENDING:
            self.signal = self.signal or number
            self.screen.note(f"{source}: {signal.Signals(number).name}: ending")
            self._ask_to_end(False, number)
        else:
            for each in self._running(is_server=False):
                each.send(number)

    def _on_report(self, host: Host, report: Dict[str, Any]) -> None:
        if "there" in report:
            host.there = report
        elif "ports" in report:
            host.ports += report["ports"]
        elif "signal" in report:
            self._on_signal(host.name, report["signal"])
        elif (member := self._members.get(report.get("of", ""))) and member.host is host and member.is_running:
            if "said" in report:
                member.say(report["said"])
            elif "not_started" in report:
                member.is_missing = report.get("is_missing", False)
                member.say([(f"could not be started: {report['not_started']}", "\n")])
                self._on_member_end(member, 127 if member.is_missing else 126)
            elif "ended" in report:
                self._on_member_end(member, report["ended"])

    def _on_member_end(self, member: Member, status: int) -> None:
        member.end(status)
        # A server that ends while its workers run has failed, however it ended.
        if not self._is_ending and (status != 0 or member.is_server):
            self.failure = member.failure(is_far=len(self.hosts) > 1)
            self._ask_to_end(False, signal.SIGTERM)

    def _on_host_end(self, host: Host) -> None:
        self._selector.unregister(host.ended)
        for stream in (host.stdout, host.stderr):  # what was said before; others may hold the pipe
            if stream in self._selector.get_map():
                while host.read(stream, lambda what: self._on_report(host, what)):
                    pass
                self._selector.unregister(stream)
        status = host.process.wait()
        host.is_running = False
        lost = [each for each in self._members.values() if each.is_running and each.host is host]
        for each in lost:
            each.end(-signal.SIGKILL)
        if lost and not self._is_ending:
            self.failure = Failure(f"the way to {host.name} ended first ({host.process.args[0]}, {status}), "
                                   f"with {', '.join(each.name for each in lost)}. Its last lines:", 1,
                                   list(host.last_lines))
            self._ask_to_end(False, signal.SIGTERM)

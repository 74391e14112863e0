"""A barrier that names the ranks that do not come, over the group's board: it needs nothing of the ranks but that they
reach the store. Its messages are those of PyTorch's own."""
from __future__ import annotations

import time
from typing import List

from phub.errors import Error
from phub.torch.distributed._trust import SignedBoard


class Monitor:
    """One thread at a time."""

    def __init__(self, board: SignedBoard, rank: int, size: int) -> None:
        self._board, self._rank, self._size = board, rank, size
        self._count = 0

    def wait(self, seconds: float, all_ranks: bool) -> None:
        """Every rank calls it, and as often as the others: one that leaves one out is a call behind from then on. Raises
        Error where not all come within `seconds`: at rank 0 naming the first that did not, or, with `all_ranks`, all of
        them; at the others that rank 0 did not pass."""
        number = self._count
        self._count += 1
        if self._rank == 0:
            self._watch(number, seconds, all_ranks)
        else:
            self._report(number, seconds)

    def _report(self, number: int, seconds: float) -> None:
        self._board.write(_arrival(number, self._rank), "")
        said = self._board.read(_end(number), seconds)
        if said != "passed":
            raise Error(f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                        f"send/recv from rank 0: {said or f'no answer within {seconds:g} s'}")

    def _watch(self, number: int, seconds: float, all_ranks: bool) -> None:
        deadline, missing, failure = time.monotonic() + seconds, [], ""
        for rank in range(1, self._size):
            left = deadline - time.monotonic()
            if left <= 0 and not all_ranks:
                failure = f"Rank 0 timed out in monitoredBarrier after {seconds:g} s, waiting for rank {rank}"
                break
            if self._board.read(_arrival(number, rank), max(left, 0.0)) is None:
                missing.append(rank)
                if not all_ranks:
                    break
        failure = failure or _failure_of(missing, seconds)
        self._board.write(_end(number), failure or "passed")
        if number > 0 and not failure:
            self._board.erase(_end(number - 1))  # all have come since, so they have read it
        if failure:
            raise Error(failure)
        for rank in range(1, self._size):
            self._board.erase(_arrival(number, rank))


def _failure_of(missing: List[int], seconds: float) -> str:
    if not missing:
        return ""
    who = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    return f"{who} failed to pass monitoredBarrier in {seconds:g} s"


def _arrival(number: int, rank: int) -> str:
    return f"monitored barrier {number}, rank {rank}"


def _end(number: int) -> str:
    return f"monitored barrier {number}, its end"

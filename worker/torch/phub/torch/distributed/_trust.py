"""What the ranks of a group share and nobody else has: a secret, by which they recognise each other.

The group's store has no authentication: whoever reaches its port reads and writes all that is in it. The servers know the
members of a job, so rank 0 sends the secret to the others over them, as the first collective of the first group. The secrets of
later groups are made of that one. Where the servers ask for no token, strangers may join as well, and nothing here keeps them
out.
"""
from __future__ import annotations

import hmac
import secrets
import threading
import time
from typing import Callable, List, Optional, Sequence

import torch

from phub.errors import Error
from phub.torch.distributed._board import Board
from phub.torch.distributed._exchange import Exchange
from phub.torch.distributed._work import Collective

_BYTES = 32
_SLICE = 0.1  # seconds; a wait looks at signals so often


class Trust:
    """A group's secret, once it is there. Any thread."""

    def __init__(self, secret: Optional[bytes] = None) -> None:
        self._secret = secret
        self._failure: Optional[BaseException] = None
        self._is_known = threading.Event()
        if secret is not None:
            self._is_known.set()

    @staticmethod
    def alone() -> "Trust":
        """The trust of a group of one rank."""
        return Trust(secrets.token_bytes(_BYTES))

    def set(self, secret: Optional[bytes], failure: Optional[BaseException]) -> None:
        """Once."""
        self._secret, self._failure = secret, failure
        self._is_known.set()

    def sign(self, *parts: object, seconds: float) -> str:
        """Hexadecimal, of the parts in their order. Waits until the secret is known, so long at most. Raises Error."""
        return hmac.new(self._wait(seconds), _joined(parts), "sha256").hexdigest()

    def for_group(self, name: str, seconds: float) -> "Trust":
        return Trust(bytes.fromhex(self.sign("group", name, seconds=seconds)))

    def _wait(self, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while not self._is_known.wait(_SLICE):
            if time.monotonic() > deadline:
                raise Error(f"after a timeout of {seconds:g} s the ranks of the group have not all joined its job")
        if self._secret is None:
            raise Error(f"the ranks of the group could not join its job: {self._failure}")
        return self._secret


def _joined(parts: Sequence[object]) -> bytes:
    """No two lists of parts have the same bytes."""
    texts = [str(part).encode() for part in parts]
    return b"".join(len(text).to_bytes(8, "little") + text for text in texts)


class Agreement(Collective):
    """The first collective of a job: after it all ranks have the secret."""

    def __init__(self, trust: Trust, is_root: bool) -> None:
        own = torch.tensor(list(secrets.token_bytes(_BYTES)), dtype=torch.uint8)
        received: List[torch.Tensor] = []

        def call(exchange: Exchange) -> None:
            received.append(exchange.broadcast(own, is_root))
        super().__init__(call, [])
        self._trust, self._received = trust, received

    def finish(self, failure: Optional[BaseException]) -> None:
        self._trust.set(None if failure is not None else bytes(self._received[0].tolist()), failure)
        super().finish(failure)


class SignedBoard:
    """A group's board, whose texts are of the group's ranks. Any thread."""

    def __init__(self, board: Board, trust: Trust, label: str, seconds: float) -> None:
        """`label`: of this board alone among those that the secret signs. `seconds`: for the secret to be there."""
        self._board, self._trust, self._label, self._seconds = board, trust, label, seconds
        self.close: Callable[[], None] = board.close
        self.erase: Callable[[str], None] = board.erase

    def write(self, name: str, text: str) -> None:
        """Once for a name."""
        self._board.write(name, f"{self._sign(name, text)} {text}")

    def read(self, name: str, seconds: float) -> Optional[str]:
        """Waits for it so long at most; then None. Raises Error after close, and where somebody else wrote it."""
        said = self._board.read(name, seconds)
        if said is None:
            return None
        signature, _, text = said.partition(" ")
        if not hmac.compare_digest(signature.encode(), self._sign(name, text).encode()):
            raise Error(f'"{name}" in the group\'s store was not written by a rank of the group: somebody else writes to the '
                        "store at MASTER_ADDR; keep others from its port, and begin again")
        return text

    def _sign(self, name: str, text: str) -> str:
        return self._trust.sign("text", self._label, name, text, seconds=self._seconds)

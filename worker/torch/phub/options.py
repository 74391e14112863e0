"""What a client is told of its job."""
from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Any, Optional, Sequence, Union

from phub import _environment, _library
from phub.errors import Error


@dataclasses.dataclass(frozen=True)
class Options:
    """As phub_options of phub_c.h says; the same at each worker but for worker_index. None and 0 are the defaults there,
    where nothing else is said."""

    servers: Union[str, Sequence[str], None] = None  # "host:port", several separated by commas; None: PHUB_SERVERS
    job: Optional[str] = None  # None: one of this run's own, of PHUB_JOB or of what the launcher has set
    workers: int = 1
    worker_index: int = -1  # -1: the server chooses
    transport: Optional[str] = None  # "auto", "shm", "tcp", "verbs"
    wire_type: str = "fp32"  # or "fp16", "bf16"
    rule: str = "mean"  # or "sum", and of PyTorch's optimizers "sgd", "momentum", "nesterov", "adam", "adamw", ...
    learning_rate: float = 0.0
    momentum: float = 0.0
    gradient_scale: float = 0.0
    arrival_order: bool = False  # True: sums in the order of arrival, not the same bits from run to run
    chunk_bytes: int = 0
    timeout: float = 0.0  # seconds, of every wait; 0: 30
    tcp_congestion_control: Optional[str] = None
    credentials: Union[str, "os.PathLike[str]", None] = None  # a folder, as `phubctl pki init` makes it; None: PHUB_CREDENTIALS
    tenant: Optional[str] = None
    require_encryption: bool = False
    trust_coefficient: float = 0.0
    trust_epsilon: float = 0.0
    loss_scale: float = 0.0
    votes: bool = False
    beta1: float = 0.0
    beta2: float = 0.0
    clip_norm: float = 0.0
    ema_decay: float = 0.0
    epsilon: float = 0.0
    quorum: int = 0
    grace_ms: int = 0
    patience_ms: int = 0
    staleness: Optional[int] = None  # None: any
    late: Optional[str] = None
    push_weight: Optional[str] = None
    watch_values: Optional[str] = None
    turns: bool = False
    checksums: bool = False
    hogwild: bool = False
    tcp_streams: int = 0  # to each core of a server that is reached by tcp, up to 16; 0: 1
    run: Optional[str] = None  # None: what the launcher's environment says of this run, if anything

    def for_c(self) -> _library.Options:
        """Raises Error where it names no server, and with the field's name for what it does not take."""
        given = dataclasses.asdict(self)
        servers, credentials = given.pop("servers"), given.pop("credentials")
        servers = servers or os.environ.get("PHUB_SERVERS", "")
        if not servers:
            raise Error("servers: none; name them in the options or in PHUB_SERVERS, as phubrun does")
        try:
            given["servers"] = servers if isinstance(servers, str) else ",".join(servers)
        except TypeError:
            raise Error(f'servers: {servers!r} is not "host:port", nor several of these') from None
        credentials = credentials or os.environ.get("PHUB_CREDENTIALS") or None
        given["credentials"] = os.fspath(credentials) if isinstance(credentials, os.PathLike) else credentials
        given["timeout_ms"] = _milliseconds(given.pop("timeout"))
        given["bounds_staleness"] = self.staleness is not None
        given["staleness"] = self.staleness or 0
        options = _library.empty_options()
        for field, value in given.items():
            _set(options, field, value)
        if self.run is None:
            _set(options, "run", _environment.run(self.workers))
        if self.job is None:
            _set(options, "job", _environment.job("client", self.workers))
        return options


def text(field: str, value: Any) -> bytes:
    """As C reads it. Raises Error where it would read another one."""
    if not isinstance(value, str):
        raise Error(f"{field}: {value!r} is not a text")
    if "\0" in value:
        raise Error(f"{field}: {value!r} has a NUL, where C takes a text to end; leave it out")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise Error(f"{field}: {value!r} is not UTF-8") from None


def _milliseconds(timeout: Any) -> int:
    if not isinstance(timeout, (int, float)) or not 0 <= timeout * 1000 < 2**32:
        raise Error(f"timeout: {timeout!r} is not a number of seconds, 0 or more")
    return max(1, round(timeout * 1000)) if timeout else 0


def _set(options: _library.Options, field: str, value: Any) -> None:
    """ctypes would take a number for a text's address, and of one that is too large the lowest bits."""
    kind = dict(_library.Options._fields_)[field]
    if kind is ctypes.c_char_p:
        setattr(options, field, None if value is None else text(field, value))
        return
    try:
        setattr(options, field, value)
    except TypeError:
        what = "a number" if kind in (ctypes.c_float, ctypes.c_double) else "a whole number"
        raise Error(f"{field}: {value!r} is not {what}") from None
    if isinstance(getattr(options, field), int) and getattr(options, field) != value:
        raise Error(f"{field}: {value} is {'below 0' if value < 0 else 'too large'}")

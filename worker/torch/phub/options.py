"""What a client is told of its job."""
from __future__ import annotations

import dataclasses
import os
from typing import Optional, Sequence, Union

from phub import _library
from phub.errors import Error


@dataclasses.dataclass(frozen=True)
class Options:
    """As phub_options of phub_c.h says; the same at each worker but for worker_index. None and 0 are the defaults there."""

    servers: Union[str, Sequence[str], None] = None  # "host:port", several separated by commas; None: PHUB_SERVERS
    job: str = "default"
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
    credentials: Optional[str] = None  # a folder, as `phubctl pki init` makes it; None: PHUB_CREDENTIALS
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

    def for_c(self) -> _library.Options:
        """Raises Error where it names no server."""
        given = dataclasses.asdict(self)
        servers, credentials = given.pop("servers"), given.pop("credentials")
        servers = servers or os.environ.get("PHUB_SERVERS", "")
        if not servers:
            raise Error("servers: none; name them in the options or in PHUB_SERVERS, as phubrun does")
        given["servers"] = servers if isinstance(servers, str) else ",".join(servers)
        given["credentials"] = credentials or os.environ.get("PHUB_CREDENTIALS") or None
        given["timeout_ms"] = max(1, round(given["timeout"] * 1000)) if given["timeout"] else 0
        del given["timeout"]
        given["bounds_staleness"] = self.staleness is not None
        given["staleness"] = self.staleness or 0
        options = _library.empty_options()
        for field, value in given.items():
            setattr(options, field, value.encode() if isinstance(value, str) else value)
        return options

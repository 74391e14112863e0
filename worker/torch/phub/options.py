"""What a client is told of its job."""
from __future__ import annotations

import numbers
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from phub import _environment
from phub.errors import Error

_DEEPEST = 3  # groups within groups


class Options:
    """The same at each worker of a job but for worker_index. What is None or left out has its default.

    servers: "host:port", several separated by commas or in a list, of the own rack; None: PHUB_SERVERS.
    job: None: a name of this run's own, of PHUB_JOB or of what the launcher has set.
    workers, worker_index: of all racks together; without an index the server chooses.
    rule: "mean", "sum", and of PyTorch's optimizers "sgd", "momentum", "nesterov", "adam", "adamw", ...
    timeout: seconds, of every wait; 0: 30.
    credentials: a folder, as `phubctl pki init` makes it; None: PHUB_CREDENTIALS.
    run: None: what the launcher's environment says of this run, if anything.
    named: the other options of phub_options_set (phub_c.h) by their names: those of a job (`phubctl job fields` lists
      them), such as wire_type="bf16", learning_rate=0.1, order="arrival", rounds={"quorum": 3, "late": "add"},
      racks={"a": 4, "b": 4} (left out: PHUB_RACKS, which phubrun sets, where its workers are `workers`), encoding="sparse", and the client's, such as transport="tcp", tenant="red",
      require_encryption=True, compress={"density": 0.01}. Rules "mean" and "sum" refuse a learning_rate; all but
      "momentum", "nesterov" and "lars" refuse a momentum.
    """

    def __init__(self, servers: Union[str, Sequence[str], None] = None, job: Optional[str] = None, workers: int = 1, *,
                 rule: str = "mean", timeout: float = 0.0, credentials: Union[str, "os.PathLike[str]", None] = None,
                 run: Optional[str] = None, **named: Any) -> None:
        self.servers, self.job, self.workers, self.rule = servers, job, workers, rule
        self.timeout, self.credentials, self.run, self.named = timeout, credentials, run, named

    def replace(self, **changes: Any) -> "Options":
        mine = {name: value for name, value in vars(self).items() if name != "named"}
        return Options(**{**mine, **self.named, **changes})

    def get(self, name: str, otherwise: Any = None) -> Any:
        """What is named so: "wire_type", or "rounds.quorum"."""
        found: Any = {**vars(self), **self.named}
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return otherwise if found is None else found

    def addresses(self) -> str:
        """Of the servers, separated by commas. Raises Error where there are none."""
        servers = self.servers or os.environ.get("PHUB_SERVERS", "")
        if not servers:
            raise Error("servers: none; name them in the options or in PHUB_SERVERS, as phubrun does")
        try:
            return servers if isinstance(servers, str) else ",".join(servers)
        except TypeError:
            raise Error(f'servers: {servers!r} is not "host:port", nor several of these') from None

    def for_c(self) -> List[Tuple[bytes, bytes]]:
        """Names and texts for phub_options_set. Raises Error with the name of what has no text."""
        if not isinstance(self.workers, numbers.Integral) or self.workers < 0:
            raise Error(f"workers: {self.workers!r} is not a whole number, 0 or more")
        named: Dict[str, Any] = dict(self.named, servers=self.addresses(), workers=self.workers, rule=self.rule)
        if "timeout_ms" in named:
            raise Error("timeout_ms: say timeout, in seconds")
        if named.get("racks") is None:
            named["racks"] = _environment.racks(self.workers)
        elif self.workers == 1:
            del named["workers"]  # those of the racks
        named["timeout_ms"] = _milliseconds(self.timeout)
        credentials = self.credentials or os.environ.get("PHUB_CREDENTIALS") or None
        named["credentials"] = os.fspath(credentials) if isinstance(credentials, os.PathLike) else credentials
        named["run"] = _environment.run(self.workers) if self.run is None else self.run
        named["job"] = _environment.job("client", self.workers) if self.job is None else self.job
        for name in ("job", "rule", "credentials", "run"):
            if named[name] is not None:
                text(name, named[name])
        return [(text("an option", name), text(name, word)) for name, word in _words("", named)]


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


def _words(prefix: str, named: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    for name, value in named.items():
        field = prefix + str(name)
        if value is None:
            continue
        if "." in str(name):
            group, _, rest = str(name).partition(".")
            raise Error(f"{field}: say {group}={{{rest!r}: {value!r}}}")
        if field.count(".") > _DEEPEST or value == {}:
            raise Error(f"{field}: is an empty group, or one without an end; name its fields")
        if field == "racks" and isinstance(value, Mapping):
            yield field, ",".join(f"{rack}:{_word(f'racks[{rack!r}]', workers)}" for rack, workers in value.items())
        elif isinstance(value, Mapping):
            yield from _words(f"{field}.", value)
        else:
            yield field, _word(field, value)


def _word(field: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, numbers.Integral):
            return str(int(value))
        if isinstance(value, numbers.Real):
            return repr(float(value))
    except (OverflowError, ValueError):
        raise Error(f"{field}: the number is too large") from None
    raise Error(f"{field}: {value!r} is neither a text, nor a number, nor True or False")


def _milliseconds(timeout: Any) -> Optional[int]:
    if not isinstance(timeout, (int, float)) or not 0 <= timeout * 1000 < 2**32:
        raise Error(f"timeout: {timeout!r} is not a number of seconds, 0 or more")
    return max(1, round(timeout * 1000)) if timeout else None

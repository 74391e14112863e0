"""This process's place among those that were started together: what phubrun, torchrun and Slurm set."""
from __future__ import annotations

import collections
import hashlib
import ipaddress
import os
import secrets
import sys
from typing import Any, Dict, Optional, Sequence

from phub.errors import Error

_made: Dict[str, int] = {}


def number(name: str, otherwise: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return otherwise
    try:
        return int(text)
    except ValueError:
        raise Error(f"the environment's {name} is \"{text}\", which is no number") from None


def rank() -> int:
    return number("RANK", 0)


def world_size() -> int:
    return number("WORLD_SIZE", 1)


def racks(workers: int, ranks: Optional[Sequence[int]] = None) -> Optional[str]:
    """The racks of a job of these ranks, or of all of the run's, as its field `racks` has them: "a:4,b:4". None: they are in
    one rack, or there are others than the run's `workers`. Raises Error."""
    text = os.environ.get("PHUB_RACKS")
    if not text:
        return None
    try:
        counts = {name: int(count) for name, _, count in (word.rpartition(":") for word in text.split(","))}
    except ValueError:
        raise Error(f'the environment\'s PHUB_RACKS is "{text}", which is not RACK:WORKERS,RACK:WORKERS, as a:4,b:4') from None
    of_rank = [name for name, count in counts.items() for _ in range(count)]
    if ranks is None and workers == len(of_rank):
        ranks = range(workers)
    own = collections.Counter(of_rank[rank] for rank in ranks or () if rank < len(of_rank))
    return ",".join(f"{name}:{count}" for name, count in own.items()) if len(own) > 1 else None


def job(kind: str, workers: int) -> str:
    """A name that no other run's job has. The second one of a process has another, the same at each rank."""
    base = f"{os.environ.get('PHUB_JOB') or _run(workers)}-{kind}"
    _made[base] = _made.get(base, 0) + 1
    return base if _made[base] == 1 else f"{base}-{_made[base]}"


def options(kind: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """`given`, and for what is not in it what the environment says."""
    complete = {"workers": world_size(), "worker_index": rank(), **given}
    if complete.get("job") is None:
        complete["job"] = job(kind, complete["workers"])
    return complete


def run(workers: int) -> Optional[str]:
    """A word that the ranks of this run have in common, whatever their job is called. Other runs are unlikely to have it.
    None: there is nothing of the kind. Each host may spell an address in its way, so that is left out."""
    port = os.environ.get("MASTER_PORT")
    if workers in (0, 1) or not port:
        return None
    text = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')} {port}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run(workers: int) -> str:
    """What the processes of this run have in common, and those of other runs have not. Raises Error where there is
    nothing."""
    if workers in (0, 1):
        return f"torch-{secrets.token_hex(6)}"
    shared = _shared_by_torch() or _identity()
    if shared is None:
        raise Error("job: nothing in the environment tells this run from another one on the same servers: start it by "
                    "phubrun or torchrun, set PHUB_JOB to the same at each rank, or name the job (job=...)")
    return f"torch-{hashlib.sha256(shared.encode()).hexdigest()[:12]}"


def _shared_by_torch() -> Optional[str]:
    """A nonce from the store of the default process group, if there is one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    if store.add("phub/run_claims", 1) == 1:
        store.set("phub/run", secrets.token_hex(16))
    return str(store.get("phub/run").decode())


def _identity() -> Optional[str]:
    """What a launcher sets for all of its processes alone."""
    environ = os.environ
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if address and port:
        return f"{environ.get('TORCHELASTIC_RUN_ID')} {address}:{port}{_host() if _is_loopback(address) else ''}"
    if environ.get("SLURM_JOB_ID") and environ.get("SLURM_STEP_ID"):
        return f"Slurm {environ['SLURM_JOB_ID']}.{environ['SLURM_STEP_ID']}"
    return None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost" or address.startswith("localhost.")


def _host() -> str:
    """Each host, and each container of it, has an address 127.0.0.1 of its own."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f" boot {file.read().strip()} network {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return f" host {os.uname().nodename}"

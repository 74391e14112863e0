"""phubrun: starts the servers and the workers of a run on this machine, and ends them together.

Each worker finds in its environment what torchrun sets (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
MASTER_PORT), and PHUB_SERVERS and PHUB_JOB. Its lines are printed with its name before them.
"""
from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
from typing import Dict, List, Optional

from phub.launch._group import Group, ended_how
from phub.launch._servers import start_servers


def _arguments(words: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phubrun", description="Starts PHub servers and workers on this machine, and ends all when one fails.")
    parser.add_argument("-n", "--workers", type=int, default=1, help="workers, which are RANK 0 to n - 1 (default 1)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--servers", type=int, default=1, help="servers to start (default 1)")
    where.add_argument("--server", help="running ones to use instead, as HOST:PORT[,HOST:PORT...]")
    parser.add_argument("--cores", type=int, default=1, help="cores of each server that is started (default 1)")
    parser.add_argument("--server-program", default=os.environ.get("PHUB_SERVER_PROGRAM", "phub-server"),
                        help="the server's program (default phub-server)")
    parser.add_argument("--grace", type=float, default=10.0, metavar="SECONDS",
                        help="from asking what is left to end until it is killed (default 10)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="what each worker runs")
    given = parser.parse_args(words)
    if given.command[:1] == ["--"]:
        del given.command[0]
    if not given.command:
        parser.error("COMMAND: nothing to run; as in: phubrun -n 2 python PROGRAM")
    if given.workers < 1:
        parser.error(f"--workers: {given.workers} is below 1")
    if given.servers < 1:
        parser.error(f"--servers: {given.servers} is below 1; --server names running ones")
    return given


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _environment(rank: int, workers: int, common: Dict[str, str]) -> Dict[str, str]:
    own = {**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers),
           "LOCAL_WORLD_SIZE": str(workers)}
    # As torchrun: n workers with as many threads as there are CPUs each would stand in each other's way.
    own.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // workers)))
    own.setdefault("PYTHONUNBUFFERED", "1")
    return own


def main(words: Optional[List[str]] = None) -> int:
    given = _arguments(words)
    group = Group(given.grace)
    try:
        servers = given.server or ",".join(
            start_servers(group, given.servers, given.server_program, given.cores))
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "PHUB_SERVERS": servers}
        common["PHUB_JOB"] = os.environ.get("PHUB_JOB", f"run-{secrets.token_hex(4)}")
        for rank in range(given.workers):
            group.start(str(rank), given.command, _environment(rank, given.workers, common))
        failed = group.wait()
    except OSError as error:
        if group.signal:
            return 128 + group.signal
        print(f"phubrun: {error}", file=sys.stderr)
        return 1
    finally:
        group.end()
    if group.signal:
        return 128 + group.signal
    if failed is None:
        return 0
    print(f"phubrun: {failed.name} failed first: it {ended_how(failed.status)}. Its last lines:", file=sys.stderr)
    for line in failed.last_lines:
        print(f"  {line}", file=sys.stderr)
    return failed.status if failed.status > 0 else 128 - failed.status


if __name__ == "__main__":
    sys.exit(main())

"""phubrun: starts the servers and the workers of a run, here or on several hosts, and ends them together.

Each worker finds in its environment what torchrun sets (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK,
MASTER_ADDR, MASTER_PORT), and PHUB_SERVERS, PHUB_JOB and PHUB_RACKS. Its lines are printed with its rank before them.
"""
from __future__ import annotations

import argparse
import io
import pathlib
import secrets
import sys
from typing import Dict, List, Optional

from phub.launch import _places, _racks
from phub.launch._arguments import parsed
from phub.launch._group import Group, Manner
from phub.launch._host import Host
from phub.launch._servers import start_servers


def _places_of(given: argparse.Namespace) -> List[_places.Place]:
    hosts = {"": given.hosts} if given.hosts else {rack: words for rack, words in given.racks.items() if words}
    if hosts:
        return _places.over_ssh(hosts, given.workers or 0, given.ssh)
    return _places.in_slurm(given.workers or 0) if given.slurm else _places.here(given.workers or 1)


def _environment(first: int, local: int, workers: int, host: Host, common: Dict[str, str]) -> Dict[str, str]:
    """Of the worker `local` of the host, whose first worker is `first`."""
    own = {"OMP_NUM_THREADS": str(max(1, host.there["cpus"] // host.place.workers)), "PYTHONUNBUFFERED": "1", **common}
    return {**own, "RANK": str(first + local), "LOCAL_RANK": str(local), "WORLD_SIZE": str(workers),
            "LOCAL_WORLD_SIZE": str(host.place.workers)}


def _start(group: Group, given: argparse.Namespace, racks: List[_racks.Rack]) -> None:
    is_far = group.hosts[0].place.is_far
    servers = given.server or start_servers(group, given, racks, is_far)
    common = {"PHUB_JOB": f"run-{secrets.token_hex(4)}", **given.environment, "PHUB_RACKS": _racks.text_of(racks),
              "MASTER_ADDR": given.environment.get("MASTER_ADDR", group.hosts[0].place.host),
              "MASTER_PORT": given.environment.get("MASTER_PORT", str(group.hosts[0].there["port"]))}
    own = [servers[rack.name] for rack in racks for _ in range(rack.workers)]  # by rank
    workers = len(own)
    first = 0
    for index, host in enumerate(group.hosts):
        for local in range(host.place.workers):
            each = {**common, "GROUP_RANK": str(index), "PHUB_SERVERS": own[first + local]}
            environment = _environment(first, local, workers, host, each)
            group.start(str(first + local), host, given.command, environment, given.folder)
        first += host.place.workers


def _make(folder: pathlib.Path) -> None:
    """Raises ValueError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--output: {folder}: {'no folder' if folder.exists() else error.strerror}") from None


def main(words: Optional[List[str]] = None) -> int:
    given = parsed(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a worker's line may have what this terminal cannot show
    try:
        places = _places_of(given)
        racks = _racks.racks_of(list(given.racks), places)
        if given.output:
            _make(given.output)
    except ValueError as error:
        print(f"phubrun: {error}", file=sys.stderr)
        return 2
    if given.found:
        print(f"phubrun: with the servers of PHUB_SERVERS: {given.found} (--servers N starts some instead)", file=sys.stderr)
    group = Group(Manner(given.grace, given.deadline, given.lost_after, given.output))
    try:
        group.reach(places)
        _start(group, given, racks)
        failure = group.wait()
    except OSError as error:
        if group.signal:
            return 128 + group.signal
        print(f"phubrun: {error}", file=sys.stderr)
        return 1
    finally:
        group.end()
    if group.signal:
        return 128 + group.signal
    if failure is None:
        return 0
    print(f"phubrun: {failure.what}", file=sys.stderr)
    for line in failure.last_lines:
        print(f"  {line}", file=sys.stderr)
    return failure.status


if __name__ == "__main__":
    sys.exit(main())

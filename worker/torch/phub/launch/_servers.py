"""Servers on free ports of the run's hosts."""
from __future__ import annotations

import argparse
import re
from typing import List

from phub.launch._group import Group

_READY = re.compile(r"phub-server ready control=(\S+):(\d+)")


def start_servers(group: Group, given: argparse.Namespace, is_far: bool) -> List[str]:
    """Their control addresses, once they serve. Raises OSError where one cannot be started or does not come up."""
    addresses = []
    count = given.servers or 1
    for index in range(count):
        name = "server" if count == 1 else f"server {index}"
        host = group.hosts[index % len(group.hosts)]
        # [::] is for IPv4 too.
        listen = "127.0.0.1:0" if not is_far else "[::]:0" if host.there["ipv6"] else "0.0.0.0:0"
        command = [given.server_program, "--control", listen, "--data", listen, "--cores", str(given.cores), "--log-level",
                   "warn", *given.server_options]
        server = group.start(name, host, command, given.environment, given.folder, is_server=True)
        ready = group.wait_for_line(server, _READY)
        if ready is None:
            where = f" on {host.name}" if is_far else ""
            if server.is_missing:
                raise OSError(f"{given.server_program} is not on the path{where}: install it (cmake --install BUILD "
                              "--component server), or name it with --server-program")
            if group.failure is not None and not group.failure.what.startswith(name):
                raise OSError(f"{group.failure.what} {'; '.join(group.failure.last_lines)}")
            why = "; ".join(server.last_lines)
            if server.is_running and not group.signal:
                why += f" (it has not said that it is ready within {given.deadline:g} s: --deadline)"
            raise OSError(f"{name} did not start{where}: {why}")
        addresses.append(f"{host.place.address if is_far else ready[1]}:{ready[2]}")
    return addresses

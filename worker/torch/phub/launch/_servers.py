"""Servers on free ports of this machine."""
from __future__ import annotations

import os
import re
from typing import List

from phub.launch._group import Group


def start_servers(group: Group, count: int, program: str, cores: int) -> List[str]:
    """Their control addresses, once they serve. Raises OSError where one cannot be started or does not come up."""
    command = [program, "--control", "127.0.0.1:0", "--data", "127.0.0.1:0", "--cores", str(cores), "--log-level", "warn"]
    addresses = []
    for index in range(count):
        name = "server" if count == 1 else f"server {index}"
        try:
            server = group.start(name, command, dict(os.environ), is_server=True)
        except FileNotFoundError:
            raise OSError(f"{program} is not on the path: install it (cmake --install BUILD --component server), or name "
                          "it with --server-program") from None
        ready = group.wait_for_line(server, re.compile(r"phub-server ready control=(\S+)"))
        if ready is None:
            said = "; ".join(server.last_lines)
            raise OSError(f"{name} did not start: {said}")
        addresses.append(ready[1])
    return addresses

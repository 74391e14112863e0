"""Servers on free ports of the run's hosts. Those of several racks know each other, so their ports are chosen first."""
from __future__ import annotations

import argparse
import re
from typing import Dict, List, NamedTuple, Tuple

from phub.launch._group import Group
from phub.launch._host import Host
from phub.launch._member import file_name
from phub.launch._racks import Rack

_READY = re.compile(r"phub-server ready control=(\S+):(\d+)")


class _Server(NamedTuple):
    name: str  # among the run's processes
    rack: str
    host: Host


def start_servers(group: Group, given: argparse.Namespace, racks: List[Rack], is_far: bool) -> Dict[str, str]:
    """Their control addresses by rack, once they serve. Raises OSError where one cannot be started or does not come up."""
    count = given.servers or 1
    servers = [_Server(" ".join(["server", *([rack.name] if rack.name else []), *([str(index)] if count > 1 else [])]),
                       rack.name, group.hosts[rack.hosts[index % len(rack.hosts)]])
               for rack in racks for index in range(count)]
    ports, options = _chosen(group, servers, is_far) if len(racks) > 1 else ([0] * len(servers), [])
    addresses: Dict[str, List[str]] = {}
    for server, port in zip(servers, ports):
        own = [*options, "--rack", server.rack, "--advertise", _address(server.host, is_far, port)] if options else []
        found = _start(group, given, server, is_far, port, own)
        addresses.setdefault(server.rack, []).append(found)
    return {rack: ",".join(of_rack) for rack, of_rack in addresses.items()}


def _chosen(group: Group, servers: List[_Server], is_far: bool) -> Tuple[List[int], List[str]]:
    """A port for each, and options that name all of them."""
    of_host = {host: iter(group.hold_ports(host, sum(each.host is host for each in servers)))
               for host in {each.host: None for each in servers}}
    ports = [next(of_host[each.host]) for each in servers]
    listed: Dict[str, List[str]] = {}
    for each, port in zip(servers, ports):
        listed.setdefault(each.rack, []).append(_address(each.host, is_far, port))
    return ports, [word for rack, of_rack in listed.items() for word in ("--directory", f"{rack}={','.join(of_rack)}")]


def _address(host: Host, is_far: bool, port: object) -> str:
    return f"{host.place.address if is_far else '127.0.0.1'}:{port}"


def _start(group: Group, given: argparse.Namespace, server: _Server, is_far: bool, port: int, own: List[str]) -> str:
    """Its control address."""
    name, host = server.name, server.host
    # [::] is for IPv4 too.
    listen = "127.0.0.1" if not is_far else "[::]" if host.there["ipv6"] else "0.0.0.0"
    command = [given.server_program, "--control", f"{listen}:{port}", "--data", f"{listen}:0", "--cores", str(given.cores),
               "--log-level", "warn", *own, *(word.replace("{server}", file_name(name)) for word in given.server_options)]
    member = group.start(name, host, command, given.environment, given.folder, is_server=True)
    ready = group.wait_for_line(member, _READY)
    if ready is None:
        where = f" on {host.name}" if is_far else ""
        if member.is_missing:
            raise OSError(f"{given.server_program} is not on the path{where}: install it (cmake --install BUILD "
                          "--component server), or name it with --server-program")
        if group.failure is not None and not group.failure.what.startswith(name):
            raise OSError(f"{group.failure.what} {'; '.join(group.failure.last_lines)}")
        why = "; ".join(member.last_lines)
        if member.is_running and not group.signal:
            why += f" (it has not said that it is ready within {given.deadline:g} s: --deadline)"
        raise OSError(f"{name} did not start{where}: {why}")
    return f"{host.place.address if is_far else ready[1]}:{ready[2]}"

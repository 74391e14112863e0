"""At which address of this host the other ranks reach this one."""
from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from typing import Iterator, List, Optional, Tuple, Union

from phub.errors import Error

_IP = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
_Found = Tuple[socket.AddressFamily, str]

VARIABLE = "PHUB_PEER_ADDRESS"
_SIOCGIFADDR = 0x8915  # linux/sockios.h: an interface's IPv4 address
# Addresses for documentation (RFC 5737, RFC 3849), which no network has: the way to them is the default route.
_ANYWHERE = ("192.0.2.1", "2001:db8::1")


def own_address(servers: str) -> _Found:
    """This host's address for the others: as PHUB_PEER_ADDRESS says, else that from which it reaches the servers. An address
    of one link has its zone, as "fe80::1%eth0". Raises Error."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return _chosen(chosen)
    loopback: Optional[_Found] = None
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        for found in _ways_to(host.strip("[]"), port):
            if not is_loopback(found[1]) or _means_loopback(host.strip("[]")):
                return found
            loopback = loopback or found
    if loopback is None:
        raise Error(f"send and recv: this host has no way to {servers}; give its own address in {VARIABLE}")
    # The servers are on this host, under a name that is 127.0.1.1 here and another address elsewhere, as Debian has it.
    for host in (os.environ.get("MASTER_ADDR", ""), *_ANYWHERE):
        for found in _ways_to(host, "9") if host else ():
            if not is_loopback(found[1]):
                return found
    return next((each for _, each in _of_interfaces() if not is_loopback(each[1])), loopback)


def reachable(host: str, own: str, is_here: bool) -> str:
    """Another rank's address as this host writes it: a zone is a name of each host's own. Raises Error."""
    address, _, zone = host.partition("%")
    if not zone or is_here:
        return host
    own_zone = own.partition("%")[2]
    if not own_zone:
        raise Error(f"its address, {host}, holds on one link alone, and this rank's, {own}, does not say which that is here; "
                    f"give both an address of one network in {VARIABLE}")
    return f"{address}%{own_zone}"


def is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _chosen(chosen: str) -> _Found:
    """An address, a name, a network or an interface."""
    try:
        network = ipaddress.ip_network(chosen, strict=False) if "/" in chosen else None
    except ValueError:
        raise Error(f"{VARIABLE}: {chosen} is no network; write one as 10.0.0.0/8") from None
    own = list(_of_interfaces())
    if network is not None:
        own += [("", each) for each in _ways_to(str(next(iter(network.hosts()), network.network_address)), "9")]
        for _, found in own:
            if _ip(found[1]) in network:
                return found
        raise Error(f"{VARIABLE}: this host has no address in {chosen}; it has {_listed(own)}")
    for interface, found in own:
        if interface == chosen:
            return found
    try:
        family, _, _, _, address = socket.getaddrinfo(chosen.strip("[]"), 9, type=socket.SOCK_DGRAM)[0]
    except OSError as failure:
        raise Error(f"{VARIABLE}: {chosen} has no address ({failure}) and is no interface of this host; give an address, a "
                    f"network (10.0.0.0/8) or an interface; this host has {_listed(own)}") from None
    return family, _with_zone(address)


def _listed(own: List[Tuple[str, _Found]]) -> str:
    return ", ".join(f"{found[1]} ({interface})" for interface, found in own if interface) or "none"


def _ways_to(host: str, port: str) -> Iterator[_Found]:
    """This host's addresses from which it would reach that one. Nothing is sent."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(address)
            except OSError:
                continue
            yield family, _with_zone(probe.getsockname())


def _with_zone(address: Tuple[object, ...]) -> str:
    host = str(address[0])
    if len(address) == 4 and address[3] and "%" not in host and ipaddress.ip_address(host).is_link_local:
        return f"{host}%{socket.if_indextoname(int(str(address[3])))}"
    return host


def _means_loopback(host: str) -> bool:
    """Whether it is said that all is on this host."""
    try:
        return host == "localhost" or is_loopback(host)
    except ValueError:
        return False


def _ip(host: str) -> _IP:
    return ipaddress.ip_address(host.partition("%")[0])


def _of_interfaces() -> Iterator[Tuple[str, _Found]]:
    """(interface, address): the first IPv4 address of each, and every IPv6 one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                said = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            yield name, (socket.AF_INET, socket.inet_ntoa(said[20:24]))
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as table:
            lines = table.read().splitlines()
    except OSError:
        return  # no IPv6
    for digits, _, _, _, _, name in map(str.split, lines):
        address = ipaddress.IPv6Address(bytes.fromhex(digits))
        yield name, (socket.AF_INET6, f"{address}%{name}" if address.is_link_local else str(address))

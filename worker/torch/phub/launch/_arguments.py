"""The command line of phubrun."""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import shlex
from typing import Dict, List, Optional

from phub.launch import _racks

_EXAMPLES = """\
examples:
  phubrun -n 2 python train.py                          a server and two workers on this machine
  phubrun -n 8 -H host1:4,host2:4 --servers 2 --server-options='--credentials pki/server --tokens off' \\
    python train.py                                     with PHUB_CREDENTIALS=pki/worker in the environment
  phubrun --slurm --server 10.0.0.7:7077 python train.py      in an allocation of Slurm, with a running server
  phubrun -n 4 --racks 2 python train.py                two racks on this machine, each of a server and two workers
  phubrun --rack a=host1:4,host2:4 --rack b=host3:4,host4:4 --server-options='--allow-plaintext --tokens off' \\
    python train.py                                     two racks of two hosts; each has a server

Workers find RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT, PHUB_SERVERS,
PHUB_JOB and PHUB_RACKS in their environment: PHUB_SERVERS has the own rack's servers, and PHUB_RACKS what the job's
field `racks` is to be. phub.Client, phub.torch.Optimizer and ddp_hook take both from there. Exit status: that of who
failed first (128 + N: ended by signal N); 0 where nobody did; 1 where the run could not be started; 2 for bad usage.
"""

_SECONDS_MAX = 1e6
_OF_STARTED = {"cores": 1, "server_program": os.environ.get("PHUB_SERVER_PROGRAM", "phub-server"),
               "server_options": os.environ.get("PHUB_SERVER_OPTIONS", "")}
_OF_EACH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "PHUB_SERVERS", "PHUB_RACKS")


def parsed(words: Optional[List[str]]) -> argparse.Namespace:
    parser = _parser()
    given = parser.parse_args(words)
    if given.command[:1] == ["--"]:
        del given.command[0]
    if not given.command:
        parser.error("COMMAND: nothing to run; as in: phubrun -n 2 python PROGRAM")
    if given.workers is not None and given.workers < 1:
        parser.error(f"--workers: {given.workers} is below 1")
    if given.servers is not None and given.servers < 1:
        parser.error(f"--servers: {given.servers} is below 1; --server names running ones")
    for name in ("grace", "deadline", "lost_after"):
        if not 0 < getattr(given, name) <= _SECONDS_MAX:
            parser.error(f"--{name.replace('_', '-')}: {getattr(given, name):g} is not above 0 and at most {_SECONDS_MAX:g}")
    try:
        _settle_racks(given)
        _settle_servers(given)
        given.environment = _environment(given.environment)
        given.server_options = shlex.split(given.server_options)
        _check_rack_credentials(given)
    except ValueError as error:
        parser.error(str(error))
    return given


def _settle_racks(given: argparse.Namespace) -> None:
    """`racks` by name with their hosts, empty where hosts are dealt out; `server` with the running ones of each. Raises
    ValueError."""
    if given.rack and given.racks is not None:
        raise ValueError("--racks: contradicts --rack, which says which racks there are; leave out one of the two")
    servers = given.server or []
    is_by_rack = any("=" in word for word in servers)
    if len(servers) > 1 and not is_by_rack:
        raise ValueError("--server: is there twice; give HOST:PORT,HOST:PORT, or with racks RACK=HOST:PORT,... for each")
    given.server = _racks.assigned("--server", servers) if is_by_rack else {"": servers[0]} if servers else {}
    if given.rack:
        given.racks = _racks.assigned("--rack", given.rack)
    elif given.racks is not None:
        given.racks = _racks.named(given.racks)
    else:
        given.racks = dict.fromkeys(given.server, "") if is_by_rack else {}
    if servers and given.racks and given.server.keys() != given.racks.keys():
        raise ValueError(f"--server: the run's racks are {', '.join(given.racks)}; name the servers of each, as --server "
                         f"{list(given.racks)[0]}=HOST:PORT,..., by the names that their configurations have")


def _settle_servers(given: argparse.Namespace) -> None:
    """Running ones by rack, or how those are that are started. Raises ValueError where both are said."""
    given.found = ""
    if not given.server and given.servers is None:
        given.found = os.environ.get("PHUB_SERVERS", "")
        given.server = {"": given.found} if given.found else {}
    if given.found and given.racks:
        raise ValueError("PHUB_SERVERS of the environment names one rack's servers; name each rack's by --server "
                         "RACK=HOST:PORT,..., or say --servers N, which starts N in each")
    for word in (word for addresses in given.server.values() for word in addresses.split(",")):
        if not re.fullmatch(r".+:[0-9]+", word.strip()):
            raise ValueError(f'{"PHUB_SERVERS" if given.found else "--server"}: "{word}" is not HOST:PORT')
    for name, usual in _OF_STARTED.items():
        if given.server and getattr(given, name) is not None:
            running, cure = (("PHUB_SERVERS of the environment", "; --servers N starts some all the same") if given.found
                             else ("--server", "; leave out one of the two"))
            raise ValueError(f"--{name.replace('_', '-')}: is of servers that are started, but {running} names running "
                             f"ones{cure}")
        if getattr(given, name) is None:
            setattr(given, name, usual)


def _check_rack_credentials(given: argparse.Namespace) -> None:
    """Without them servers with certificates would wait for each other in vain. Raises ValueError."""
    names = {word.partition("=")[0] for word in given.server_options}
    if given.racks and not given.server and "--credentials" in names and not names & {"--rack-credentials", "--config"}:
        raise ValueError("--server-options: the racks' servers show each other a certificate; add --rack-credentials FOLDER, as "
                         "`phubctl pki issue pki rack --role rack` makes it")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="phubrun", usage="phubrun [-n N] [-H HOST[:WORKERS],... | --rack RACK=HOST[:WORKERS],... | --slurm] [OPTIONS] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter, epilog=_EXAMPLES,
        description="Starts PHub servers and workers, here or on several hosts, and ends all when one fails.")
    parser.add_argument("-n", "--workers", type=int, metavar="N",
                        help="workers, which are RANK 0 to N - 1 (default: 1, or all that the hosts have room for)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-H", "--hosts", metavar="HOST[:WORKERS],...",
                       help="where, over ssh, which must not ask for a password; a host without WORKERS has one, "
                            "an IPv6 address is in brackets")
    where.add_argument("--rack", action="append", metavar="RACK=HOST[:WORKERS],...",
                       help="a rack of the run and its hosts, over ssh (repeatable, once for each rack): each rack has its own "
                            "servers, which its workers talk to, and one job is over all racks")
    where.add_argument("--slurm", action="store_true", help="on the hosts and with the tasks of this Slurm allocation")
    parser.add_argument("--racks", metavar="N|NAME,...",
                        help="racks that the hosts are dealt out to, in order, or the workers where there is one host: so many, "
                             "or those with these names")
    parser.add_argument("-x", dest="environment", action="append", default=[], metavar="NAME[=VALUE]",
                        help="a variable that workers and servers on all hosts get (repeatable; PHUB_* and "
                             "OMP_NUM_THREADS go by themselves)")
    parser.add_argument("--folder", default=os.getcwd(), metavar="FOLDER",
                        help="where they run, on all hosts (default: this folder's path)")
    parser.add_argument("--output", type=pathlib.Path, metavar="FOLDER",
                        help="a file there for each rank, and each server, instead of lines with the rank before them")
    servers = parser.add_mutually_exclusive_group()
    servers.add_argument("--servers", type=int, metavar="N",
                         help="servers to start, on the hosts in turn (default 1); with racks in each rack")
    servers.add_argument("--server", action="append", metavar="HOST:PORT[,HOST:PORT...]",
                         help="running ones to use instead (default: PHUB_SERVERS of the environment, where it is set); with "
                              "racks RACK=HOST:PORT,... for each rack, by the names that the servers' configurations have")
    parser.add_argument("--cores", type=int, metavar="N",
                        help="cores of each server that is started (default 1)")
    parser.add_argument("--server-program", metavar="PROGRAM",
                        help="the server's program (default: PHUB_SERVER_PROGRAM of the environment, or phub-server)")
    parser.add_argument("--server-options", metavar="WORDS",
                        help="more of its options, in one word, where {server} is each one's name: with several hosts it wants --credentials FOLDER, or "
                             "--allow-plaintext --tokens off where everybody may do everything; with racks and "
                             "certificates also --rack-credentials FOLDER (default: PHUB_SERVER_OPTIONS of the environment)")
    parser.add_argument("--ssh", default="ssh", metavar="COMMAND", help="with more of its options (default ssh)")
    parser.add_argument("--grace", type=float, default=10.0, metavar="SECONDS",
                        help="from asking what is left to end until it is killed (default 10)")
    parser.add_argument("--deadline", type=float, default=30.0, metavar="SECONDS",
                        help="for a host to answer (default 30)")
    parser.add_argument("--lost-after", type=float, default=60.0, metavar="SECONDS",
                        help="processes end when their host has heard nothing of phubrun for so long (default 60)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="what each worker runs")
    return parser


def _environment(named: List[str]) -> Dict[str, str]:
    """What goes to all hosts. Raises ValueError."""
    found = {name: value for name, value in os.environ.items()
             if name.startswith("PHUB_") or name in ("OMP_NUM_THREADS", "PYTHONUNBUFFERED")}
    for word in named:
        name, is_given, value = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f'-x: "{word}" is not NAME or NAME=VALUE')
        if name in _OF_EACH:
            raise ValueError(f"-x: {name} is phubrun's to say" + ("; use --server" if name == "PHUB_SERVERS" else ""))
        if not is_given and name not in os.environ:
            raise ValueError(f"-x: {name} is not set here; -x {name}=VALUE sets it")
        found[name] = value if is_given else os.environ[name]
    return found

"""The racks of a run: which ranks and which hosts are in each, and their servers.

Without racks there is one, without a name.
"""
from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Tuple

from phub.launch._places import Place

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_NAME_MAX = 64  # characters
_RACKS_MAX = 256  # of a job


class Rack(NamedTuple):
    name: str
    workers: int  # the ranks that follow those of the racks before it
    hosts: List[int]  # indexes of the run's hosts


def named(words: str) -> Dict[str, str]:
    """--racks: a number, or names. Each has no hosts yet. Raises ValueError."""
    names = [f"rack{index}" for index in range(min(int(words), _RACKS_MAX + 1))] if words.isdecimal() else words.split(",")
    return checked("--racks", [(name, "") for name in names])


def assigned(option: str, words: List[str]) -> Dict[str, str]:
    """RACK=WHAT, once for each rack. Raises ValueError."""
    pairs = [word.partition("=") for word in words]
    for word, (_, is_given, what) in zip(words, pairs):
        if not is_given or not what:
            raise ValueError(f'{option}: "{word}" is not RACK=...')
    return checked(option, [(name, what) for name, _, what in pairs])


def checked(option: str, pairs: List[Tuple[str, str]]) -> Dict[str, str]:
    if not 2 <= len(pairs) <= _RACKS_MAX:
        raise ValueError(f"{option}: racks are 2 to {_RACKS_MAX}, not {len(pairs) if len(pairs) < 2 else 'more'}; leave it out "
                         "for one")
    racks: Dict[str, str] = {}
    for name, what in pairs:
        if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
            raise ValueError(f'{option}: "{name}" is no name of a rack: a letter or a digit, then these and . _ -, as in a, or '
                             f"site1/rack3; {_NAME_MAX} characters at most")
        if name in racks:
            raise ValueError(f"{option}: rack {name} is there twice")
        racks[name] = what
    return racks


def racks_of(names: List[str], places: List[Place]) -> List[Rack]:
    """Hosts without a rack of their own are dealt out in order, and so are the workers of a single one. Raises ValueError."""
    workers = sum(place.workers for place in places)
    if not names:
        return [Rack("", workers, list(range(len(places))))]
    if len(places) == 1 and not places[0].rack:
        racks = [Rack(name, count, [0]) for name, count in zip(names, _dealt(workers, len(names)))]
    else:
        of_host = [name for name, count in zip(names, _dealt(len(places), len(names))) for _ in range(count)]
        hosts = {name: [index for index, place in enumerate(places) if (place.rack or of_host[index]) == name]
                 for name in names}
        racks = [Rack(name, sum(places[index].workers for index in hosts[name]), hosts[name]) for name in names]
    for rack in racks:
        if rack.workers == 0:
            raise ValueError(f"rack {rack.name} has no worker: of {workers} on {len(places)} hosts, none is left for it; raise "
                             "-n, or give more hosts or fewer racks")
    return racks


def text_of(racks: List[Rack]) -> str:
    """As a job's field `racks` has them; empty where there are none."""
    return ",".join(f"{rack.name}:{rack.workers}" for rack in racks if rack.name)


def _dealt(count: int, parts: int) -> List[int]:
    return [count // parts + (index < count % parts) for index in range(parts)]

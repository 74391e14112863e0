"""Where a run is: its hosts, how many workers each has, and the command that reaches each."""
from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Dict, List, NamedTuple

# With -I: no file of the folder that it starts in is taken for a module. Standard input's first line is the keeper, and the
# mark of its reports. Read byte by byte: what follows is the keeper's to read.
_BEGIN = 'import json;source,mark=json.loads(open(0,"rb",0,closefd=False).readline());exec(source)'
_NAME = re.compile(r"^(?:[^\s@,-][^\s@,]*@)?([A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])$")


class Place(NamedTuple):
    """A host of the run."""
    name: str  # as it was given, with a user or not
    workers: int
    command: List[str]  # that runs a keeper there
    cure: str  # where it cannot be reached
    is_far: bool = True
    rack: str = ""  # as it was given with the host; "": with none

    @property
    def address(self) -> str:
        """By which the others reach it, as HOST of HOST:PORT: an IPv6 address is in brackets."""
        return self.name.rpartition("@")[2]

    @property
    def host(self) -> str:
        """The same by itself, without brackets."""
        return self.address.strip("[]")


def here(workers: int) -> List[Place]:
    return [Place("127.0.0.1", workers, [sys.executable, "-I", "-c", _BEGIN], "", is_far=False)]


def over_ssh(hosts: Dict[str, str], workers: int, ssh: str) -> List[Place]:
    """`hosts`: HOST[:WORKERS],... by rack, or by "" alone; `workers`: how many of these in all, 0: all. Raises ValueError."""
    slots: Dict[str, int] = {}
    racks: Dict[str, str] = {}  # by host
    for rack, words in hosts.items():
        option = f"--rack {rack}" if rack else "-H"
        for word in re.split(r"[,\s]+", words.strip()):
            name, count = re.fullmatch(r"(.*?)(?::(\d+))?", word).groups()  # type: ignore[union-attr]
            if not (match := _NAME.match(name)):
                raise ValueError(f'{option}: "{word}" is not HOST or HOST:WORKERS, with USER@ before it or not')
            if racks.get(name, rack) != rack:
                raise ValueError(f"{option}: {name} is in rack {racks[name]} already; a host is in one rack")
            if name in slots:
                raise ValueError(f"{option}: {name} is there twice: give it the workers of both, as {match[1]}:N")
            slots[name], racks[name] = int(count or 1), rack
    return [Place(name, count, _ssh(ssh, name), f"can you log in there without being asked, by: {ssh} {name} true",
                  rack=racks[name])
            for name, count in _filled(slots, workers, "-H" if "" in hosts else "--rack").items()]


def _ssh(ssh: str, name: str) -> List[str]:
    # A connection of its own: one that many share would end them all, or none. What the user says is before ours,
    # for ssh takes an option's first value; -T: a terminal would change the lines.
    return [*shlex.split(ssh), "-T", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ControlPath=none",
            "-o", "ServerAliveInterval=5", name.replace("[", "").replace("]", ""),
            f"exec python3 -I -c {shlex.quote(_BEGIN)}"]


def in_slurm(workers: int) -> List[Place]:
    """The hosts of this allocation. Raises ValueError."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    tasks = os.environ.get("SLURM_TASKS_PER_NODE")
    if not nodes or not tasks:
        raise ValueError("--slurm: SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE are not set: run it in a script of "
                         "sbatch, or in salloc's shell")
    try:
        listed = subprocess.run(["scontrol", "show", "hostnames", nodes], stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"--slurm: scontrol show hostnames {nodes}: {error}") from None
    names = listed.stdout.split()
    counts = repeated(tasks)
    if len(names) != len(counts):
        raise ValueError(f"--slurm: {len(names)} hosts in SLURM_JOB_NODELIST={nodes}, and {len(counts)} in "
                         f"SLURM_TASKS_PER_NODE={tasks}")
    return [Place(name, count, _srun(name), f"is it up, by: sinfo -N -n {name}")
            for name, count in _filled(dict(zip(names, counts)), workers, "--slurm").items()]


def _srun(name: str) -> List[str]:
    # All of what the job has on the host, beside its other steps, and no core for this task alone.
    return ["srun", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={name}", "--overlap", "--mem=0",
            "--cpu-bind=none", "--quiet", "python3", "-I", "-c", _BEGIN]


def repeated(text: str) -> List[int]:
    """Slurm's "2(x3),1" is 2, 2, 2, 1."""
    counts: List[int] = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", word)
        if match is None:
            raise ValueError(f'--slurm: SLURM_TASKS_PER_NODE="{text}" is not as 2(x3),1')
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _filled(slots: Dict[str, int], workers: int, option: str) -> Dict[str, int]:
    """The first hosts, until there is room for all; hosts without workers are left out."""
    there = sum(slots.values())
    if workers > there:
        raise ValueError(f"-n {workers}: {option} has room for {there}")
    left = workers or there
    filled = {}
    for name, count in slots.items():
        if (own := min(count, left)) > 0:
            filled[name] = own
            left -= own
    if not filled:
        raise ValueError(f"{option} has room for no worker")
    return filled

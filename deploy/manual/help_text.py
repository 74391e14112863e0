"""What a program says of itself at --help, of itself and of all of its subcommands: CLI11's layout, and argparse's."""
import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Tuple

_USAGE = re.compile(r"^usage: ", re.I)
_TITLE = re.compile(r"^(\S.*):$")
_COMMANDS = ("Subcommands",)
_POSITIONALS = ("Positionals", "positional arguments")
_ENTRY = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")
_NOTE = re.compile(r"\s*(?:\b(Excludes|Needs): ((?:-{1,2}[\w-]+ ?)+)|\((Env:\w+)\)|\b(REQUIRED)\b)")
_NEGATION = re.compile(r"(?<=\w)\{(?:false|true)\}")  # as --no-roof{false}: it takes nothing
_FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")
_CHOICES = re.compile(r"^\w[\w-]*(?:, [\w-]+)*,? or [\w-]+(?= *(?:[(;:]|$))")


@dataclass
class Entry:
    """An option, a positional or a subcommand."""
    name: str  # as "-n N, --workers N"
    text: str
    notes: List[str] = field(default_factory=list)

    @property
    def flags(self) -> List[str]:
        return _FLAG.findall(self.name)

    @property
    def value(self) -> Optional[str]:
        """What it takes, as FILE; None: it takes nothing."""
        return _FLAG.sub("", self.name).strip(" ,") or None

    @property
    def choices(self) -> List[str]:
        """Of its value, where it says which there are."""
        listed = re.search(r"\{([\w,.-]+)\}", self.value or "")
        if listed:
            return listed[1].split(",")
        said = _CHOICES.match(self.text)
        return re.split(r",? or |, ", said[0]) if said and self.value else []


@dataclass
class Help:
    path: Tuple[str, ...]  # the program's name and the subcommands that lead here
    description: List[str]
    usage: str
    groups: Dict[str, List[Entry]]  # of options, by title
    positionals: List[Entry]
    footer: List[str]
    commands: List[Tuple[Entry, "Help"]] = field(default_factory=list)

    def all(self) -> Iterator["Help"]:
        yield self
        for _, command in self.commands:
            yield from command.all()

    @property
    def options(self) -> List[Entry]:
        return [entry for entries in self.groups.values() for entry in entries]


def help_of(command: List[str], path: Tuple[str, ...]) -> Help:
    """Asks the program `command`, which is called path[0]. Raises CalledProcessError."""
    said = subprocess.run([*command, *path[1:], "--help"], stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "COLUMNS": "120", "LC_ALL": "C.UTF-8"}).stdout
    found, commands = parsed(said, path)
    found.commands = [(entry, help_of(command, (*path, entry.name))) for entry in commands]
    return found


def parsed(said: str, path: Tuple[str, ...]) -> Tuple[Help, List[Entry]]:
    """The help, and the subcommands that it lists."""
    lines = said.splitlines()
    (start,) = [at for at, line in enumerate(lines) if _USAGE.match(line)]
    description, at = lines[:start], start + 1
    words = re.sub(r"^\S*" + re.escape(path[0]) + r"\b", path[0], _USAGE.sub("", lines[start]))
    found = Help(path, description, words, {}, [], [])
    commands: List[Entry] = []
    while at < len(lines):
        title = _TITLE.match(lines[at])
        if title and (title[1] in _COMMANDS + _POSITIONALS or lines[at + 1:at + 2] and lines[at + 1].startswith("  -")):
            entries, at = _entries(lines, at + 1)
            if title[1] in _COMMANDS:
                commands = entries
            elif title[1] in _POSITIONALS:
                found.positionals = entries
            else:
                found.groups[title[1]] = entries
        elif lines[at] and found.options:
            found.footer = lines[at:]
            break
        else:
            if not found.options:
                found.description.append(lines[at])
            at += 1
    return found, commands


def _entries(lines: List[str], at: int) -> Tuple[List[Entry], int]:
    found: List[Entry] = []
    while at < len(lines) and lines[at].startswith("  "):
        entry = _ENTRY.match(lines[at])
        if entry:
            notes = [" ".join(part for part in (f"{note[1]}:" if note[1] else "", note[2], note[3], note[4]) if part).strip()
                     for note in _NOTE.finditer(entry[1])]
            name = _NEGATION.sub("", _NOTE.sub("", entry[1])).strip()
            found.append(Entry(name, entry[2] or "", notes))
        else:
            found[-1].text = f"{found[-1].text} {lines[at].strip()}".strip()
        at += 1
    return found, at

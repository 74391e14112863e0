"""A page of the manual, in roff's macros man, from a program's help."""
import re
from typing import List

from help_text import Entry, Help


def page(found: Help, version: str) -> str:
    name = found.path[0]
    lines = [f'.TH {name.upper()} 1 "" "phub {version}" "PHub"', ".SH NAME", f"{_roff(name)} \\- {_roff(summary(found))}",
             ".ad l", ".nh", ".SH SYNOPSIS", f"{_bold(name)}{_roff(found.usage[len(name):])}", ".SH DESCRIPTION",
             *_paragraphs(found.description), *_options(found, ".SH")]
    if found.commands:
        lines.append(".SH COMMANDS")
        for each in list(found.all())[1:]:
            lines += [f'.SS "{_roff(" ".join(each.path[1:]))}"', *_paragraphs(each.description),
                      *_verbatim([each.usage]), *_options(each, None), *_verbatim(each.footer)]
    if found.footer:
        lines += [".SH NOTES", *_verbatim(found.footer)]
    return "\n".join(lines) + "\n"


def summary(found: Help) -> str:
    """One line, for who searches the manual."""
    name = re.escape(found.path[0])
    text = re.sub(rf"^{name}:? ", "", " ".join(line for line in found.description if line))
    first = re.split(r"[.:](?: |$)", text)[0]
    return first[:1].lower() + first[1:]


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    text = text.replace("~", "\\(ti").replace("^", "\\(ha").replace('"', "\\(dq")
    return "\\&" + text if text.startswith(".") else text


def _bold(text: str) -> str:
    return f"\\fB{_roff(text)}\\fR"


def _paragraphs(lines: List[str]) -> List[str]:
    return [_roff(line) if line else ".PP" for line in _trimmed(lines)]


def _verbatim(lines: List[str]) -> List[str]:
    return [".PP", ".nf", *map(_roff, _trimmed(lines)), ".fi"] if lines else []


def _trimmed(lines: List[str]) -> List[str]:
    return "\n".join(lines).strip("\n").split("\n")


def _options(found: Help, heading: "str | None") -> List[str]:
    lines: List[str] = []
    for title, entries in [("Arguments", found.positionals), *found.groups.items()]:
        # Of a subcommand what all have in common is not said again.
        shown = [each for each in entries if heading or "--help" not in each.flags]
        if shown:
            lines += [f"{heading} {_roff(title.upper())}"] if heading else []
            lines += [line for each in shown for line in _entry(each)]
    return lines


def _entry(entry: Entry) -> List[str]:
    listed = re.search(r":?\{([^}]*)\}", entry.name)
    notes = [*([f"one of {listed[1].replace(',', ', ')}"] if listed else []), *entry.notes]
    text = " ".join([*([entry.text] if entry.text else []), *(f"[{note}]" for note in notes)])
    name = re.sub(r",(?=-)", ", ", entry.name.replace(listed[0], "") if listed else entry.name)
    return [".TP", _bold(name), _roff(text) or "\\&"]

"""bash's and zsh's completion of a program, from its help: subcommands, options, and what options take."""
import re
import shlex
from typing import Callable, Dict, List, NamedTuple

from help_text import Entry, Help

# Which command is meant is read from the words before: of each path what is beneath it is known.
_BASH = """\
# bash completion of {name}.
_{function}() {{
  local -A commands=({commands})
  local -A options=({options})
  local -A takes=({takes})
  local path={name} at word previous=${{COMP_WORDS[COMP_CWORD - 1]}} current=${{COMP_WORDS[COMP_CWORD]}}
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=${{COMP_WORDS[at]}}
    if [[ -n ${{takes["$path $word"]-}} ]]; then
      ((++at))
    elif [[ " ${{commands["$path"]-}} " == *" $word "* && $word != -* ]]; then
      path="$path $word"
    fi
  done
  local kind=${{takes["$path $previous"]-}}
  case "$kind" in
    any) COMPREPLY=() ;;
    file) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    ?*) COMPREPLY=($(compgen -W "$kind" -- "$current")) ;;
    *)
      case "$current" in
        -*) COMPREPLY=($(compgen -W "${{options["$path"]-}}" -- "$current")) ;;
        *) COMPREPLY=($(compgen -W "${{commands["$path"]-}}" -- "$current")) ;;
      esac
      ;;
  esac
}}
complete -o default -F _{function} {name}
"""


# As an autoloaded function: compinit finds it by its first line.
_ZSH = """\
#compdef {name}
# zsh completion of {name}.
local -A commands=({commands})
local -A options=({options})
local -A takes=({takes})
local above={name} key kind word
integer at
for ((at = 2; at < CURRENT; at++)); do
  word=$words[at] key="$above $words[at]"
  if [[ -n ${{takes[$key]-}} ]]; then
    ((++at))
  elif [[ $word != -* && " ${{commands[$above]-}} " == *" $word "* ]]; then
    above=$key
  fi
done
key="$above $words[CURRENT-1]"
kind=${{takes[$key]-}}
case $kind in
  any) _message 'a value' ;;
  file) _files ;;
  folder) _files -/ ;;
  ?*) compadd -- ${{=kind}} ;;
  *)
    if [[ $words[CURRENT] == -* ]]; then
      compadd -- ${{=options[$above]-}}
    elif [[ -n ${{commands[$above]-}} ]]; then
      compadd -- ${{=commands[$above]}}
    else
      _files
    fi
    ;;
esac
"""


class _Tables(NamedTuple):
    """By path, as "phubctl job create"; of `takes` with an option behind it."""
    commands: Dict[str, List[str]]
    options: Dict[str, List[str]]
    takes: Dict[str, List[str]]


def bash(found: Help) -> str:
    return _filled(_BASH, found, lambda key, words: f"[{key}]={words}")


def zsh(found: Help) -> str:
    return _filled(_ZSH, found, lambda key, words: f"{key} {words}")


def _filled(text: str, found: Help, entry: Callable[[str, str], str]) -> str:
    name, tables = found.path[0], _tables(found)._asdict()
    return text.format(name=name, function=re.sub(r"\W", "_", name),
                       **{each: _table(entries, entry) for each, entries in tables.items()})


def _tables(found: Help) -> _Tables:
    tables = _Tables({}, {}, {})
    for each in found.all():
        path = " ".join(each.path)
        tables.commands[path] = [entry.name for entry, _ in each.commands]
        tables.options[path] = [flag for entry in each.options for flag in entry.flags]
        for entry in each.options:
            if entry.value:
                tables.takes.update({f"{path} {flag}": _kind(entry) for flag in entry.flags})
    return tables


def _kind(entry: Entry) -> List[str]:
    if entry.choices:
        return entry.choices
    if re.search(r"\b(FOLDER|DIRECTORY)\b", entry.value or ""):
        return ["folder"]
    return ["file"] if re.search(r"\bFILE\b", entry.value or "") else ["any"]


def _table(entries: Dict[str, List[str]], entry: Callable[[str, str], str]) -> str:
    lines = (f"    {entry(shlex.quote(key), shlex.quote(' '.join(words)))}" for key, words in entries.items() if words)
    return "\n" + "\n".join(lines) + "\n  "

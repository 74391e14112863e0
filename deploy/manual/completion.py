"""bash's completion of a program, from its help: subcommands, options, and what options take."""
import re
import shlex
from typing import Dict, List

from help_text import Entry, Help

# Which command is meant is read from the words before: of each path what is beneath it is known.
_FUNCTION = """\
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


def completion(found: Help) -> str:
    commands: Dict[str, List[str]] = {}
    options: Dict[str, List[str]] = {}
    takes: Dict[str, List[str]] = {}
    for each in found.all():
        path = " ".join(each.path)
        commands[path] = [entry.name for entry, _ in each.commands]
        options[path] = [flag for entry in each.options for flag in entry.flags]
        for entry in each.options:
            if entry.value:
                takes.update({f"{path} {flag}": _kind(entry) for flag in entry.flags})
    return _FUNCTION.format(name=found.path[0], function=re.sub(r"\W", "_", found.path[0]), commands=_table(commands),
                            options=_table(options), takes=_table(takes))


def _kind(entry: Entry) -> List[str]:
    if entry.choices:
        return entry.choices
    if re.search(r"\b(FOLDER|DIRECTORY)\b", entry.value or ""):
        return ["folder"]
    return ["file"] if re.search(r"\bFILE\b", entry.value or "") else ["any"]


def _table(entries: Dict[str, List[str]]) -> str:
    lines = (f"    [{shlex.quote(key)}]={shlex.quote(' '.join(words))}" for key, words in entries.items() if words)
    return "\n" + "\n".join(lines) + "\n  "

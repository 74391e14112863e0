"""Writes a program's page of the manual and its completions for bash and zsh, from what it says at --help.

Usage: make.py VERSION FOLDER NAME COMMAND...

COMMAND is how the program NAME is started. FOLDER/NAME.1, FOLDER/NAME (bash) and FOLDER/_NAME (zsh)
are written.
"""
import pathlib
import sys

import completion
from help_text import help_of
from page import page


def main() -> None:
    version, folder, name, *command = sys.argv[1:]
    found = help_of(command, (name,))
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(folder) / f"{name}.1").write_text(page(found, version), encoding="utf-8")
    (pathlib.Path(folder) / name).write_text(completion.bash(found), encoding="utf-8")
    (pathlib.Path(folder) / f"_{name}").write_text(completion.zsh(found), encoding="utf-8")


if __name__ == "__main__":
    main()

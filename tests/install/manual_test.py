"""The manual and bash's completion as they are installed, against what the programs say themselves.

Usage: manual_test.py CMAKE BUILD; exit code 77 where man or bash is missing
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from processes import DEADLINE, cleanups_of, temporary_folder  # noqa: E402

CMAKE = BUILD = ""
COMPONENTS = {"phub-server": "server", "phub-worker": "worker", "phubctl": "tools", "phub-bench": "tools",
              "phubrun": "tools"}
NEEDED = ("bash", "groff", "lexgrog", "man")
OPTIONS = re.compile(r"^  (-.*?)(?:  | Excludes:| Needs:|$)", re.M)
FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")
COMPLETES = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_${1//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=DEADLINE, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}")
    return done.stdout


def help_of(program, *words):
    if program == "phubrun":
        command = [sys.executable, "-B", "-m", "phub.launch"]
    else:
        command = [BUILD / "bin" / program]
    return output(*command, *words, "--help",
                  env={**os.environ, "PYTHONPATH": str(ROOT / "worker/torch"), "COLUMNS": "120"})


def commands_of(said):
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", said, re.M)
    return re.findall(r"^  (\S+)", listed[1], re.M) if listed else []


def flags_of(said):
    return {flag for found in OPTIONS.findall(said) for flag in FLAG.findall(found)}


def every_command(program, *words):
    """(words, help) of the program and all that is beneath it."""
    said = help_of(program, *words)
    yield words, said
    for name in commands_of(said):
        yield from every_command(program, *words, name)


class ManualTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = temporary_folder(cleanups_of(cls))
        for component in sorted(set(COMPONENTS.values())):
            output(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", component)
        cls.said = {program: list(every_command(program)) for program in COMPONENTS}

    def page(self, program):
        return self.prefix / "share/man/man1" / f"{program}.1"

    def complete(self, *words):
        file = self.prefix / "share/bash-completion/completions" / words[0]
        return [word for word in output("bash", "-c", COMPLETES, "bash", file, *words).split("\n") if word]

    def test_pages_are_sound(self):
        for program in COMPONENTS:
            with self.subTest(program):
                # lexgrog is what makes `man -k` find it; groff warns of what it does not know.
                self.assertRegex(output("lexgrog", self.page(program)), rf': "{program} - [a-z].{{10,}}"')
                self.assertEqual(output("groff", "-ww", "-man", "-Tutf8", "-z", "-K", "utf8", self.page(program)), "")

    def test_pages_say_all_options(self):
        for program, commands in self.said.items():
            shown = output("man", "-l", "-P", "cat", self.page(program),
                           env={**os.environ, "MANWIDTH": "120", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""})
            words = set(FLAG.findall(shown))
            for path, said in commands:
                with self.subTest(program, path=path):
                    self.assertGreater(len(flags_of(said)), 0)
                    self.assertLessEqual(flags_of(said), words)
                    self.assertIn(" ".join(path), shown)

    def test_examples_are_as_they_were_written(self):
        shown = output("man", "-l", "-P", "cat", self.page("phub-worker"), env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertIn("phub-worker train configs/mnist.textproto --server 127.0.0.1:7077 --workers 2 &\n", shown)

    def test_completion_has_all_commands_and_options(self):
        for program, commands in self.said.items():
            for path, said in commands:
                with self.subTest(program, path=path):
                    self.assertEqual(self.complete(program, *path, ""), commands_of(said))
                    self.assertEqual(set(self.complete(program, *path, "-")), flags_of(said))

    def test_completion_of_what_is_begun(self):
        self.assertEqual(self.complete("phubctl", "job", "cr"), ["create"])
        self.assertEqual(self.complete("phubctl", "--server", "host:7077", "--json", "job", "create", "--che"), ["--checksums"])
        self.assertEqual(self.complete("phub-worker", "train", "c.textproto", "--server", "train", "--transport", "v"), ["verbs"])
        self.assertEqual(self.complete("phub-server", "--log-level", ""),
                         ["trace", "debug", "info", "warn", "error", "off"])
        self.assertEqual(self.complete("phub-bench", "exchange", "--order", "a"), ["arrival"])
        self.assertEqual(self.complete("phubrun", "--serv"), ["--servers", "--server", "--server-program", "--server-options"])

    def test_completion_of_files_and_of_what_nobody_knows(self):
        folder = temporary_folder(self)
        (folder / "in here").mkdir()
        (folder / "file").touch()
        self.assertEqual(self.complete("phubctl", "--credentials", f"{folder}/"), [f"{folder}/in here"])
        self.assertEqual(set(self.complete("phub-server", "--config", f"{folder}/")), {f"{folder}/in here", f"{folder}/file"})
        self.assertEqual(self.complete("phubctl", "--server", ""), [])


if __name__ == "__main__":
    CMAKE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2])
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print("SKIPPED: missing:", ", ".join(missing), "(apt-get install man-db groff-base)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

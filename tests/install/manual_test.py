"""The manual and the completions of bash and zsh as they are installed, against what the programs say themselves.

Usage: manual_test.py CMAKE BUILD; exit code 77 where man or a shell is missing
"""
import os
import pathlib
import pty
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
NEEDED = ("bash", "groff", "lexgrog", "man", "zsh")
OPTIONS = re.compile(r"^  (-.*?)(?:  | Excludes:| Needs:|$)", re.M)
FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")
COMPLETES = """source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_${1//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# What zsh's own functions would offer is printed.
COMPLETES_IN_ZSH = """compadd() { shift; print -rl -- "${(@M)@:#${(b)words[CURRENT]}*}" }
_files() { print -r -- files $* }
_message() { print -r -- nothing }
complete() { local file=$1; shift; local -a words; words=("$@"); integer CURRENT=$#; source $file }
complete "$@"
"""
# Tab completes, and says what the line is now.
INTERACTIVE_ZSH = """fpath=({folder} $fpath)
autoload -Uz compinit && compinit -u -d {dump}
tell() {{ zle expand-or-complete; print -r -- "<$BUFFER>" }}
zle -N tell
bindkey '^I' tell
PROMPT='ready> '
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

    def complete_in_zsh(self, *words):
        file = self.prefix / "share/zsh/site-functions" / f"_{words[0]}"
        return [word for word in output("zsh", "-f", "-c", COMPLETES_IN_ZSH, "zsh", file, *words).split("\n") if word]

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
        self.assertRegex(shown, r"phub-worker train configs/mnist.textproto --server 127.0.0.1:7077 \\\n"
                                r" +--workers 2 &\n")

    def test_completion_has_all_commands_and_options(self):
        for program, commands in self.said.items():
            for path, said in commands:
                with self.subTest(program, path=path):
                    self.assertEqual(self.complete(program, *path, ""), commands_of(said))
                    self.assertEqual(set(self.complete(program, *path, "-")), flags_of(said))

    def test_zsh_completes_as_bash(self):
        for program, commands in self.said.items():
            for path, said in commands:
                with self.subTest(program, path=path):
                    self.assertEqual(self.complete_in_zsh(program, *path, ""), commands_of(said) or ["files"])
                    self.assertEqual(self.complete_in_zsh(program, *path, "-"), self.complete(program, *path, "-"))

    def test_zsh_completes_a_line(self):
        folder = temporary_folder(self)
        (folder / ".zshrc").write_text(INTERACTIVE_ZSH.format(folder=self.prefix / "share/zsh/site-functions",
                                                              dump=folder / "dump"))
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("zsh", ["zsh", "-d", "-i"], {**os.environ, "ZDOTDIR": str(folder), "TERM": "dumb"})
        said = b""
        try:
            for wanted, keys in ((b"ready> ", b"phubctl job crea\t"), (b"<phubctl job create >", b"")):
                while wanted not in said:
                    said += os.read(terminal, 4096)  # fails when the shell has ended
                os.write(terminal, keys)
        except OSError as failure:
            raise AssertionError(said) from failure
        finally:
            os.close(terminal)  # the shell ends with its terminal
            os.waitpid(pid, 0)

    def test_completion_of_what_is_begun(self):
        for complete in (self.complete, self.complete_in_zsh):
            with self.subTest(complete.__name__):
                self.completes_what_is_begun(complete)

    def completes_what_is_begun(self, complete):
        self.assertEqual(complete("phubctl", "job", "cr"), ["create"])
        self.assertEqual(complete("phubctl", "--server", "host:7077", "--json", "job", "create", "--che"), ["--checksums"])
        self.assertEqual(complete("phub-worker", "train", "c.textproto", "--server", "train", "--transport", "v"), ["verbs"])
        self.assertEqual(complete("phub-server", "--log-level", ""),
                         ["trace", "debug", "info", "warn", "error", "off"])
        self.assertEqual(complete("phub-bench", "exchange", "--order", "a"), ["arrival"])
        self.assertEqual(complete("phubrun", "--serv"), ["--servers", "--server", "--server-program", "--server-options"])

    def test_completion_of_files_and_of_what_nobody_knows(self):
        folder = temporary_folder(self)
        (folder / "in here").mkdir()
        (folder / "file").touch()
        self.assertEqual(self.complete("phubctl", "--credentials", f"{folder}/"), [f"{folder}/in here"])
        self.assertEqual(set(self.complete("phub-server", "--config", f"{folder}/")), {f"{folder}/in here", f"{folder}/file"})
        self.assertEqual(self.complete("phubctl", "--server", ""), [])
        self.assertEqual(self.complete_in_zsh("phubctl", "--credentials", ""), ["files -/"])
        self.assertEqual(self.complete_in_zsh("phub-server", "--config", ""), ["files"])
        self.assertEqual(self.complete_in_zsh("phubctl", "--server", ""), ["nothing"])


if __name__ == "__main__":
    CMAKE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2])
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print("SKIPPED: missing:", ", ".join(missing), "(apt-get install man-db groff-base zsh)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

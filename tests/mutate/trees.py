"""Copies of the working tree, in which mutants are built and tested.

The working tree itself is never written. In a copy the file of a mutant has its old text back after
each test, and whatever an interrupted run left there is overwritten by the next run.
"""
import concurrent.futures
import dataclasses
import fnmatch
import os
import queue
import re
import signal
import subprocess
import time

from lexer import Wrong
from table import ROOT, Mutant

KILLED, SURVIVED, UNBUILDABLE, BROKEN = "killed", "survived", "did not build", "fails unchanged"
BUILD_SECONDS = 3600
STARTED = re.compile(r'^add_test\(\[=\[(.+?)\]=\] "([^"]+)"', re.MULTILINE)
MEMORY_BYTES = 8 << 30  # a mutant may fill memory in an endless loop


@dataclasses.dataclass
class Outcome:
    mutant: Mutant
    result: str
    seconds: float = 0.0
    said: str = ""


def changed_files(files, root=ROOT):
    """Those that differ from the last commit."""
    listed = subprocess.run(["git", "status", "--porcelain", "-z", "--", *files], cwd=root, capture_output=True,
                            text=True, check=True).stdout
    return [entry[3:] for entry in listed.split("\0") if entry]


def programs_of(build_folder):
    """{test: its program, from the build folder}, of those that start a program of the build."""
    found = {}
    for path in build_folder.rglob("CTestTestfile.cmake"):
        for test, program in STARTED.findall(path.read_text(encoding="utf-8")):
            if program.startswith(f"{build_folder}/"):
                found[test] = os.path.relpath(program, build_folder)
    return found


class Tree:
    """A copy of the working tree, its build folder, and the tests that pass there unchanged."""

    def __init__(self, folder, preset, compilers=None):
        self.folder, self.preset = folder, preset
        self.build_folder = folder / "build" / preset
        self.compilers = ["-j", str(compilers)] if compilers else []
        self.passing = {}   # tests -> (whether they pass unchanged, what they said, their seconds)
        self.programs = {}  # test -> its program, a target of ninja
        self.process = None
        self.is_stopped = False

    def prepare(self, root=ROOT):
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=root, capture_output=True, text=True, check=True).stdout
        files = {name for name in listed.split("\0") if name and (root / name).is_file()}
        for name in files:
            source, copy = root / name, self.folder / name
            content = source.read_bytes()
            if copy.is_file() and copy.read_bytes() == content:
                continue  # a new time would mean to compile it again
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod(source.stat().st_mode)
        for copy in self.folder.rglob("*"):
            name = copy.relative_to(self.folder)
            if name.parts[0] != "build" and copy.is_file() and str(name) not in files:
                copy.unlink()
        # Without warnings: a mutant may leave a variable unused, and has to be built.
        status, said = self.run(["cmake", "--preset", self.preset, "-DPHUB_UNITY=OFF", "-DCMAKE_CXX_FLAGS=-w"],
                                BUILD_SECONDS)
        if status != 0:
            raise Wrong(f"cmake --preset {self.preset} fails in {self.folder}:\n{said}")
        self.programs = programs_of(self.build_folder)

    def run(self, command, limit):
        """Exit status, 124 after `limit` seconds, and the end of what it said."""
        if self.is_stopped:
            return 124, "stopped"
        self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            said, _ = self.process.communicate(timeout=limit)
            return self.process.returncode, said[-4000:]
        except subprocess.TimeoutExpired:
            self._kill()
            self.process.communicate()
            return 124, f"not over after {limit:.0f} s"

    def _kill(self):
        """The command and what it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stop(self):
        """From another thread: what runs is killed, and nothing more starts."""
        self.is_stopped = True
        if self.process is not None and self.process.poll() is None:
            self._kill()

    def build(self, tests):
        programs = sorted({self.programs[test] for name in " ".join(tests).split()
                           for test in fnmatch.filter(self.programs, name)})
        return self.run(["ninja", "-C", str(self.build_folder), *self.compilers, *programs], BUILD_SECONDS)

    def test(self, test, limit):
        names = "|".join(name.replace("*", ".*") for name in test.split())
        return self.run(["prlimit", f"--data={MEMORY_BYTES}", "ctest", "--test-dir", str(self.build_folder),
                         "--no-tests=error", "--output-on-failure", "--stop-on-failure", "-R", f"^({names})$"], limit)

    def passes_unchanged(self, test):
        if test not in self.passing:
            status, said = self.build([test])
            start = time.monotonic()
            if status == 0:
                status, said = self.test(test, BUILD_SECONDS)
            passes = status == 0 and "***Skipped" not in said
            self.passing[test] = (passes, said, time.monotonic() - start)
        return self.passing[test]

    def judge(self, mutant):
        start = time.monotonic()

        def outcome(result, said=""):
            return Outcome(mutant, result, time.monotonic() - start, said)
        for test in mutant.row.tests:
            passes, said, _ = self.passes_unchanged(test)
            if not passes:
                return outcome(BROKEN, said)
        path = self.folder / mutant.file
        content = path.read_text(encoding="utf-8")
        changed = mutant.apply(content)
        if changed is None:
            raise Wrong(f"{mutant.file}: has changed since this run began")
        try:
            path.write_text(changed, encoding="utf-8")
            return outcome(*self._judge_changed(mutant))
        finally:
            path.write_text(content, encoding="utf-8")

    def _judge_changed(self, mutant):
        status, said = self.build(mutant.row.tests)
        if status != 0:
            return UNBUILDABLE, said
        for test in mutant.row.tests:
            # A test that takes ten times as long is in an endless loop.
            status, said = self.test(test, 60 + 10 * self.passing[test][2])
            if status != 0:
                return KILLED, said
        return SURVIVED, said


def judge_all(mutants, trees, tell):
    """The outcomes, in the order of the mutants; each tree has a thread."""
    free = queue.SimpleQueue()
    for tree in trees:
        tree.prepare()
        free.put(tree)

    def judge(mutant):
        tree = free.get()
        try:
            outcome = tree.judge(mutant)
        finally:
            free.put(tree)
        if not tree.is_stopped:  # what a stopped command said is no result
            tell(outcome)
        return outcome
    with concurrent.futures.ThreadPoolExecutor(len(trees)) as threads:
        futures = [threads.submit(judge, mutant) for mutant in mutants]
        try:
            return [future.result() for future in futures]
        except BaseException:  # also an interruption: the files get their text back before the program ends
            for future in futures:
                future.cancel()
            for tree in trees:
                tree.stop()
            raise

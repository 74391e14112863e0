#!/usr/bin/env python3
"""Would the tests notice? Makes one small change at a time, and expects a test to fail.

Each change (tests/mutate/changes/*.toml) is a text of one file, what takes its place, and the test
that must fail then. It is made in a copy of the working tree with a build folder of its own; only
that test is built and run. A change that no test notices has survived: it wants a test.

  tests/mutate/mutate.py                         all changes, in build/mutate
  tests/mutate/mutate.py --only handshake        those with this text in their name, file or test
  tests/mutate/mutate.py --list | --check        shows them; checks that their texts are still there

Exit status: 0 all were noticed, 1 some survived, 2 wrong usage, a text that is not there exactly once
(stale), a change that does not build, or a test that fails without a change.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import queue
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGES = pathlib.Path(__file__).resolve().parent / "changes"
FIELDS = ("name", "file", "text", "to", "test")
KILLED, SURVIVED = "killed", "survived"
STALE, UNBUILDABLE, BROKEN = "stale", "does not build", "fails unchanged"


class Wrong(Exception):
    """The list of changes or the use of this program is wrong."""


@dataclasses.dataclass(frozen=True)
class Change:
    name: str
    file: str
    text: str     # exactly once in the file
    to: str
    test: str     # an executable of the folder tests in the build folder
    only: str = ""  # its argument: a test case, as Catch2 filters them

    def apply(self, content):
        """The changed content; nothing if the text is not there once."""
        return content.replace(self.text, self.to) if content.count(self.text) == 1 else None


@dataclasses.dataclass
class Outcome:
    change: Change
    result: str
    seconds: float = 0.0
    said: str = ""


def read_changes(folder=CHANGES):
    changes = []
    for path in sorted(folder.glob("*.toml")):
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("change", [])
        for number, entry in enumerate(entries, 1):
            wrong = [f for f in FIELDS if not isinstance(entry.get(f), str) or (f != "to" and not entry[f])]
            wrong += [f for f in entry if f not in FIELDS + ("only",)]
            if wrong:
                raise Wrong(f"{path.name}, change {number}: {', '.join(wrong)}: missing, empty or unknown")
            changes.append(Change(**entry))
    names = [change.name for change in changes]
    for name in {name for name in names if names.count(name) > 1}:
        raise Wrong(f"two changes have the name \"{name}\"")
    return changes


def stale(changes, root=ROOT):
    """Those whose text is not in its file exactly once."""
    def applies(change):
        path = root / change.file
        return path.is_file() and change.apply(path.read_text(encoding="utf-8")) is not None
    return [change for change in changes if not applies(change)]


def run(command, folder, limit):
    """Exit status, 124 after `limit` seconds, and the end of what it said."""
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=limit, check=False)
        return done.returncode, done.stdout[-4000:]
    except subprocess.TimeoutExpired:
        return 124, f"not over after {limit} s"


class Tree:
    """A copy of the working tree, its build folder, and the tests that pass there unchanged."""

    def __init__(self, folder, preset, limit):
        self.folder, self.preset, self.limit = folder, preset, limit
        self.passing = {}

    def prepare(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=ROOT, capture_output=True, text=True, check=True).stdout
        files = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
        for name in files:
            source, copy = ROOT / name, self.folder / name
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
        status, said = run(["cmake", "--preset", self.preset, "-DPHUB_UNITY=OFF"], self.folder, 600)
        if status != 0:
            raise Wrong(f"cmake --preset {self.preset} fails in {self.folder}:\n{said}")

    def build(self, test):
        return run(["ninja", "-C", f"build/{self.preset}", test], self.folder, 3600)

    def test(self, change):
        command = [f"build/{self.preset}/tests/{change.test}", "--abort"]  # one failure is enough
        command += [change.only] if change.only else []
        return run(command, self.folder, self.limit)

    def passes_unchanged(self, change):
        key = (change.test, change.only)
        if key not in self.passing:
            status, said = self.build(change.test)
            if status == 0:
                status, said = self.test(change)
            if status == 0 and "No test cases matched" in said:
                status, said = 1, f"no test case is named {change.only}"
            self.passing[key] = (status == 0, said)
        return self.passing[key]

    def judge(self, change):
        start = time.monotonic()

        def outcome(result, said=""):
            return Outcome(change, result, time.monotonic() - start, said)
        path = self.folder / change.file
        content = path.read_text(encoding="utf-8") if path.is_file() else ""
        changed = change.apply(content)
        if changed is None:
            return outcome(STALE)
        passes, said = self.passes_unchanged(change)
        if not passes:
            return outcome(BROKEN, said)
        try:
            path.write_text(changed, encoding="utf-8")
            status, said = self.build(change.test)
            if status != 0:
                return outcome(UNBUILDABLE, said)
            status, said = self.test(change)
            return outcome(SURVIVED if status == 0 else KILLED, said)
        finally:
            path.write_text(content, encoding="utf-8")


def judge_all(changes, trees, tell):
    """The outcomes, in the order of the changes; each tree has a thread."""
    free = queue.SimpleQueue()
    for tree in trees:
        tree.prepare()
        free.put(tree)

    def judge(change):
        tree = free.get()
        try:
            outcome = tree.judge(change)
        finally:
            free.put(tree)
        tell(outcome)
        return outcome
    with concurrent.futures.ThreadPoolExecutor(len(trees)) as threads:
        return list(threads.map(judge, changes))


def summary(outcomes):
    """The table and the exit status."""
    counts = {}
    for outcome in outcomes:
        counts[outcome.result] = counts.get(outcome.result, 0) + 1
    lines = [f"{outcome.result:16} {outcome.seconds:6.1f} s  {outcome.change.test:24} {outcome.change.name}"
             for outcome in outcomes]
    lines.append(", ".join(f"{count} {result}" for result, count in sorted(counts.items())) or "no changes")
    if set(counts) - {KILLED, SURVIVED}:
        return lines, 2
    return lines, 1 if SURVIVED in counts else 0


def show_json(outcomes):
    for outcome in outcomes:
        print(json.dumps({**dataclasses.asdict(outcome.change), "result": outcome.result,
                          "seconds": round(outcome.seconds, 1)}))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="changes with this text only")
    parser.add_argument("--list", action="store_true", help="show the changes and end")
    parser.add_argument("--check", action="store_true", help="check that all texts are there, and end")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many trees at once (default 1)")
    parser.add_argument("--preset", default="dev", help="of CMake (default dev)")
    parser.add_argument("--scratch", type=pathlib.Path, default=ROOT / "build" / "mutate", metavar="DIR",
                        help="where the trees are made (default build/mutate)")
    parser.add_argument("--limit", type=int, default=300, metavar="S",
                        help="a test that takes longer has failed (default 300 seconds)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each change")
    parser.add_argument("--verbose", action="store_true", help="what the tests and compilers said too")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or options.limit < 1:
        parser.error("--jobs and --limit begin at 1")
    return options


def main(arguments):
    options = parse(arguments)
    every = read_changes()
    changes = [change for change in every
               if any(options.only in text for text in (change.name, change.file, change.test))]
    if not changes:
        raise Wrong(f"no change has the text \"{options.only}\"")
    if options.list:
        for change in changes:
            print(f"{change.test:24} {change.file}: {change.name}")
        return 0
    if options.check:
        gone = stale(changes)
        for change in gone:
            print(f"stale: {change.file}: {change.name}: its text is not there exactly once")
        print(f"{len(changes)} changes, {len(gone)} stale")
        return 2 if gone else 0

    def tell(outcome):
        print(f"{outcome.result:16} {outcome.change.name}", file=sys.stderr, flush=True)
        if options.verbose and outcome.result != KILLED:
            print(outcome.said, file=sys.stderr, flush=True)
    # A tree that builds one test after the other compiles least.
    ordered = sorted(changes, key=lambda change: (change.test, change.file))
    trees = [Tree(options.scratch / str(n), options.preset, options.limit) for n in range(options.jobs)]
    outcomes = judge_all(ordered, trees, tell)
    lines, status = summary(outcomes)
    if options.json:
        show_json(outcomes)
    else:
        print("\n".join(lines))
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Wrong as wrong:
        print(f"mutate.py: {wrong}", file=sys.stderr)
        sys.exit(2)

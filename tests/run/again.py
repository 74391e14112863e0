#!/usr/bin/env python3
"""Runs what failed in a test run once more, alone, and tells unstable tests from broken ones.

A slow or busy machine fails a test now and then though the product is right. Such a test must not
cost the whole run, and it must not stay unnoticed: it is named in the last lines, with its first
output. More than --allowed unstable tests fail the run.

    again.py [--allowed N] NAME=FOLDER...

NAME is the preset, FOLDER its build folder. FOLDER/first.xml holds the results of the run, which
`ctest --output-junit` wrote. A result that is missing counts as a failed run.
Exit status: 0 every test passed in the run or alone; 1 otherwise; 2 wrong arguments.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

OUTPUT_LINES = 80  # of a first output, on the screen; the file has all
MOST_RUNS = 10  # more failures are a broken tree: each alone would take the time of a run


@dataclass
class Test:
    preset: str
    name: str
    first_output: str
    passed_alone: bool = False
    was_run_alone: bool = False

    def __str__(self) -> str:
        return f"{self.preset}/{self.name}"


@dataclass
class Counts:
    passed: int = 0
    skipped: int = 0


def read_results(preset: str, path: pathlib.Path, counts: Counts) -> list[Test]:
    """Adds to `counts`, and returns the tests that failed. Raises OSError or ParseError."""
    failed = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            counts.passed += 1
        elif status in ("notrun", "disabled") and case.find("skipped") is not None:
            counts.skipped += 1
        else:
            output = case.findtext("system-out") or ""
            reason = case.find("failure")
            said = "" if reason is None else reason.get("message") or ""
            failed.append(Test(preset, case.get("name") or "?", f"{said}\n{output}".strip()))
    return failed


def passes_alone(test: Test, folder: pathlib.Path) -> bool:
    print(f"again, alone: {test}", flush=True)
    command = ["ctest", "--test-dir", str(folder), "--no-tests=error", "--output-on-failure",
               "-j1", "-R", f"^{re.escape(test.name)}$"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0


def show(test: Test, folder: pathlib.Path) -> None:
    whole = folder / "unstable" / f"{test.name}.txt"
    whole.parent.mkdir(exist_ok=True)
    whole.write_text(test.first_output + "\n", encoding="utf-8")
    lines = test.first_output.splitlines()
    print(f"---- first output of {test}, which passed alone ({len(lines)} lines, all in {whole})")
    print("\n".join(lines[-OUTPUT_LINES:]))
    print("----")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allowed", type=int, default=2, metavar="N",
                        help="unstable tests that do not fail the run (default: 2)")
    parser.add_argument("runs", nargs="+", metavar="NAME=FOLDER",
                        help="a preset and its build folder, which has first.xml")
    options = parser.parse_args()
    folders = {}
    for run in options.runs:
        name, equals, folder = run.partition("=")
        if not equals or not name or not folder:
            parser.error(f"{run}: write NAME=FOLDER, for example dev=build/dev")
        folders[name] = pathlib.Path(folder)

    counts = Counts()
    failed: list[Test] = []
    has_all = True
    for name, folder in folders.items():
        try:
            failed += read_results(name, folder / "first.xml", counts)
        except (OSError, ElementTree.ParseError) as error:
            print(f"{name}: its results cannot be read, so its run has failed: {error}")
            has_all = False
    for test in failed[:MOST_RUNS]:
        test.was_run_alone = True
        test.passed_alone = passes_alone(test, folders[test.preset])

    unstable = [test for test in failed if test.passed_alone]
    broken = [test for test in failed if not test.passed_alone]
    for test in unstable:
        show(test, folders[test.preset])
    for test in unstable:
        print(f"unstable: {test} failed in the run and passed alone")
    for test in broken:
        how = "failed in the run and alone" if test.was_run_alone else "failed in the run"
        print(f"failed: {test} {how}")
    is_over = len(unstable) > options.allowed
    if is_over:
        print(f"failed: {len(unstable)} unstable tests are more than {options.allowed}")
    print(f"{counts.passed + len(unstable)} passed, {len(broken)} failed, {counts.skipped} skipped")
    return 1 if broken or is_over or not has_all else 0


if __name__ == "__main__":
    sys.exit(main())

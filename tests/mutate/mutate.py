#!/usr/bin/env python3
"""Would the tests notice? Makes one small change to a function at a time, and expects a test to fail.

table.toml names functions, and for each the tests that must notice a change of it. Operators make the
mutants of a function: a comparison, a bound or a sign becomes another, a check or a statement is left
out. A mutant is built and tested in a copy of the tree, with the tests of its function only. A mutant
that no test notices has survived: it needs a test, or a row [[equal]] in the table with the reason.

  tests/mutate/mutate.py --sample 20 --seed 7       20 random mutants
  tests/mutate/mutate.py --function Core::serve     all mutants of a function
  tests/mutate/mutate.py --mutant ID                one mutant
  tests/mutate/mutate.py --list [--function NAME]   shows mutants with their ids
  tests/mutate/mutate.py --check                    checks that the table fits the code

Exit status: 0 no mutant survived; 1 some survived; 2 the table or the use is wrong, or a test fails
without a mutant. A mutant that does not build is counted, and is no error.
"""
import argparse
import fnmatch
import json
import pathlib
import random
import signal
import sys

import report
import table
import trees
from lexer import Wrong


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    what = parser.add_argument_group("which mutants")
    what.add_argument("--sample", type=int, metavar="N", help="N random ones")
    what.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (default 1)")
    what.add_argument("--function", metavar="NAME", help="those of the functions with this name, or end of a name")
    what.add_argument("--test", metavar="NAME", help="those that this test has to notice")
    what.add_argument("--mutant", metavar="ID", help="this one, excused or not")
    parser.add_argument("--list", action="store_true", help="show the mutants and end")
    parser.add_argument("--check", action="store_true", help="check the table and end")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="N trees at once (default 1)")
    parser.add_argument("--compilers", type=int, metavar="N", help="at most N compilers for each tree")
    parser.add_argument("--preset", default="dev", help="of CMake (default dev)")
    parser.add_argument("--scratch", type=pathlib.Path, default=table.ROOT / "build" / "mutate", metavar="DIR",
                        help="where the trees are made (default build/mutate)")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each mutant")
    parser.add_argument("--verbose", action="store_true", help="also what tests and compilers said")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or (options.compilers or 1) < 1 or (options.sample or 1) < 1:
        parser.error("--jobs, --compilers and --sample begin at 1")
    if not (options.list or options.check or options.sample or options.function or options.test
            or options.mutant):
        parser.error("say which mutants: --sample, --function, --test or --mutant; or --list or --check")
    return options


def chosen_rows(rows, name, test):
    """Those of a function and of a test; all where none is named."""
    def has_name(row):
        ours, theirs = f"::{row.function}", f"::{name}"
        return name in (None, row.name) or ours.endswith(theirs) or theirs.endswith(ours)
    found = [row for row in rows if has_name(row)]
    if not found:
        raise Wrong(f"the table has no function {name}")
    found = [row for row in found
             if test is None or any(fnmatch.fnmatch(test, name) for name in " ".join(row.tests).split())]
    if not found:
        raise Wrong(f"the table has no such function for a test {test}")
    return found


def chosen(options, rows, equal, code):
    """The mutants that the options ask for."""
    every = [mutant for row in chosen_rows(rows, options.function, options.test) for mutant in code.mutants(row)]
    if options.mutant:
        found = [mutant for mutant in every if mutant.id == options.mutant]
        if not found:
            raise Wrong(f"no mutant is {options.mutant}")
        return found
    mutants = [mutant for mutant in every if mutant.id not in equal]
    if options.sample:
        mutants.sort(key=lambda mutant: mutant.id)
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    # A tree that builds one test after the other compiles least.
    return sorted(mutants, key=lambda mutant: (mutant.row.tests, mutant.file, mutant.start))


def show_list(mutants, as_json):
    for mutant in mutants:
        if as_json:
            print(json.dumps({"mutant": mutant.id, "line": mutant.line, "old": mutant.old, "new": mutant.new,
                              "tests": mutant.row.tests}))
        else:
            print(f"{mutant.id}  {mutant.shown()}")


def check(rows, code):
    faults = table.faults(rows, code, table.tests_in_cmake())
    for fault in faults:
        print(fault)
    count = sum(len(list(code.mutants(row))) for row in rows.rows) if not faults else 0
    print(f"{len(rows.rows)} functions, {count} mutants, {len(faults)} faults")
    return 2 if faults else 0


def main(arguments):
    options = parse(arguments)
    rows, code = table.read(), table.Code()
    if options.check:
        return check(rows, code)
    mutants = chosen(options, rows.rows, rows.equal, code)
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of a list may end first
        show_list(mutants, options.json)
        return 0
    if changed := trees.changed_files(sorted({mutant.file for mutant in mutants})):
        raise Wrong(f"{', '.join(changed)}: differs from the last commit, where a mutant's id counts from: commit it first")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interruption: nothing is left running
    copies = [trees.Tree(options.scratch / str(n), options.preset, options.compilers) for n in range(options.jobs)]
    progress = report.Progress(len(mutants), is_verbose=options.verbose)
    try:
        outcomes = trees.judge_all(mutants, copies, progress.tell)
    finally:
        progress.end()
    lines, status = report.summary(outcomes)
    if options.json:
        report.show_json(outcomes)
    else:
        print("\n".join(lines))
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Wrong as wrong:
        print(f"mutate.py: {wrong}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

"""again.py on a small project of tests that pass, fail, fail once and are skipped."""

import pathlib
import subprocess
import sys
import tempfile

AGAIN = pathlib.Path(__file__).with_name("again.py")

# A test that fails as often as its number says, then passes.
TEST = """import pathlib, sys
count = pathlib.Path(sys.argv[0]).with_name(sys.argv[1] + ".count")
runs = int(count.read_text()) if count.exists() else 0
count.write_text(str(runs + 1))
print("run", runs + 1, "of", sys.argv[1])
if sys.argv[1].startswith("skipped"):
    sys.exit(77)
sys.exit(1 if runs < int(sys.argv[2]) else 0)
"""


def run(tests: dict[str, int], *options: str, results: bool = True) -> tuple[int, str]:
    """The exit status and output of again.py after a run of `tests`: name, failures before it passes."""
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        (build / "one.py").write_text(TEST)
        lines = []
        for name, failures in tests.items():
            lines.append(f'add_test({name} "{sys.executable}" "{build}/one.py" {name} {failures})')
            lines.append(f'set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)')
        (build / "CTestTestfile.cmake").write_text("\n".join(lines))
        subprocess.run(["ctest", "--test-dir", folder, "--output-junit", f"{folder}/first.xml"],
                       capture_output=True, check=False)
        if not results:
            (build / "first.xml").unlink()
        done = subprocess.run([sys.executable, "-B", AGAIN, *options, f"dev={folder}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout


def check(is_true: bool, text: str) -> None:
    if not is_true:
        raise AssertionError(text)


def what_passed_is_not_run_again() -> None:
    status, text = run({"good": 0, "skipped_one": 0})
    check(status == 0 and "again" not in text, text)
    check(text.endswith("1 passed, 0 failed, 1 skipped\n"), text)


def an_unstable_test_is_named_with_its_first_output() -> None:
    status, text = run({"good": 0, "shaky": 1})
    check(status == 0, text)
    first = text.index("---- first output of dev/shaky")
    check(text.index("run 1 of shaky", first) < text.index("unstable: dev/shaky"), text)
    check(text.endswith("2 passed, 0 failed, 0 skipped\n"), text)


def a_broken_test_fails_the_run() -> None:
    status, text = run({"good": 0, "broken": 9, "broken_not": 0})
    check(status == 1 and "failed: dev/broken failed in the run and alone" in text, text)
    check("again, alone: dev/broken_not" not in text, text)
    check(text.endswith("2 passed, 1 failed, 0 skipped\n"), text)


def more_unstable_tests_than_allowed_fail_the_run() -> None:
    three = {"a": 1, "b": 1, "c": 1}
    status, text = run(three)
    check(status == 1 and "failed: 3 unstable tests are more than 2" in text, text)
    check(run(three, "--allowed", "3")[0] == 0, "three of three allowed")


def a_run_without_results_has_failed() -> None:
    status, text = run({"good": 0}, results=False)
    check(status == 1 and "dev: its results cannot be read" in text, text)


def many_failures_are_not_all_run_again() -> None:
    status, text = run({f"t{number}": 9 for number in range(12)})
    check(status == 1 and text.count("again, alone") == 10, text)
    check("failed: dev/t11 failed in the run\n" in text, text)
    check(text.endswith("0 passed, 12 failed, 0 skipped\n"), text)


for test in (what_passed_is_not_run_again, an_unstable_test_is_named_with_its_first_output,
             a_broken_test_fails_the_run, more_unstable_tests_than_allowed_fail_the_run,
             a_run_without_results_has_failed, many_failures_are_not_all_run_again):
    test()
    print("passed:", test.__name__)

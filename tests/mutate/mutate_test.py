"""The table, the trees and the reports of mutate.py, without a compiler. Usage: mutate_test.py"""
import contextlib
import io
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import mutate
import report
import table
import trees
from lexer import Wrong
from table import Code, Mutant, Row
from trees import Outcome

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from processes import until  # noqa: E402

TEXT = "namespace n {\nint f(int x) {\n  if (x < 1) return 2;\n  return g(x);\n}\nint f() { return 3; }\n}\n"


def mutant(**more):
    return Mutant(**{"id": "server/a.cc:f:compare:1", "row": Row("f", ("t",)), "file": "server/a.cc", "line": 3,
                     "start": TEXT.index("<"), "end": TEXT.index("<") + 1, "old": "<", "new": "<=", **more})


def is_over(process):
    """Whether a process has ended; its parent may not have asked for its status yet."""
    try:
        return " Z " in pathlib.Path("/proc", process, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


class Tree(trees.Tree):
    """Builds are copies of a file, tests are functions of it."""

    def __init__(self, folder, builds, notices):
        super().__init__(folder, "dev")
        self.builds, self.notices, self.built, self.tested = builds, notices, [], []

    def build(self, tests):
        self.built.append((self.folder / "server/a.cc").read_text())
        return (0 if self.builds(self.built[-1]) else 1), "said"

    def test(self, test, limit):
        self.tested.append(test)
        return (1 if self.notices(self.built[-1], test) else 0), "said"


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "server/a.cc"
        self.file.parent.mkdir()
        self.file.write_text(TEXT)


class TreesTest(InFolder):
    def judge(self, builds=lambda _: True, notices=lambda *_: False, **more):
        self.tree = Tree(self.folder, builds, notices)
        outcome = self.tree.judge(mutant(**more))
        self.assertEqual(self.file.read_text(), TEXT)
        return outcome.result

    def test_a_mutant_that_a_test_notices_is_killed_and_undone(self):
        self.assertEqual(self.judge(notices=lambda text, _: "<=" in text), "killed")

    def test_a_mutant_that_no_test_notices_survives(self):
        self.assertEqual(self.judge(), "survived")

    def test_each_test_is_asked_until_one_notices(self):
        row = Row("f", ("t", "u", "v"))
        self.assertEqual(self.judge(row=row, notices=lambda text, test: "<=" in text and test == "u"), "killed")
        self.assertEqual(self.tree.tested, ["t", "u", "v", "t", "u"])

    def test_a_test_that_fails_anyway_proves_nothing(self):
        self.assertEqual(self.judge(notices=lambda *_: True), "fails unchanged")

    def test_a_mutant_that_does_not_build_proves_nothing(self):
        self.assertEqual(self.judge(builds=lambda text: "<=" not in text), "did not build")

    def test_a_file_has_its_text_again_whatever_is_raised(self):
        tree = Tree(self.folder, lambda _: True, lambda *_: False)
        tree.passing["t"] = (True, "", 0.0)
        tree._judge_changed = lambda _: self.fail("raised")
        with self.assertRaises(AssertionError):
            tree.judge(mutant())
        self.assertEqual(self.file.read_text(), TEXT)

    def test_a_file_that_changed_meanwhile_is_left_alone(self):
        with self.assertRaisesRegex(Wrong, "has changed"):
            Tree(self.folder, lambda _: True, lambda *_: False).judge(mutant(old=">"))

    def test_a_command_that_is_not_over_is_killed_with_what_it_started(self):
        tree = trees.Tree(self.folder, "dev")
        status, said = tree.run(["sh", "-c", "sleep 1000 & echo $! > child; wait"], 1)
        self.assertEqual((status, said), (124, "not over after 1 s"))
        child = (self.folder / "child").read_text().strip()
        until(lambda: is_over(child), "the end of what the command started")

    def test_a_stopped_tree_ends_its_command_and_starts_none(self):
        tree = trees.Tree(self.folder, "dev")
        ended = []
        thread = threading.Thread(target=lambda: ended.append(tree.run(["sleep", "1000"], 1000)[0]))
        thread.start()
        until(lambda: tree.process is not None, "a command that runs")
        tree.stop()
        thread.join()
        self.assertEqual((ended, tree.run(["true"], 1)), ([-signal.SIGKILL], (124, "stopped")))

    def test_a_group_of_tests_is_built_and_run_by_name(self):
        tree = trees.Tree(self.folder, "dev")
        commands = []
        tree.run = lambda command, limit: commands.append(command)
        file = tree.build_folder / "tests/CTestTestfile.cmake"
        file.parent.mkdir(parents=True)
        file.write_text(f'add_test([=[a_test]=] "{tree.build_folder}/tests/a" "-#")\n'
                        f'add_test([=[b_test]=] "{tree.build_folder}/tests/b")\n'
                        'add_test([=[script]=] "/usr/bin/python3" "x.py")\n')
        tree.programs = trees.programs_of(tree.build_folder)
        tree.build(("a_* b_test",))
        tree.test("a_* b_test", 1)
        self.assertEqual(commands[0][-2:], ["tests/a", "tests/b"])
        self.assertEqual(commands[1][-1], "^(a_.*|b_test)$")

    def test_a_file_that_differs_from_the_last_commit_is_found(self):
        def git(*words):
            subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=self.folder, check=True,
                           capture_output=True)
        git("init")
        git("add", ".")
        git("commit", "-m", "m")
        self.assertEqual(trees.changed_files(["server/a.cc"], self.folder), [])
        self.file.write_text("x")
        self.assertEqual(trees.changed_files(["server/a.cc"], self.folder), ["server/a.cc"])


class TableTest(InFolder):
    def faults(self, *rows, equal=None, tests=("t",)):
        return table.faults(table.Table(rows, equal or {}), Code(self.folder), tests)

    def read(self, text):
        path = self.folder / "table.toml"
        path.write_text(text)
        return table.read(path)

    def test_a_mutant_has_the_same_id_each_time_and_overloads_count_on(self):
        ids = [each.id for each in Code(self.folder).mutants(Row("n::f", ("t",)))]
        self.assertEqual(ids, [each.id for each in Code(self.folder).mutants(Row("n::f", ("t",)))])
        self.assertEqual(ids[0], "server/a.cc:n::f:compare:1")
        self.assertIn("server/a.cc:n::f:bound:5", ids)
        self.assertEqual(len(ids), len(set(ids)))

    def test_a_function_is_found_by_the_end_of_its_name_or_by_its_file(self):
        for name in ("f", "n::f", "a.cc:f", "server/a.cc:n::f"):
            self.assertEqual(self.faults(Row(name, ("t",))), [])
        (self.folder / "server/b.cc").write_text(TEXT)
        self.assertRegex(self.faults(Row("f", ("t",)))[0], "several: server/a.cc:n::f, server/b.cc:n::f")
        self.assertEqual(self.faults(Row("b.cc:f", ("t",))), [])

    def test_what_is_wrong_with_a_row_is_said(self):
        self.file.write_text(TEXT + "int none(int x) { return x; }\n")
        self.assertRegex(self.faults(Row("h", ("t",)))[0], "no such function")
        self.assertRegex(self.faults(Row("f", ("t", "u")))[0], "no test is named u")
        self.assertRegex(self.faults(Row("none", ("t",)))[0], "no operator")
        self.assertRegex(self.faults(Row("f", ("t",)), Row("n::f", ("t",)))[0], "as f too")

    def test_an_excuse_is_for_a_mutant_that_is_there(self):
        row = Row("f", ("t",))
        self.assertEqual(self.faults(row, equal={"server/a.cc:f:compare:1": ("x < 1", "why")}), [])
        self.assertRegex(self.faults(row, equal={"server/a.cc:f:compare:2": ("x < 1", "why")})[0], "no such mutant")
        self.assertRegex(self.faults(row, equal={"server/a.cc:f:compare:1": ("y < 1", "why")})[0], "does not have")

    def test_a_function_has_all_tests_that_name_it(self):
        self.assertEqual(self.read('[tests]\nt = ["f", "g"]\nu = ["f"]\n').rows, (Row("f", ("t", "u")), Row("g", ("t",))))

    def test_a_table_with_a_wrong_entry_is_refused(self):
        for text, words in (("[x]\n", "unknown"), ('[tests]\nt = ["f", "f"]\n', "twice"),
                            ('[[equal]]\nmutant = "m"\ntext = "t"\nreason = ""\n', "a reason")):
            with self.assertRaisesRegex(Wrong, words):
                self.read(text)

    def test_tests_are_found_in_cmake(self):
        (self.folder / "tests").mkdir()
        (self.folder / "tests/CMakeLists.txt").write_text(
            "phub_test(a_test a.cc)\nadd_test(NAME b COMMAND c)\nadd_executable(d d.cc)\nphub_simulation(e 1 2)\n")
        self.assertEqual(table.tests_in_cmake(self.folder), {"a_test", "b", "d", "e"})

    def test_the_files_of_a_folder_are_tests(self):
        for name in ("one/a_test.cc", "one/help.cc", "one/fake/b_test.cc"):
            path = self.folder / "tests" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        (self.folder / "tests/CMakeLists.txt").write_text(
            "phub_test_folder(one LIBS l)\n"
            "phub_test_folder(one/fake\n  SOURCES tests/one/a_test.cc help.cc\n  SUFFIX fake\n  LIBS l)\n")
        self.assertEqual(table.tests_in_cmake(self.folder), {"a_test", "b_test", "a_fake_test"})

    def test_a_row_may_have_a_group_of_tests(self):
        tests = ("t", "t_one", "u")
        self.assertEqual(self.faults(Row("f", ("t u", "t_*")), tests=tests), [])
        self.assertRegex(self.faults(Row("f", ("t v",)), tests=tests)[0], "no test is named v")


class ProgramTest(unittest.TestCase):
    def outcomes(self, *results):
        return [Outcome(mutant(), result, 1.0) for result in results]

    def test_the_exit_status_tells_survivors_from_a_broken_test(self):
        for status, results in ((0, ("killed", "did not build")), (1, ("killed", "survived")),
                                (2, ("survived", "fails unchanged"))):
            self.assertEqual(report.summary(self.outcomes(*results))[1], status)

    def test_a_survivor_is_shown_with_its_change_and_tests(self):
        lines, _ = report.summary(self.outcomes("survived"))
        self.assertIn("line 3: < -> <=; t", "\n".join(lines))

    def test_a_terminal_gets_a_bar(self):
        stream = io.StringIO()
        stream.isatty = lambda: True
        progress = report.Progress(2, stream)
        progress.tell(*self.outcomes("killed"))
        self.assertIn("[############------------] 1 of 2, 1 killed, ", stream.getvalue())

    def test_a_file_gets_a_line_for_each_outcome(self):
        stream = io.StringIO()
        report.Progress(2, stream).tell(*self.outcomes("killed"))
        self.assertEqual(stream.getvalue(), "killed          server/a.cc:f:compare:1\n")

    @classmethod
    def setUpClass(cls):
        cls.code = Code()  # once: it takes a second

    def list(self, *options):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), unittest.mock.patch("table.Code", lambda: self.code):
            self.assertEqual(mutate.main(["--list", *options]), 0)
        return said.getvalue().splitlines()

    def test_a_sample_is_the_same_for_a_seed_and_another_for_another(self):
        self.assertEqual(len(self.list("--sample", "20", "--seed", "3")), 20)
        self.assertEqual(self.list("--sample", "20", "--seed", "3"), self.list("--sample", "20", "--seed", "3"))
        self.assertNotEqual(self.list("--sample", "20", "--seed", "3"), self.list("--sample", "20", "--seed", "4"))

    def test_a_function_is_chosen_by_its_name(self):
        lines = self.list("--function", "PrioritySet::insert")
        self.assertTrue(lines and all(":PrioritySet::insert:" in line for line in lines))
        with self.assertRaisesRegex(Wrong, "no function"):
            self.list("--function", "nobody")

    def test_an_excused_mutant_is_left_out_until_it_is_named(self):
        excused = next(iter(table.read().equal))
        self.assertFalse([line for line in self.list() if line.startswith(f"{excused} ")])
        self.assertEqual(len(self.list("--mutant", excused)), 1)


if __name__ == "__main__":
    unittest.main()

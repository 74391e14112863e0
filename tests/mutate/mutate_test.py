"""mutate.py's own logic, without a compiler. Usage: mutate_test.py"""
import pathlib
import tempfile
import unittest

import mutate
from mutate import Change, Outcome


def change(**more):
    return Change(**{"name": "n", "file": "a.cc", "text": "x < 1", "to": "x <= 1", "test": "t", **more})


class Tree(mutate.Tree):
    """Builds are copies of a file, tests are functions of it."""

    def __init__(self, folder, builds, notices):
        super().__init__(folder, "dev", 1)
        self.builds, self.notices, self.built = builds, notices, []

    def build(self, test):
        self.built.append((self.folder / "a.cc").read_text())
        return (0 if self.builds(self.built[-1]) else 1), "said"

    def test(self, change):
        return (1 if self.notices(self.built[-1]) else 0), "said"


class MutateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "a.cc").write_text("if (x < 1) y();\n")

    def judge(self, builds=lambda _: True, notices=lambda _: False, **more):
        outcome = Tree(self.folder, builds, notices).judge(change(**more))
        self.assertEqual((self.folder / "a.cc").read_text(), "if (x < 1) y();\n")
        return outcome.result

    def test_a_change_that_a_test_notices_is_killed_and_undone(self):
        self.assertEqual(self.judge(notices=lambda text: "<=" in text), "killed")

    def test_a_change_that_no_test_notices_survives(self):
        self.assertEqual(self.judge(), "survived")

    def test_a_test_that_fails_anyway_proves_nothing(self):
        self.assertEqual(self.judge(notices=lambda _: True), "fails unchanged")

    def test_a_change_that_does_not_build_proves_nothing(self):
        self.assertEqual(self.judge(builds=lambda text: "<=" not in text), "does not build")

    def test_a_text_that_is_gone_or_there_twice_is_stale(self):
        self.assertEqual(self.judge(text="z < 1"), "stale")
        (self.folder / "b.cc").write_text("x < 1; x < 1\n")
        gone = mutate.stale([change(), change(file="b.cc"), change(file="none.cc")], self.folder)
        self.assertEqual([c.file for c in gone], ["b.cc", "none.cc"])

    def test_the_exit_status_tells_survivors_from_a_wrong_list(self):
        def status(*results):
            return mutate.summary([Outcome(change(), result) for result in results])[1]
        self.assertEqual(status("killed", "killed"), 0)
        self.assertEqual(status("killed", "survived"), 1)
        for wrong in ("stale", "does not build", "fails unchanged"):
            self.assertEqual(status("survived", wrong), 2)

    def test_a_list_with_a_missing_field_or_a_name_twice_is_refused(self):
        entry = '[[change]]\nname = "n"\nfile = "a"\ntext = "b"\nto = ""\ntest = "t"\n'
        (self.folder / "list.toml").write_text(entry)
        self.assertEqual(len(mutate.read_changes(self.folder)), 1)
        for wrong, words in ((entry * 2, "two changes"), (entry.replace("test", "tets"), "test, tets"),
                             (entry.replace('"b"', '""'), "text")):
            (self.folder / "list.toml").write_text(wrong)
            with self.assertRaisesRegex(mutate.Wrong, words):
                mutate.read_changes(self.folder)

    def test_every_change_still_applies_to_the_tree(self):
        changes = mutate.read_changes()
        self.assertGreaterEqual(len(changes), 80)
        self.assertEqual([f"{c.file}: {c.name}" for c in mutate.stale(changes)], [])
        self.assertEqual([c.name for c in changes if c.text == c.to], [])


if __name__ == "__main__":
    unittest.main()

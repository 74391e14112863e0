"""phub-bench report on a folder as a run leaves it: what is shown, what is not, exit codes.

Usage: report_test.py BIN
"""
import html.parser
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
import run_folder  # noqa: E402
from processes import run  # noqa: E402


def report(*arguments):
    return run(processes.BIN / "phub-bench", "report", *map(str, arguments))


class Page(html.parser.HTMLParser):
    """The elements of a page, and the words of its sections."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data

    def count(self, tag, kind=None):
        return sum(1 for name, attributes in self.elements
                   if name == tag and (kind is None or kind in attributes.get("class", "").split()))


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name) / "run-7"
        cls.folder.mkdir()
        run_folder.make(cls.folder)
        cls.path = pathlib.Path(scratch.name) / "page.html"
        cls.done = report(cls.folder, "-o", cls.path)
        assert cls.done.returncode == 0, cls.done.stderr
        cls.page = Page(cls.path.read_text(encoding="utf-8"))

    def test_every_file_is_shown_or_named_with_why_not(self):
        self.assertIn(f"{len(run_folder.SHOWN)} of {len(run_folder.SHOWN) + len(run_folder.NOT_SHOWN)} files",
                      self.done.stdout)
        again = json.loads(report(self.folder, "-o", self.path, "--json").stdout)
        self.assertEqual({entry["file"] for entry in again["shown"]}, run_folder.SHOWN)
        reasons = {entry["file"]: entry["why"] for entry in again["not_shown"]}
        self.assertEqual(set(reasons), set(run_folder.NOT_SHOWN))
        for name, word in run_folder.NOT_SHOWN.items():
            self.assertIn(word, reasons[name])
            self.assertIn(f"not shown: {name}: {reasons[name]}", self.done.stdout)
            self.assertIn(reasons[name], self.page.words)
        for name in run_folder.SHOWN:
            self.assertIn(name, self.page.words)

    def test_figures_and_their_pictures_are_there(self):
        for words in ("Report of run-7", "CPUs", "phub, shm", "phub, tcp", "measured", "predicted",
                      "breaks even", "conv1", "hierarchical", "Loss"):
            self.assertIn(words, self.page.words)
        lines = [json.loads(line) for line in (self.folder / "dollars.json").read_text().splitlines()]
        evens = sum(1 for line in lines if line["what"] == "break_even")
        self.assertGreater(evens, 0)
        self.assertEqual(self.page.count("line", "even"), evens)
        self.assertGreater(self.page.count("line", "range"), 0)
        self.assertEqual(self.page.count("img"), 3)

    def test_nothing_is_fetched_and_nothing_runs(self):
        for tag, attributes in self.page.elements:
            self.assertNotIn(tag, ("script", "iframe", "object", "embed", "form", "base"))
            for name, value in attributes.items():
                self.assertFalse(name.startswith("on"), (tag, attributes))
                if name in ("src", "href", "xlink:href"):
                    self.assertTrue(value.startswith(("data:", "#")), value)
        self.assertEqual(self.page.count("style"), 1)

    def test_the_page_lies_in_the_folder_unless_told_otherwise_and_is_no_part_of_the_next(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "m.json").write_text((self.folder / "machine.json").read_text())
            for expected in ("1 of 1 files", "1 of 2 files"):
                done = report(folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(expected, done.stdout)
                self.assertTrue((folder / "report.html").exists())
            self.assertIn("report.html: is an earlier report", done.stdout)

    def test_bad_input_ends_with_code_2_and_names_what_is_wrong(self):
        for arguments, words in [((), "FOLDER"), ((self.folder / "none",), "no such folder"),
                                 ((self.folder / "lenet.json",), "is no folder"),
                                 ((self.folder / "inner",), "is empty")]:
            done = report(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stdout, done.stderr))
            self.assertIn(words, done.stderr)
            self.assertIn(words, json.loads(report(*arguments, "--json").stderr)["error"]["message"])
        done = report(self.folder, "-o", self.folder / "none" / "page.html")
        self.assertEqual(done.returncode, 1)
        self.assertIn("page.html: cannot be written", done.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main()

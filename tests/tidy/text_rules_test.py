"""Each rule of text_rules.py passes a text that keeps it and fails one that breaks it."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import text_rules

CHECK_TREE = pathlib.Path(__file__).with_name("check_tree.py")
LONG = "A core " + "adds " * 33 + "it"  # 36 words
PUBLIC = "worker/client/phub.h"


class TextRulesTest(unittest.TestCase):
    def accepts(self, path, text):
        self.assertEqual(text_rules.violations({path: text}), [])

    def refuses(self, path, text, saying, line=1):
        found = text_rules.violations({path: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{path}:{line}: "), found[0])
        self.assertIn(saying, found[0])

    def test_sentences_of_documents_have_at_most_35_words(self):
        self.refuses("README.md", LONG + ".\n", "a sentence of 36 words")
        self.accepts("README.md", LONG.replace("adds it", "it") + ".\n")
        self.refuses("a/B.md", "One.\n\n" + LONG.replace(" adds", "\nadds", 1) + "\n", "36 words", line=3)
        self.refuses("README.md", "* " + LONG + "\n", "36 words")
        self.refuses("README.md", f"| a | {LONG} |\n", "36 words")

    def test_sentences_end_at_periods_lists_cells_and_headings(self):
        half = "A core " + "adds " * 20
        for text in [f"{half}it. {half}it.", f"{half}it? {half}it", f"{half}(as here.) {half}it", f"{half}**it.** {half}it",
                     f"* {half}\n* {half}", f"1. {half}\n2. {half}", f"| {half} | {half} |", f"# {half}\n{half}",
                     f"{half}\n\n{half}", f"{half}\n```\n{half}\n```\n{half}", f"{half}it. gRPC {half}"]:
            self.accepts("README.md", text + "\n")
        for text in [f"{half}e.g. {half}", f"{half}i.e. {half}", f"{half}(Shi et al. 2020) {half}", f"{half}1.5 {half}",
                     f"{half}; {half}", f"{half}a.cc {half}"]:
            self.assertIn("a sentence of", "".join(text_rules.violations({"README.md": text + "\n"})))

    def test_code_and_links_count_as_they_read(self):
        self.accepts("README.md", "`" + LONG + "`\n")
        self.accepts("README.md", "```\n" + LONG + "\n```\n")
        self.accepts("README.md", "[core](a b c d)" * 3 + " adds " * 30 + "\n")

    def test_comments_of_public_headers_begin_with_their_subject(self):
        for text in ["// Of a job: its name.\n", "/* Whose turn it is. */\n", "int a;  // Who pushes.\n",
                     "// As one that is lost.\n", "/* Of it.\n */\n", "  // Who\n"]:
            self.refuses(PUBLIC, text, "subject and verb first")
            self.refuses("proto/job.proto", text, "subject and verb first")
            self.accepts("server/core/core.h", text)
        self.accepts(PUBLIC, "// The name\n// Of a job, which is one comment.\n// Offers it. Whole words.\n")
        self.accepts(PUBLIC, 'const char* text = "// Of";\nint a;  // of it\n')
        self.refuses(PUBLIC, "// Ends here.\n//\n// Of a new paragraph.\n", "subject and verb first", line=3)

    def test_words_to_avoid_have_better_ones(self):
        for text, better in [("the seat of it", "member"), ("two Strangers come", "unauthenticated connection"),
                             ("a guest", "unauthenticated connection"), ("its patience is over", "round timeout"),
                             ("a keeper on it", "agent"), ("what it keeps back", "residual"), ("was kept back", "residual"),
                             ("was kept all back", "residual"), ("so many of them", "the number's name"),
                             ("A table lost: it is slow", "rejected")]:
            self.refuses("README.md", text + "\n", better)
            self.refuses(PUBLIC, f"// Here is {text}\n", better)
        for text in ["a worker is lost", "`keeper`, `patience_ms` and patience_ms", "patient guesses", "the back is kept"]:
            self.accepts("README.md", text + "\n")
            self.accepts(PUBLIC, f"// Here: {text}\nint seat;\n")

    def test_comments_of_other_sources_are_counted_by_folder(self):
        counted = text_rules.counted({"server/a.h": "// Of it.\nint a;  // the seat\n", "server/b/c.cc": "/* Whose */\n",
                                      "worker/a.py": "#!/usr/bin/env python3\n# Of it\nx = '# Of'\n", "bench/a.cu": "// It is.\n",
                                      PUBLIC: "// Of it.\n", "README.md": "the seat\n", "tests/a.bin": None})
        self.assertEqual({folder: len(found) for folder, found in counted.items()}, {"server": 3, "worker": 1})

    def test_counts_may_only_fall(self):
        tree = {"server/a.h": "// Of it.\n\n// Who it is.\n", text_rules.COUNTS: json.dumps({"server": 2})}
        self.assertEqual(text_rules.ratchet(tree), ([], []))
        above, below = text_rules.ratchet(tree | {"server/b.h": "// Of it.\n"})
        self.assertEqual(below, [])
        self.assertEqual(len(above), 1)
        self.assertIn("server: 3 comments break the rules of plain words, 2 may", above[0])
        above, below = text_rules.ratchet(tree | {"worker/b.h": "// Of it.\n"})
        self.assertIn("worker: 1 comments break the rules of plain words, 0 may", above[0])
        above, below = text_rules.ratchet(tree | {"server/a.h": "// Of it.\n"})
        self.assertEqual(above, [])
        self.assertIn("server: 1 instead of 2: lower the number", below[0])

    def test_check_tree_fails_when_a_count_rises_and_hints_when_it_falls(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)

            def run(*more):
                return subprocess.run([sys.executable, "-B", str(CHECK_TREE), directory, *more],
                                      capture_output=True, text=True, check=False)

            subprocess.run(["git", "init", "-q", directory], check=True)
            (root / "tests/tidy").mkdir(parents=True)
            (root / "tests/a.h").write_text("// Of it.\n")
            self.assertEqual(run().returncode, 1)
            self.assertIn("tests: 1 comments", run().stdout)
            self.assertIn("tests/a.h:1: a comment begins with 'Of'", run("--list", "tests").stdout)
            (root / text_rules.COUNTS).write_text('{"tests": 2}')
            self.assertEqual(run().returncode, 0, run().stdout)
            self.assertIn("lower the number", run().stdout)


if __name__ == "__main__":
    unittest.main()

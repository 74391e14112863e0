"""A run's report in headless Chromium: both schemes, a phone and a screen, and hostile files in it.

Usage: report_page_test.py BIN SCREENSHOTS; exits 77 (skipped) without chromium, chromedriver and selenium.
"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import browser  # noqa: E402
import processes  # noqa: E402
import run_folder  # noqa: E402
from processes import run, until  # noqa: E402

SCREENSHOTS = pathlib.Path(".")


class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        run_folder.make(scratch.name)
        cls.page = pathlib.Path(scratch.name) / "report.html"
        done = run(processes.BIN / "phub-bench", "report", scratch.name)
        assert done.returncode == 0, done.stderr
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.driver.quit)

    def setUp(self):
        self.browser.driver.get("about:blank")
        self.browser.forget()

    def open(self, width, height, scheme):
        self.browser.look(width, height, scheme)
        self.browser.driver.get(self.page.as_uri())
        until(lambda: self.browser.run("document.readyState") == "complete", "the page is there")
        until(lambda: self.browser.run("innerWidth") == width, "the width")

    def test_it_fits_a_phone_and_a_screen_in_both_schemes(self):
        grounds = set()
        for width, height in ((390, 844), (1400, 900)):
            for scheme in ("light", "dark"):
                with self.subTest(width=width, scheme=scheme):
                    self.open(width, height, scheme)
                    self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                    grounds.add(self.browser.run("getComputedStyle(document.body).backgroundColor"))
                    least = self.browser.run(
                        "Math.min(...[...document.querySelectorAll('figure text')]"
                        ".map(text => 13 * text.getScreenCTM().a))")
                    self.assertGreaterEqual(least, 10)  # pixels that a letter of a picture is high
                    self.browser.screenshot(SCREENSHOTS / f"report-{width}-{scheme}.png", 5000)
        self.assertEqual(len(grounds), 2)

    def test_long_tables_unfold_within_a_phones_width(self):
        self.open(390, 844, "light")
        self.assertGreater(self.browser.run("document.querySelectorAll('details').length"), 0)
        self.browser.driver.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)

    def test_every_file_is_named_in_what_is_read(self):
        self.open(1400, 900, "light")
        text = self.browser.text("main")
        for name in run_folder.SHOWN | set(run_folder.NOT_SHOWN):
            self.assertIn(name, text)
        for reason in run_folder.NOT_SHOWN.values():
            self.assertIn(reason, text)

    def test_hostile_files_run_nothing_and_nothing_is_fetched(self):
        self.open(1400, 900, "light")
        self.assertTrue(self.browser.run(
            "[...document.images].every(image => image.complete && image.naturalWidth > 0)"))
        self.assertEqual(self.browser.run("document.images.length"), 3)  # none of them by a name or a text
        self.assertTrue(self.browser.run("document.title").startswith("Report of "))
        self.assertEqual(self.browser.run("document.scripts.length"), 0)
        self.browser.collect()
        own = self.page.as_uri()
        strangers = [url for url in self.browser.requested if url != own and not url.startswith(("data:", "about:"))]
        self.assertEqual(strangers, [])
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    if not browser.is_there():
        print(browser.SKIPPED)
        sys.exit(77)
    processes.BIN = pathlib.Path(sys.argv[1])
    SCREENSHOTS = pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])

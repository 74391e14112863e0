"""phub-bench dollars as a user runs it: tables, JSON, CSV, SVG, exit codes.

usage: dollars_test.py PHUB_BENCH SOURCE_FOLDER
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

DEADLINE_SECONDS = 120


def run(*arguments):
    return subprocess.run([BENCH, "dollars", *map(str, arguments)], capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS)


class DollarsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def lines(self, *arguments):
        done = run("--prices", PRICES, *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_every_figure_says_where_its_throughput_is_from(self):
        objects = self.lines("--measured", f"{FIRST}=1000", "--curve", "gpu-speed",
                             "--curve", "price:gpu", "--sensitivity", "10")
        self.assertEqual({line["what"] for line in objects},
                         {"deployment", "curve", "break_even", "sensitivity"})
        for line in objects:
            self.assertIn(line["throughput"], ("measured", "predicted"))
            is_first = line["deployment"] == FIRST and line.get("axis") != "gpu-speed"
            self.assertEqual(line["throughput"] == "measured", is_first, line)

    def test_an_exchange_that_the_bench_measured_is_taken(self):
        prices, exchange = self.folder / "two.textproto", self.folder / "exchange.json"
        text = PRICES.read_text(encoding="utf-8")
        for old, new in (("model_bytes: 102228128", "model_bytes: 32768"),
                         ("workers: 16", "workers: 1"), ("racks: 4", "racks: 2")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        prices.write_text(text, encoding="utf-8")
        done = subprocess.run([BENCH, "exchange", "--workers", "2", "--elements", "8192",
                               "--iterations", "4", "--blocks", "2", "--json"],
                              capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        exchange.write_text(done.stdout, encoding="utf-8")
        seconds = json.loads(done.stdout)["seconds_p50"]
        for compute, throughput in (("160", "predicted, exchange measured"), ("0", "measured")):
            prices.write_text(text.replace("compute_ms: 160", "compute_ms: " + compute),
                              encoding="utf-8")
            row = json.loads(run("--prices", prices, "--measured", f"{FIRST}={exchange}",
                                 "--json").stdout.splitlines()[0])
            self.assertEqual(row["throughput"], throughput)
            self.assertEqual(row["source"], str(exchange))
            self.assertAlmostEqual(row["iteration_seconds"], max(seconds, int(compute) / 1000))
        refused = run("--prices", PRICES, "--measured", f"{FIRST}={exchange}")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("workers is 2", refused.stderr)

    def test_the_bill_adds_up(self):
        for line in self.lines():
            self.assertAlmostEqual(sum(item["dollars"] for item in line["bill"]), line["dollars"])
            self.assertAlmostEqual(1000 * line["samples_per_second"] / line["dollars"],
                                   line["per_1000_dollars"])

    def test_the_table_csv_and_picture_have_what_the_json_has(self):
        rows, bars = self.folder / "rows.csv", self.folder / "bars.svg"
        done = run("--prices", PRICES, "--csv", rows, "--svg", bars)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(rows, encoding="utf-8", newline="") as file:
            cells = list(csv.DictReader(file))
        picture = "".join(xml.etree.ElementTree.parse(bars).getroot().itertext())
        objects = self.lines()
        self.assertEqual(len(cells), len(objects))
        for row, line in zip(cells, objects):
            self.assertEqual(row["deployment"], line["deployment"])
            self.assertEqual(row["throughput"], "predicted")
            self.assertAlmostEqual(float(row["dollars"]), line["dollars"])
            for text in (done.stdout, picture):
                self.assertIn(line["deployment"], text)
                self.assertIn(f"{line['ratio_to_first']:.3f}x", text)
            self.assertIn(f"{line['deployment']} (predicted)", picture)

    def test_curves_are_drawn_with_their_break_evens(self):
        points, curves = self.folder / "points.csv", self.folder / "curves.svg"
        arguments = ("--curve", "gpu-speed", "--from", "0.5", "--to", "8", "--points", "5")
        done = run("--prices", PRICES, *arguments, "--csv", points, "--svg", curves)
        self.assertEqual(done.returncode, 0, done.stderr)
        objects = self.lines(*arguments)
        evens = [line for line in objects if line["what"] == "break_even"]
        self.assertTrue(evens)
        picture = xml.etree.ElementTree.parse(curves).getroot()
        dashed = [line for line in picture.iter() if line.get("class") == "even"]
        self.assertEqual(len(dashed), len(evens))
        lines = [line for line in picture.iter() if line.get("class") == "curve"]
        self.assertEqual(len(lines), 3)
        values = {line["value"] for line in objects if line["what"] == "curve"}
        self.assertEqual(len(values), 5 + len(evens))  # a point at each break-even
        for line in lines:
            self.assertEqual(len(line.get("points").split()), len(values))
        with open(points, encoding="utf-8", newline="") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 3 * len(values))

    def test_bad_input_ends_with_code_2_and_names_what_is_wrong(self):
        wrong = self.folder / "wrong.textproto"
        wrong.write_text('date: "2026-11-23"\nprice: 3\n', encoding="utf-8")
        for arguments, words in [
                ((), "--prices"),
                (("--prices", wrong), "wrong.textproto:2:1: "),
                (("--prices", PRICES, "--curve", "pigeons"), "pigeons"),
                (("--prices", PRICES, "--from", "1", "--to", "2"), "--curve"),
                (("--prices", PRICES, "--curve", "gpu-speed", "--from", "1"), "--to"),
                (("--prices", PRICES, "--measured", "nobody=1"), "nobody"),
                (("--prices", PRICES, "--sensitivity", "0"), "--sensitivity"),
                (("--prices", PRICES, "--sensitivity", "nan"), "--sensitivity")]:
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stdout, done.stderr))
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")
            error = json.loads(run(*arguments, "--json").stderr)["error"]
            self.assertIn(words, error["message"])

    def test_a_file_that_cannot_be_written_is_a_failure(self):
        done = run("--prices", PRICES, "--csv", self.folder / "none" / "rows.csv")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rows.csv: cannot be written", done.stderr)


if __name__ == "__main__":
    SOURCE = pathlib.Path(sys.argv.pop(2))
    BENCH = sys.argv.pop(1)
    PRICES = SOURCE / "configs" / "prices.textproto"
    FIRST = "colocated, 100 Gb/s"
    unittest.main()

"""phub-bench simulate on traces that really were written: by phub-worker profile and phubctl trace.

Usage: simulate_test.py BIN
"""
import csv
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import run  # noqa: E402


def simulate(*arguments):
    return run(processes.BIN / "phub-bench", "simulate", *arguments)


class SimulateTest(processes.JobTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.profile = self.folder / "lenet.json"
        done = run(processes.BIN / "phub-worker", "profile", "lenet", "--batch", "16", "--steps", "3",
                   "--trace", self.folder / "lenet.trace", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.profile.write_text(done.stdout)

    def rows(self, *arguments):
        done = simulate(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_profile_and_its_chrome_trace_predict_the_same(self):
        rows = self.rows(self.profile)
        self.assertEqual(rows, self.rows(self.folder / "lenet.trace"))
        self.assertEqual(len(rows), 6 * 5)
        said = json.loads(self.profile.read_text())
        compute = sum(layer["forward_seconds"] + layer["backward_seconds"] for layer in said["layers"])
        for row in rows:
            self.assertEqual(row["kind"], "predicted")
            self.assertGreaterEqual(row["compute_seconds"], compute)
            self.assertGreater(row["seconds"], compute)
            self.assertAlmostEqual(row["images_per_second"] * row["seconds"], 8 * 16)

    def test_ten_thousand_workers_in_every_shape_and_policy(self):
        rows = self.rows(self.profile, "--workers", "1,10000", "--rack-workers", "40", "--uplink-gbit", "100")
        self.assertEqual({(row["workers"], row["racks"]) for row in rows}, {(1, 1), (10000, 250)})
        for row in rows[30:]:
            self.assertGreater(row["seconds"], row["compute_seconds"])

    def test_a_real_job_is_compared_with_its_prediction(self):
        self.workers = [processes.worker(self.server, index, 2, "shm") for index in (0, 1)]
        self.wait_for_rounds(600)  # chunks, some 50 a round
        trace = self.folder / "rounds.json"
        self.server.table("trace", "mnist", "--rounds", "20", "--output", trace)
        arguments = [self.profile, "--workers", "2", "--shape", "sharded", "--measured", trace]
        for row in self.rows(*arguments):
            self.assertGreater(row["error"], -1)
        self.assertIn("Measured: ", simulate(*arguments).stdout)
        refused = simulate(trace)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--measured", refused.stderr)
        self.assertEqual(simulate(self.profile, "--measured", self.profile).returncode, 2)

    def test_csv_and_picture_are_what_other_programs_read(self):
        table, picture = self.folder / "rows.csv", self.folder / "step.svg"
        arguments = [self.profile, "--shape", "ring", "--policy", "merged"]
        row = self.rows(*arguments, "--csv", table, "--gantt", picture)[0]
        with table.open() as file:
            written = list(csv.DictReader(file))
        self.assertEqual([list(row)], [list(each) for each in written])
        self.assertEqual(float(written[0]["seconds"]), row["seconds"])
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        for kind in ("backward", "exchange", "forward"):
            self.assertTrue(any(title.startswith(kind) for title in titles), kind)
        several = simulate(self.profile, "--gantt", picture)
        self.assertEqual(several.returncode, 2)
        self.assertIn("--gantt: draws one prediction, and there are 30", several.stderr)

    def test_a_wrong_line_is_named(self):
        wrong = self.folder / "trace.log"
        wrong.write_text("Id Name Forward Backward Comm Size\n1 conv1 10 20 0 400\n2 fc 10 ? 0 40\n")
        refused = simulate(wrong)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("trace.log:3:9: backward is '?'", refused.stderr)
        said = json.loads(simulate(wrong, "--json").stderr)
        self.assertEqual(said["error"]["code"], "INVALID_ARGUMENT")
        self.assertEqual(simulate(self.folder / "none").returncode, 2)
        self.assertEqual(simulate(self.profile, "--shape", "star").returncode, 2)
        self.assertEqual(simulate(self.profile, "--forward-ratio", "0.5").returncode, 2)
        self.assertEqual(simulate(self.profile, "--csv", self.folder / "no" / "folder").returncode, 1)


class SimulateAloneTest(unittest.TestCase):
    """On traces and options that need no profile."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name) / "trace"
        self.trace.write_text("1 conv 1000 1000 0 4000\n2 fc 1000 1000 0 4000\n")

    def refused(self, *arguments):
        done = simulate(self.trace, *arguments)
        self.assertEqual(done.returncode, 2, done.stdout)
        return done.stderr

    def test_options_that_are_no_numbers_are_refused(self):
        for option in ("--alpha-us", "--rate-gbit", "--server-gbit", "--uplink-gbit", "--chunk-kib",
                       "--input-ms", "--transfer-ms", "--update-ms", "--forward-ratio"):
            for value in ("nan", "-nan", "inf", "-1"):
                self.assertIn(option, self.refused(f"{option}={value}", "--policy", "priority"))

    def test_racks_that_differ_are_listed(self):
        def row(*arguments):
            done = simulate(self.trace, "-N", "20", "--shape", "hierarchical", "--policy", "bsp", "--alpha-us", "0",
                            "--server-gbit", "1e6", *arguments, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        self.trace.write_text("1 conv 1000 1000 0 400000000\n")
        same = row("--rack-workers", "8", "--uplink-gbit", "10")
        slow = row("--rack-workers", "8,8,4", "--uplink-gbit", "10,10,1")
        self.assertEqual((same["racks"], slow["racks"]), (3, 3))
        self.assertEqual((same["bound"], slow["bound"]), ("uplink", "uplink of rack 2"))
        self.assertAlmostEqual(slow["exchange_seconds"] / same["exchange_seconds"], 10, places=1)
        self.assertEqual(row("--rack-workers", "8,8,4", "--uplink-gbit", "10")["exchange_seconds"],
                         same["exchange_seconds"])
        self.assertIn("--rack-workers: 2 racks have 16 workers", self.refused("-N", "20", "--rack-workers", "8,8"))
        self.assertIn("--uplink-gbit: 2 rates", self.refused("-N", "20", "--rack-workers", "8", "--uplink-gbit", "1,2"))

    def test_a_number_that_no_training_has_is_refused_and_not_simulated_for_ever(self):
        self.trace.write_text("[0, 1e308, 10, 20, 20]\n")
        self.assertIn("trace:1:5: elements", self.refused("--shape", "ring", "--policy", "priority"))

    def test_a_number_that_no_double_has_is_refused_with_the_files_name(self):
        self.trace.write_text('{"layers": [], "batch": 1e999}')
        self.assertIn(str(self.trace), self.refused())

    def test_images_of_many_workers_are_counted_in_64_bits(self):
        layer = {"name": "a", "forward_seconds": 1, "backward_seconds": 1, "push_seconds": 0, "key_bytes": [4]}
        self.trace.write_text(json.dumps({"batch": 100_000, "steps": 1, "loss_seconds": 0, "layers": [layer]}))
        done = simulate(self.trace, "-N", "100000", "--shape", "sharded", "--policy", "wfbp", "--json")
        row = json.loads(done.stdout)
        self.assertAlmostEqual(row["images_per_second"] * row["seconds"] / 1e10, 1)

    def test_help_has_no_default_for_what_the_trace_says(self):
        lines = simulate("--help").stdout.splitlines()
        for option in ("--input-ms", "--update-ms"):
            line = next(line for line in lines if option in line)
            self.assertNotIn("=0", line)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

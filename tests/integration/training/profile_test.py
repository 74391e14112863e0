"""Where a step goes, by `phub-worker profile`: alone, through servers, as table, JSON and trace.

Usage: profile_test.py BIN
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run  # noqa: E402


def profile(*arguments):
    return run(processes.BIN / "phub-worker", "profile", *arguments)


class ProfileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def profiled(self, *arguments):
        done = profile(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_layers_add_up_to_the_model(self):
        said = self.profiled("resnet20", "--batch", "4", "--steps", "3", "--warm-up", "1")
        model = json.loads(run(processes.BIN / "phub-worker", "model", "resnet20", "--json").stdout)
        self.assertEqual([layer["name"] for layer in said["layers"]],
                         [layer["name"] for layer in model["layers"]])
        elements = model["totals"]["parameter_elements"]
        self.assertEqual(sum(sum(layer["key_bytes"]) for layer in said["layers"]), 4 * elements)
        memory = said["memory_bytes"]
        self.assertEqual(memory["gradients"], 4 * elements)
        statistics = sum(2 * layer["output"][0] for layer in model["layers"] if layer["kind"] == "batch_norm")
        self.assertEqual(memory["weights"], 4 * (elements + statistics))
        outputs = [layer["output"][0] * layer["output"][1] * layer["output"][2] for layer in model["layers"]]
        # The last normalisation of each block is done where the sum is written.
        left = [elements for elements, layer in zip(outputs, model["layers"]) if layer["name"].endswith(".bn2")]
        self.assertEqual(len(left), 9)
        # Values of all and the image's, gradients of all but the image, and again of what two layers read.
        once = 4 * 4 * (2 * (sum(outputs) - sum(left)) + 3 * 32 * 32)
        self.assertGreater(memory["feature_maps"], once)
        self.assertLess(memory["feature_maps"], 1.5 * once)
        self.assertEqual(memory["dynamic"], 4 * elements + 4 * 3 * 32 * 32 * 4 + 2 * 4)  # momentum, batch, labels
        self.assertGreater(memory["workspace"], 0)
        for layer in said["layers"]:
            self.assertGreater(layer["forward_seconds"], 0)
            self.assertGreater(layer["backward_seconds"], 0)
            self.assertEqual(layer["push_seconds"] > 0, bool(layer["key_bytes"]))
        flops = sum(layer["forward_flops"] + layer["backward_flops"] for layer in said["layers"])
        self.assertEqual(said["flops"], flops)
        self.assertEqual(said["peak"], "measured")
        for layer in said["layers"]:  # none is faster than what the backend reaches
            for way in ("forward", "backward"):
                rate = layer[f"{way}_flops"] / layer[f"{way}_seconds"]
                self.assertLessEqual(rate, 1.0001 * said["peak_flops_per_second"], layer["name"])
        self.assertAlmostEqual(said["utilisation"],
                               flops / said["step_seconds"] / said["peak_flops_per_second"])

    def test_a_given_peak_and_the_table(self):
        done = profile("lenet", "--batch", "2", "--steps", "2", "--peak-gflops", "100")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        header, rows = lines[1], lines[2:2 + 7]
        for row in rows:
            self.assertEqual(len(row), len(rows[0]))  # it aligns
        self.assertTrue(lines[1].startswith("layer"))
        self.assertEqual(len(header), len(rows[0]))
        self.assertIn("GFLOP/s of 100.0 (given)", done.stdout)
        for part in ("weights", "gradients", "feature maps", "workspace", "dynamic"):
            self.assertIn(f"  {part} ", done.stdout)

    def test_a_trace_has_the_steps_and_the_profile(self):
        trace = self.folder / "trace.json"
        said = self.profiled("lenet", "--batch", "2", "--steps", "3", "--trace", trace)
        written = json.loads(trace.read_text())
        self.assertEqual(written["phub_profile"], said)
        spans = [event for event in written["traceEvents"] if event["ph"] == "X"]
        for category in ("forward", "backward"):
            names = [event["name"] for event in spans if event["cat"] == category]
            order = [layer["name"] for layer in said["layers"]]
            self.assertEqual(names, 3 * (order if category == "forward" else order[::-1]))
        self.assertEqual(sum(event["cat"] == "loss" for event in spans), 3)
        for track in (1, 2):  # nothing overlaps within a track
            end = 0.0
            for event in (event for event in spans if event["tid"] == track):
                self.assertGreaterEqual(event["ts"], end - 1e-3)
                end = event["ts"] + event["dur"]

    def test_workers_are_profiled_through_a_server(self):
        server = Server()
        self.addCleanup(server.close)
        workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "profile", processes.CONFIG, "--server", server.control,
             "--workers", "2", "--index", str(index), "--steps", "4", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(2)]
        for worker in workers:
            text, errors = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, errors)
            said = json.loads(text)
            self.assertEqual((said["workers"], said["transport"]), (2, "shm"))
            self.assertGreater(sum(layer["wait_seconds"] for layer in said["layers"]), 0)
            self.assertGreater(sum(layer["push_seconds"] for layer in said["layers"]), 0)

    def test_wrong_usage_has_a_cure(self):
        for arguments, text in ((("lenot",), "neither a model (phub-worker model --list) nor"),
                                ((), "MODEL|CONFIG"),
                                (("lenet", "--steps", "0"), "--steps"),
                                (("lenet", "--peak-gflops", "-1"), "--peak-gflops"),
                                (("lenet", "--workers", "2"), "need a server")):
            done = profile(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)

"""Replays a small trace with real workers: over shm and tcp, on own servers and on one that runs, and
in a rack where there are the rights.

Usage: replay_test.py BIN
"""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402

TABLE = """Id Name Forward(us) Backward(us) Comm(us) Size(bytes)
1 conv1 2000 3000 0 40000
2 pool1 500 500 0 0
3 fc1 1000 2000 0 400000
"""
BLOBS = "[0, 10000, 3000, 0, 0]\n[1, 100000, 2000, 0, 0]\n"
COMPUTE_SECONDS = 9e-3  # of TABLE
SHORT = ("--workers", "2", "--iterations", "6", "--blocks", "2", "--server-cores", "1")


def bench(*words):
    return processes.run(processes.BIN / "phub-bench", *words)


class ReplayTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "table.txt"
        self.trace.write_text(TABLE)

    def replay(self, *words):
        done = bench("replay", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refusal(self, *words):
        done = bench("replay", *words)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_every_policy_and_transport_computes_as_long_as_the_trace_says(self):
        for transport, policy in (("shm", "priority"), ("shm", "bsp"), ("tcp", "priority"), ("tcp", "wfbp")):
            row = self.replay(self.trace, *SHORT, "--transport", transport, "--policy", policy)
            self.assertEqual((row["transport"], row["policy"]), (transport, policy))
            self.assertTrue(row["verified"])
            self.assertEqual((row["keys"], row["elements"]), (2, 110_000))
            self.assertEqual(len(row["seconds_of_blocks"]), 2)
            self.assertAlmostEqual(row["compute_seconds"], COMPUTE_SECONDS)
            # The first iteration of a block may make up for what the one before was late by.
            self.assertGreater(row["seconds_p50"], COMPUTE_SECONDS / 2)
            self.assertNotIn("predicted_seconds", row)
            self.assertIn("--worker-mbit", row["no_prediction"])

    def test_the_prediction_is_that_of_simulate(self):
        row = self.replay(self.trace, *SHORT, "--transport", "tcp", "--worker-mbit", "50", "--alpha-us", "80")
        done = bench("simulate", self.trace, "--workers", "2", "--shape", "sharded", "--policy", "priority",
                     "--rate-gbit", "0.05", "--alpha-us", "80", "--json")
        predicted = json.loads(done.stdout)
        self.assertAlmostEqual(row["predicted_seconds"], predicted["seconds"])
        self.assertEqual(row["bound"], predicted["bound"])
        self.assertAlmostEqual(row["error"], predicted["seconds"] / row["seconds_p50"] - 1)

    def test_the_other_layouts_and_a_built_in_network(self):
        blobs = self.folder / "blobs.log"
        blobs.write_text(BLOBS)
        row = self.replay(blobs, *SHORT, "--forward-ratio", "0.5", "--dtype", "fp16", "--rule", "nesterov")
        self.assertAlmostEqual(row["compute_seconds"], 7.5e-3)
        self.assertEqual(row["elements"], 110_000)
        done = processes.run(processes.BIN / "phub-worker", "profile", "lenet", "--batch", "4", "--steps", "2",
                             "--json")
        profile = self.folder / "lenet.json"
        profile.write_text(done.stdout)
        row = self.replay(profile, *SHORT)
        self.assertEqual((row["network"], row["elements"]), ("lenet", 431_080))
        row = self.replay("--model", "googlenet", "--forward-ms", "5", "--backward-ms", "10", "--shrink", "50",
                          *SHORT)
        self.assertIn("given", row["times"])
        self.assertAlmostEqual(row["elements"], 6_624_904 / 50, delta=200)
        self.assertTrue(row["verified"])

    def test_on_a_server_that_runs(self):
        server = processes.Server()
        self.addCleanup(server.close)
        row = self.replay(self.trace, "--workers", "2", "--iterations", "4", "--blocks", "2", "--address",
                          server.control, "--job", "replayed", "--transport", "tcp")
        self.assertTrue(row["verified"])
        self.assertIn("replayed", server.text("job", "list"))

    def test_whom_it_waits_for_is_said_while_it_waits_and_at_the_end(self):
        nobody = f"127.0.0.1:{processes.free_port()}"
        done = bench("replay", self.trace, "--workers", "2", "--address", nobody, "--timeout-s", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        said = done.stderr.splitlines()
        self.assertEqual(said[0], f"phub-bench: waiting for a phub-server at {nobody}, for 2 s at most")
        self.assertIn(f"did not start within 2 s; is a phub-server running at {nobody} (--address)?",
                      done.stderr)

    def test_a_table_for_people(self):
        done = bench("replay", self.trace, *SHORT, "--transport", "tcp", "--worker-mbit", "50")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("measured", "predicted (simulate", "Compute is a sleep", "The prediction is off by"):
            self.assertIn(words, done.stdout)

    def test_wrong_words_are_refused_with_their_name(self):
        self.assertIn("TRACE", self.refusal())
        self.assertIn("--model", self.refusal(self.trace, "--model", "lenet", "--forward-ms", "1"))
        self.assertIn("--forward-ms", self.refusal("--model", "lenet"))
        self.assertIn("resnet51", self.refusal("--model", "resnet51", "--forward-ms", "1"))
        self.assertIn("--worker-mbit", self.refusal(self.trace, "--transport", "shm", "--worker-mbit", "10"))
        self.assertIn("--timeout-s", self.refusal("--model", "lenet", "--forward-ms", "1000000"))
        self.assertIn("--policy", self.refusal(self.trace, "--policy", "merged"))
        self.assertIn("none.txt", self.refusal(self.folder / "none.txt"))
        self.trace.write_text(TABLE.replace("2000", "-1"))
        self.assertIn("table.txt:2:", self.refusal(self.trace))

    def test_in_a_rack(self):
        if bench("rack", "check").returncode != 0:
            self.skipTest("racks cannot be built here")
        scenario = self.folder / "s.textproto"
        scenario.write_text("""
racks { workers: 1 servers: 1 }
racks { workers: 1 servers: 1 }
links { worker_mbit: 200 server_factor: 2 oversubscription: 2 }
replay { trace: "table.txt" policy: "wfbp" iterations: 2 blocks: 2 }
""")
        done = bench("rack", "run", scenario, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rack, replay = (json.loads(line) for line in done.stdout.splitlines())
        self.assertEqual((rack["bench"], replay["bench"]), ("rack", "replay"))
        self.assertTrue(replay["verified"])
        self.assertEqual((replay["racks"], replay["policy"]), (2, "wfbp"))
        self.assertEqual(replay["seconds_p50"], rack["seconds_p50"])
        # 220 kB each way over an uplink of 100 Mbit/s, at least.
        self.assertGreater(replay["predicted_seconds"], COMPUTE_SECONDS + 0.01)
        scenario.write_text("racks { workers: 1 servers: 1 }\nreplay { trace: 'none.txt' }")
        done = bench("rack", "run", scenario)
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.txt", done.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

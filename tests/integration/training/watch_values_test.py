"""Trainings whose gradients are too large for the wire: the server tells whose, or ends the job with it.

Usage: watch_values_test.py BIN
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, until  # noqa: E402

CONFIG = """
job: "overflows" workers: 2 watch_values: "%s" wire_type: "fp16"
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 96 }
optimizer { rule: "sgd" learning_rate: 0.001 }
train { batch: 4 epochs: 100000 evaluate: false loss_scale { factor: 16777216 } }
"""
NETWORK = """
image { channels: 3 height: 12 }
layer { name: "conv" convolution { channels: 8 kernel: 3 padding: 1 } }
layer { name: "fc" inner_product { outputs: 10 } }
"""


class WatchValues(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "net.textproto").write_text(NETWORK)
        log = (self.folder / "server.log").open("w")
        self.addCleanup(log.close)
        self.server = Server(log=log)
        self.addCleanup(self.server.close)

    def train(self, watch, transport, *more):
        config = self.folder / "train.textproto"
        config.write_text(CONFIG % watch)
        workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", self.server.control,
             "--transport", transport, "--index", str(index), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(2)]
        errors = [worker.communicate(timeout=DEADLINE)[1] for worker in workers]
        return [worker.returncode for worker in workers], errors

    def log(self):
        return (self.folder / "server.log").read_text()

    def test_the_job_fails_with_worker_key_and_round_at_every_worker(self):
        for transport in ("shm", "tcp"):
            codes, errors = self.train("fail", transport)
            self.assertEqual(codes, [1, 1], errors)
            told = set()
            for error in errors:
                found = re.search(r'worker (\d) \(host .*\) pushed (\S+) in key "([\w.]+)", element \d+, '
                                  r"in round (\d+), and watch_values is fail", error)
                self.assertIsNotNone(found, error)
                told.add(found.groups())
            self.assertEqual(len(told), 1, errors)
            until(lambda: 'event=not_finite job="overflows"' in self.log(), "the log has it")
            self.assertIn("watch_values is fail", self.server.text("job", "explain", "overflows"))

    def test_who_it_was_stays_known_when_the_job_is_over(self):
        self.train("name", "shm", "--max-steps", "4")
        until(lambda: not self.server.running(), "the job is over")
        until(lambda: "PUSHES NOT FINITE" in self.server.table("job", "inspect", "overflows"),
              "its findings are kept")
        self.assertIn("watch_values", self.server.table("job", "inspect", "overflows"))
        self.assertRegex(self.log(), r'event=not_finite job="overflows" .* value=\S+ key=\S+ element=\d+ round=\d')

    def test_without_servers_nobody_watches(self):
        config = self.folder / "alone.textproto"
        config.write_text((CONFIG % "name").replace("workers: 2", "workers: 1"))
        done = subprocess.run([processes.BIN / "phub-worker", "train", config], capture_output=True,
                              text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("watch_values: servers do that", done.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

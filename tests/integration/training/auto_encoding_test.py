"""Workers that agree on an encoding by what they find of links and encoders, before their job.

Usage: auto_encoding_test.py BIN
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, temporary_folder  # noqa: E402

CONFIG = """
job: "auto" workers: 2 %s
optimizer { learning_rate: 0.01 %s }
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 256 }
train { batch: 4 epochs: 1 max_steps: 8 evaluate: false compress { encoding: "auto" %s } }
"""
NETWORK = """
image { channels: 3 height: 12 }
layer { name: "conv" convolution { channels: 8 kernel: 3 padding: 1 } }
layer { name: "hidden" inner_product { outputs: 64 } }
layer { name: "relu" relu {} }
layer { name: "fc" inner_product { outputs: 10 } }
"""
BYTES = 2 * (8 * 3 * 3 * 3 + 8 + 8 * 12 * 12 * 64 + 64 + 64 * 10 + 10)  # of its parameters in bf16
PLAIN = 'rule: "sgd" weight_decay: 0'
SLOW = "link_mbit: 0.001"  # whatever this machine does meanwhile
FAST = "link_mbit: 1e12"


class AutoEncoding(unittest.TestCase):
    def setUp(self):
        self.folder = temporary_folder(self)
        (self.folder / "net.textproto").write_text(NETWORK)
        self.server = Server()
        self.addCleanup(self.server.close)

    def launch(self, index, compress, *more, job="", optimizer=PLAIN):
        config = self.folder / f"train-{index}.textproto"
        config.write_text(CONFIG % (job, optimizer, compress))
        worker = subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", self.server.control,
             "--index", str(index), "--metrics", self.folder / f"metrics-{index}", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        return worker

    def train(self, compress, *more, **changed):
        """What each of two workers said of its choice, and the first line of its metrics."""
        workers = [self.launch(index, compress, *more, **changed) for index in range(2)]
        said = []
        for index, worker in enumerate(workers):
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, error)
            lines = [line for line in error.splitlines() if "train.compress" in line]
            self.assertEqual(len(lines), 1, error)
            start = json.loads((self.folder / f"metrics-{index}").read_text().splitlines()[0])
            said.append((lines[0], start))
        return said

    def check_agreed(self, said, encoding, wire_type):
        for line, start in said:
            self.assertIn(f"auto takes {encoding} ({wire_type})", line)
            self.assertEqual(start["encoding"], encoding)
            predicted = {each["encoding"]: each for each in start["predicted"]}
            self.assertEqual(list(predicted)[0], "dense")
            for name, each in predicted.items():
                self.assertRegex(line, rf"\b{name} [0-9.e+]+ ms")
                self.assertLessEqual(each["exchange_seconds"], each["step_seconds"])
        self.assertEqual(said[0][1]["predicted"], said[1][1]["predicted"], "all agree")
        table = self.server.table("job", "inspect", "auto")
        if encoding == "dense":
            self.assertNotRegex(table, r"encoding +")
        else:
            self.assertRegex(table, rf"encoding +{encoding}\n")

    def test_over_fast_links_gradients_stay_whole_and_travel_in_16_bits(self):
        self.check_agreed(self.train(FAST, "--transport", "tcp"), "dense", "bf16")
        jobs = self.server.text("job", "list")
        self.assertIn("auto.encoding", jobs)

    def test_over_slow_links_pushes_and_replies_are_sparse(self):
        self.check_agreed(self.train(f"{SLOW} dense_below: 100", "--transport", "tcp"), "sparse", "bf16")
        for index in range(2):
            end = json.loads((self.folder / f"metrics-{index}").read_text().splitlines()[-1])
            # Eight steps of two workers, beside initial parameters.
            self.assertLess(end["bytes_pushed"], 3 * BYTES)
            self.assertLess(end["bytes_received"], 3 * BYTES)

    def test_whole_replies_are_as_slow_as_dense_pushes(self):
        for transport, optimizer in (("shm", PLAIN), ("tcp", 'rule: "sgd" weight_decay: 0.001'),
                                     ("tcp", 'rule: "momentum" weight_decay: 0')):
            with self.subTest(transport=transport, optimizer=optimizer):
                said = self.train(SLOW, "--transport", transport, optimizer=optimizer)
                self.check_agreed(said, "dense", "bf16")

    def test_a_wire_type_that_is_given_stays(self):
        self.check_agreed(self.train(FAST, "--transport", "tcp", job='wire_type: "fp32"'), "dense", "fp32")

    def test_links_are_measured_and_all_workers_take_the_same(self):
        for transport in ("tcp", "shm"):
            with self.subTest(transport=transport):
                said = self.train("", "--transport", transport)
                self.check_agreed(said, said[0][1]["encoding"], "bf16")
                self.assertIn("auto.encoding.replies", self.server.text("job", "list"))

    def test_workers_that_are_told_different_links_are_told_so(self):
        workers = [self.launch(0, SLOW), self.launch(1, FAST)]
        for worker in workers:
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 2, error)
            self.assertIn("train.compress.link_mbit: is", error)
            self.assertIn("the same at each", error)

    def test_without_servers_there_is_nothing_to_choose(self):
        config = self.folder / "alone.textproto"
        config.write_text(CONFIG % ("", PLAIN, ""))
        ended = processes.run(processes.BIN / "phub-worker", "train", config, "--local")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("train.compress: needs servers", ended.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

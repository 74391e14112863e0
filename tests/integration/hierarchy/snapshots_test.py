"""Snapshots of a job of two racks with other cores, at random moments, with a slow link between the
racks and a straggler in each. Every snapshot ends, is of one round, and restores to the bits of a
run that went on.

Usage: snapshots_test.py BIN [--count N] [--seed S]; exits 77 (skipped) where there is no right to
make a network namespace. N snapshots of each kind of job; the test run takes few.
"""
import argparse
import json
import pathlib
import random
import signal
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
import slow_network  # noqa: E402
from racks import RacksTest, all_of, rounds_of  # noqa: E402

COUNT, SEED = 2, 1
RACKS = "a:2,b:2"
AT_ONCE = 4  # snapshots of one run
SLOW, FAST = "4mbit", "10gbit"
MTU = 600  # a reply comes in pieces
NETWORK = """
image { channels: 1 height: 8 }
layer { name: "conv" convolution { channels: 6 kernel: 3 } }
layer { name: "fc1" inner_product { outputs: 60 } }
layer { name: "fc2" inner_product { outputs: 10 } }
"""
CONFIG = """
job: "run"
workers: 4
wire_type: "%(wire)s"
chunk_kib: 4
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 256 }
optimizer { rule: "momentum" learning_rate: 0.01 }
train { epochs: 99 batch: 2 seed: 5 evaluate: false }
"""


class Stragglers:
    """Stops one of these processes for a moment, again and again, as long as the block lasts."""

    def __init__(self, workers, seed):
        self.workers, self.random, self.ended = workers, random.Random(seed), threading.Event()
        self.thread = threading.Thread(target=self.disturb)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def disturb(self):
        while not self.ended.is_set():
            worker = self.random.choice(self.workers)
            if worker.poll() is None:
                worker.send_signal(signal.SIGSTOP)
                self.ended.wait(self.random.uniform(0.01, 0.3))
                worker.send_signal(signal.SIGCONT)
            self.ended.wait(self.random.uniform(0, 0.1))


class Snapshots(RacksTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        (self.folder / "net.textproto").write_text(NETWORK)
        self.lay_out()
        for rack, cores in (("a", 1), ("b", 2)):
            self.start_server(rack, more=f'state_folder: "{self.folder / f"state-{rack}"}"\n'
                                         "snapshots_kept: 0\nsnapshots_of_tenant: 0\n", cores=cores)

    def start(self, job, checkpoint):
        return self.start_job(RACKS, "--job", job, "--max-steps", str(self.steps), *self.more_words,
                              config=self.config_path, checkpoint=checkpoint, transport="shm")

    def until_round(self, rack, job, round_, started):
        def is_there():
            for worker in all_of(started):
                self.assertIn(worker.poll(), (None, 0), worker.poll() and worker.communicate()[1])
            return rounds_of(self.servers[rack][0], job) >= round_
        processes.until(is_there, f"{job} is at round {round_}")

    def ask(self, rack, *words):
        return processes.run(processes.BIN / "phubctl", "--server", self.addresses[rack][0], "--json",
                             *words)

    def take(self, job, started):
        """One of both racks, at a random moment of what is left. None: the run is over before."""
        last = self.steps * 2 // 3
        first = rounds_of(self.servers["a"][0], job)
        moment = self.random.randint(min(first, last), last)
        self.until_round("a", job, moment, started)
        for _ in range(self.random.randrange(5)):  # anywhere in a round: each look takes some of it
            rounds_of(self.servers["a"][0], job)
        done = self.ask("a", "snapshot", job, "--also", self.addresses["b"][0])
        if "it is not running here" in done.stderr:
            return None
        self.assertEqual(done.returncode, 0, done.stderr)
        taken = [json.loads(line) for line in done.stdout.splitlines()]
        rounds = {reply["snapshot"]["round"] for reply in taken}
        self.assertEqual(len(rounds), 1, taken)
        is_last = int(rounds.pop()) > self.steps  # nothing is left to go on with
        return None if is_last else [reply["snapshot"]["file"] for reply in taken]

    def take_some(self, job, count):
        """Snapshots of one run, and what it ended with."""
        checkpoint = self.folder / f"{job}.safetensors"
        started = self.start(job, checkpoint)
        slowest = [started["a"][1], started["b"][1]]
        with Stragglers(slowest, self.random.random()):
            self.until_round("b", job, 2, started)
            files = [self.take(job, started) for _ in range(count)]
            files = [pair for pair in files if pair]
        self.finish(started)
        return files, checkpoint.read_bytes()

    def go_on(self, job, files):
        """What a job that starts from these ends with."""
        for rack, file in zip("ab", files):
            done = self.ask(rack, "restore", file, "--as", job)
            self.assertEqual(done.returncode, 0, done.stderr)
        checkpoint = self.folder / f"{job}.safetensors"
        self.finish(self.start(job, checkpoint))
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        return checkpoint.read_bytes()

    def check(self, *more, wire="fp32", steps=50):
        self.config_path, self.more_words = self.folder / "job.textproto", more
        self.steps = steps
        self.config_path.write_text(CONFIG % {"wire": wire})
        ports = [self.servers[rack][0].data for rack in "ab"]
        slow_network.slow_down(SLOW, [f"{way} {port}" for port in ports for way in ("sport", "dport")])
        self.addCleanup(slow_network.speed_up)
        whole, left, number = None, COUNT, 0
        while left > 0:
            number += 1
            self.assertLess(number, 4 + COUNT, "runs are over before a snapshot of them is taken")
            slow_network.change_rate(SLOW)
            taken, bits = self.take_some(f"run{number}", min(left, AT_ONCE))
            self.assertEqual(bits, whole or bits)
            whole = bits
            slow_network.change_rate(FAST)
            for index, files in enumerate(taken):
                self.assertEqual(self.go_on(f"again{number}-{index}", files), whole, files)
            left -= len(taken)

    def test_whole_sums(self):
        self.check()

    def test_sums_in_16_bits(self):
        self.check("--rack-wire-type", "bf16")

    def test_some_of_each_sum(self):
        self.check("--rack-density", "0.05", wire="bf16", steps=400)


def main():
    global COUNT, SEED
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_intermixed_args()
    slow_network.enter(MTU)
    processes.BIN, COUNT, SEED = arguments.bin, arguments.count, arguments.seed
    unittest.main(argv=[sys.argv[0], *arguments.tests], verbosity=2)


if __name__ == "__main__":
    main()

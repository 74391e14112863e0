"""Trainings whose rounds need not have every worker's push: one that stops, one that dies.

Usage: quorum_test.py BIN
"""
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, find, until  # noqa: E402

CONFIG = """
job: "quorum" order: "arrival" workers: 3
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 96 }
optimizer { rule: "momentum" learning_rate: 0.01 }
train { batch: 4 epochs: 100000 evaluate: false %s }
rounds { %s }
"""
NETWORK = """
image { channels: 3 height: 12 }
layer { name: "conv" convolution { channels: 8 kernel: 3 padding: 1 } }
layer { name: "fc" inner_product { outputs: 10 } }
"""
BACKUP = "quorum: 2 grace_ms: 20"
ASYNCHRONOUS = 'quorum: 1 late: "add"'
STALE_SYNCHRONOUS = 'quorum: 1 late: "add" staleness: 3'


class Quorum(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "net.textproto").write_text(NETWORK)
        self.log = (self.folder / "server.log").open("w")
        self.addCleanup(self.log.close)
        config = self.folder / "server.textproto"
        config.write_text(f'state_folder: "{self.folder}/state"')
        self.server = Server("--config", config, log=self.log)
        self.addCleanup(self.server.close)
        self.workers = []

    def start(self, rounds, transport, *more, train=""):
        config = self.folder / "train.textproto"
        config.write_text(CONFIG % (train, rounds))
        for index in range(3):
            self.workers.append(subprocess.Popen(
                [processes.BIN / "phub-worker", "train", config, "--server", self.server.control,
                 "--transport", transport, "--index", str(index), *more],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.addCleanup(self.end)

    def end(self):
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    def job(self):
        return self.server.ctl("job", "inspect", "quorum")["job"]

    def chunks(self):
        return self.server.chunks()

    def steps_of_slowest(self):
        job = self.job()
        chunks = int(job["statistics"]["chunks"])
        return min(int(member["pushes"]) for member in job["members"]) // chunks

    def train_on(self, more=50):
        before = self.chunks()
        until(lambda: self.chunks() > before + more, "the others train on")

    def stop_one(self, rounds, transport, number):
        self.start(rounds, transport)
        until(lambda: self.chunks() > 20, "it trains")
        self.workers[2].send_signal(number)
        self.train_on()  # at once, before it is lost
        until(lambda: any(m.get("lost") for m in self.job()["members"]), "it is lost")
        self.train_on()
        self.assertIn("lost", self.server.table("job", "inspect", "quorum"))
        self.assertIn("lost workers", self.server.text("job", "explain", "quorum"))
        self.log.flush()
        self.assertIn("event=left_behind", (self.folder / "server.log").read_text())
        for worker in self.workers[:2]:
            self.assertIsNone(worker.poll())

    def test_the_others_train_on_without_a_worker_that_is_stopped_over_tcp(self):
        self.stop_one(BACKUP, "tcp", signal.SIGSTOP)
        # It learns what has become of it when it goes on.
        self.workers[2].send_signal(signal.SIGCONT)
        error = self.workers[2].communicate(timeout=DEADLINE)[1]
        self.assertIn("goes on without it", error)

    def test_the_others_train_on_without_a_worker_that_is_stopped_over_shm(self):
        self.stop_one(STALE_SYNCHRONOUS.replace("staleness: 3", "staleness: 1000000"), "shm", signal.SIGSTOP)

    def test_the_others_train_on_without_a_worker_that_is_killed(self):
        self.stop_one(ASYNCHRONOUS, "shm", signal.SIGKILL)

    def test_without_worker_0_nobody_trains_on_for_nothing(self):
        self.start(ASYNCHRONOUS, "shm")
        until(lambda: self.chunks() > 20, "it trains")
        self.workers[0].kill()
        for worker in self.workers[1:]:
            error = worker.communicate(timeout=DEADLINE)[1]
            self.assertEqual(worker.returncode, 1)
            self.assertIn("worker 0", error)
            self.assertIn("evaluates and saves", error)

    def test_a_snapshot_counts_steps_and_a_restored_job_goes_on_from_them(self):
        self.start(ASYNCHRONOUS, "shm", "--max-steps", "1000000")
        until(lambda: self.chunks() > 200, "it trains")
        refused = subprocess.run(
            [processes.BIN / "phubctl", "--server", self.server.control, "snapshot", "quorum",
             "--round", "5"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("has a quorum", refused.stderr)
        before = self.steps_of_slowest()
        taken = self.server.ctl("snapshot", "quorum")
        step = int(find(taken, "round"))
        self.assertGreaterEqual(step, before)
        self.assertLess(step, int(self.job()["statistics"]["rounds"]))  # those of chunks are three workers' pushes
        self.end()
        self.workers.clear()
        until(lambda: not self.server.running(), "the job is over")
        self.server.ctl("restore", find(taken, "file"))
        self.start(ASYNCHRONOUS, "shm", "--max-steps", str(step + 20))
        for worker in self.workers:
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, error)

    def test_workers_of_every_policy_end_each_when_it_is_done(self):
        for rounds in (BACKUP, ASYNCHRONOUS, STALE_SYNCHRONOUS):
            for transport in ("shm", "tcp"):
                self.start(rounds, transport, "--max-steps", "40")
                self.end_well(rounds, transport)

    def end_well(self, *case):
        for worker in self.workers:
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, (*case, error))
        self.workers.clear()

    def test_compressed_pushes_train_with_every_policy_and_are_fewer_bytes(self):
        policies = (BACKUP, ASYNCHRONOUS, STALE_SYNCHRONOUS)
        encodings = ("sparse", "int8", "int4")
        for rounds, encoding, transport in zip(policies, encodings, ("shm", "tcp", "tcp")):
            compress = f'compress {{ encoding: "{encoding}" dense_below: 100 }}'
            self.start(rounds, transport, "--max-steps", "40", train=compress)
            self.end_well(rounds, encoding, transport)
            self.assertRegex(self.server.table("job", "inspect", "quorum"), rf"encoding +{encoding}\n")
            statistics = self.job()["statistics"]
            received, sent = (int(statistics[f"bytes_{way}"]) for way in ("received", "sent"))
            self.assertLess(2 * received, sent)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

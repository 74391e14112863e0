"""Trainings whose rounds need not have every worker's push: one that stops, one that dies.

Usage: quorum_test.py BIN
"""
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, find, temporary_folder, until  # noqa: E402

CONFIG = """
job: "quorum" order: "arrival" workers: 3
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 1024 }
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


class QuorumTest(unittest.TestCase):
    """A server, and what three workers of a job with a quorum do."""
    server_options = ""

    def setUp(self):
        self.folder = temporary_folder(self)
        (self.folder / "net.textproto").write_text(NETWORK)
        self.log = (self.folder / "server.log").open("w")
        self.addCleanup(self.log.close)
        config = self.folder / "server.textproto"
        config.write_text(f'state_folder: "{self.folder}/state" {self.server_options}')
        self.server = Server("--config", config, log=self.log)
        self.addCleanup(self.server.close)
        self.workers = []

    def launch(self, config, index, transport, *more):
        return subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", self.server.control,
             "--transport", transport, "--index", str(index), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start(self, rounds, transport, *more, slow=None, workers=3, train="", rule="momentum"):
        """`slow`: the index of a worker that computes 16 times as much for each step."""
        config = self.folder / "train.textproto"
        text = (CONFIG % (train, rounds)).replace("workers: 3", f"workers: {workers}")
        config.write_text(text.replace('rule: "momentum"', f'rule: "{rule}"'))
        slower = self.folder / "slower.textproto"
        slower.write_text(config.read_text().replace("batch: 4", "batch: 4 accumulate: 16"))
        for index in range(workers):
            self.workers.append(self.launch(slower if index == slow else config, index, transport, *more))
        self.addCleanup(self.end)

    def all_end_well(self):
        for worker in self.workers:
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, error)
        self.workers.clear()

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


class Quorum(QuorumTest):
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
        self.all_end_well()

    def test_workers_of_every_policy_end_each_when_it_is_done(self):
        for rounds in (BACKUP, ASYNCHRONOUS, STALE_SYNCHRONOUS):
            for transport in ("shm", "tcp"):
                with self.subTest(rounds=rounds, transport=transport):
                    self.start(rounds, transport, "--max-steps", "40")
                    self.all_end_well()

    def test_compressed_pushes_train_with_every_policy_and_are_fewer_bytes(self):
        policies = (BACKUP, ASYNCHRONOUS, STALE_SYNCHRONOUS)
        encodings = ("sparse", "int8", "int4")
        for rounds, encoding, transport in zip(policies, encodings, ("shm", "tcp", "tcp")):
            with self.subTest(rounds=rounds, encoding=encoding):
                compress = f'compress {{ encoding: "{encoding}" dense_below: 100 }}'
                self.start(rounds, transport, "--max-steps", "40", train=compress)
                self.all_end_well()
                self.assertRegex(self.server.table("job", "inspect", "quorum"), rf"encoding +{encoding}\n")
                statistics = self.job()["statistics"]
                received, sent = (int(statistics[f"bytes_{way}"]) for way in ("received", "sent"))
                self.assertLess(2 * received, sent)

    def test_one_that_is_slow_holds_nobody_up_and_ends_when_it_is_done(self):
        for slow, rounds in ((0, BACKUP), (0, ASYNCHRONOUS), (7, "quorum: 1"), (7, "quorum: 7 patience_ms: 1"),
                             (3, 'quorum: 1 late: "add" staleness: 0 weight: "staleness"'),
                             (0, 'quorum: 6 weight: "samples"')):
            with self.subTest(slow=slow, rounds=rounds):
                self.start(rounds, "tcp" if slow == 3 else "shm", "--max-steps", "20", slow=slow, workers=8)
                self.all_end_well()

    def test_workers_that_change_the_shared_parameters_themselves_train(self):
        delta = 'payload: "delta" local_steps: 4 outer { rule: "sgd" learning_rate: 0.5 }'
        for rule, train in (("sgd", ""), ("momentum", 'payload: "weights"'), ("momentum", delta)):
            with self.subTest(train):
                self.start('quorum: 1 late: "add" hogwild: true', "shm", "--max-steps", "40", train=train, rule=rule)
                self.all_end_well()
                self.assertRegex(self.server.table("job", "inspect", "quorum"), r"rounds\.hogwild +true\n")

    def test_shares_of_a_batch_weigh_by_their_samples(self):
        self.start('quorum: 2 weight: "samples"', "shm", "--max-steps", "20", train='share: "auto"')
        self.all_end_well()

    def test_who_was_lost_cannot_come_back_and_is_told_so(self):
        self.start(BACKUP, "shm")
        until(lambda: self.chunks() > 20, "it trains")
        self.workers[2].kill()
        until(lambda: any(m.get("lost") for m in self.job()["members"]), "it is lost")
        again = self.launch(self.folder / "train.textproto", 2, "shm")
        error = again.communicate(timeout=DEADLINE)[1]
        self.assertEqual(again.returncode, 1)
        self.assertIn("goes on without worker 2", error)
        self.train_on()


# A worker that is stopped is not lost meanwhile.
PATIENT = "heartbeat_deadline_ms: 60000 drain_timeout_ms: 100 drain_snapshots: true"


class Stopped(QuorumTest):
    server_options = PATIENT

    def test_who_goes_on_again_is_late_and_no_more(self):
        for rounds, transport, stopped in ((BACKUP, "tcp", 2), ("quorum: 2", "shm", 2), (ASYNCHRONOUS, "shm", 0),
                                           ("quorum: 1 patience_ms: 1", "tcp", 0)):
            with self.subTest(rounds=rounds, stopped=stopped):
                before = self.chunks()
                self.start(rounds, transport, "--max-steps", "3000")
                until(lambda: self.chunks() > before + 20, "it trains")
                self.workers[stopped].send_signal(signal.SIGSTOP)
                self.train_on()
                self.workers[stopped].send_signal(signal.SIGCONT)
                self.all_end_well()


class Drained(QuorumTest):
    """SIGTERM of the server while a round waits, for somebody who is stopped."""
    server_options = PATIENT

    def done(self):
        return self.chunks(), [member["pushes"] for member in self.job()["members"]]

    def drain_while_waiting(self, rounds, transport, stopped):
        self.start(rounds, transport)
        until(lambda: self.chunks() > 20, "it trains")
        for worker in stopped:
            self.workers[worker].send_signal(signal.SIGSTOP)
        others = [i for i in range(3) if i not in stopped]
        until(lambda: self.done() == self.done(), "the others wait")
        self.server.process.send_signal(signal.SIGTERM)
        for index in others:
            error = self.workers[index].communicate(timeout=DEADLINE)[1]
            self.assertEqual(self.workers[index].returncode, 1, error)
            self.assertIn("the server was drained", error)
        for index in stopped:  # it learns so when it goes on
            self.workers[index].send_signal(signal.SIGCONT)
            error = self.workers[index].communicate(timeout=DEADLINE)[1]
            self.assertEqual(self.workers[index].returncode, 1, error)
            self.assertIn("the server was drained", error)
        self.assertEqual(self.server.process.wait(timeout=DEADLINE), 0)
        self.assertTrue(list((self.folder / "state" / "snapshots").rglob("*")), "there is a snapshot")

    def test_in_a_grace(self):
        self.drain_while_waiting("quorum: 2 grace_ms: 29000", "tcp", [2])

    def test_without_a_quorum_yet(self):
        self.drain_while_waiting("quorum: 2 patience_ms: 29000", "shm", [1, 2])

    def test_for_the_slowest(self):
        self.drain_while_waiting('quorum: 1 late: "add" staleness: 0', "shm", [2])


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

"""A training whose servers and workers are killed and started again goes on, and ends with the bits of one
that was left alone.

Usage: recovery_test.py BIN [MOMENTS]
MOMENTS: how many random kills are tried, else a few. Each is named with its seed when it fails.
"""
import json
import pathlib
import random
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run, temporary_folder, until  # noqa: E402

MOMENTS = 4
WORKERS = 3
STEPS = 400
EVERY = 20  # steps from one checkpoint to the next

NETWORK = """
image { channels: 3 height: 12 }
layer { name: "conv" convolution { channels: 4 kernel: 3 padding: 1 bias: false } }
layer { name: "norm" batch_norm { relu: true } }
layer { name: "drop" dropout { ratio: 0.3 } }
layer { name: "fc" inner_product { outputs: 10 } }
"""
CONFIG = """
job: "run"
workers: %(workers)d
chunk_kib: 4
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 768 shift_pixels: 1 }
optimizer { rule: "momentum" learning_rate: 0.01 schedule { kind: "cosine" warmup_steps: 3 } }
train {
  batch: 4 epochs: 1000 max_steps: %(steps)d evaluate: false seed: 5 threads: 1
  checkpoint_steps: %(every)d snapshot: true recover_s: %(recover)d %(train)s
}
"""


def facts_of(checkpoint):
    data = checkpoint.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]


def tensors_of(checkpoint):
    """All bytes but those that say where the run was and which snapshots it has."""
    data = checkpoint.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little"):]


class Recovery(unittest.TestCase):
    def setUp(self):
        self.folder = temporary_folder(self)
        self.servers, self.workers = [], []
        self.addCleanup(self.end)
        (self.folder / "net.textproto").write_text(NETWORK)

    def end(self):
        """Returns what workers said that still ran."""
        said = []
        for process in self.workers:
            process.kill()
            said.append(process.communicate()[1])
        for server in self.servers:
            server.close()
        self.servers, self.workers = [], []
        return said

    def config(self, train="", recover=60, steps=STEPS, every=EVERY):
        self.path, self.steps = self.folder / "train.textproto", steps
        self.path.write_text(CONFIG % {"workers": WORKERS, "train": train, "recover": recover, "steps": steps,
                                       "every": every})

    def server(self, place, control="127.0.0.1:0"):
        return Server("--state", self.folder / f"state-{place}", control=control, cores=1)

    def worker(self, index, name):
        servers = [word for server in self.servers for word in ("--server", server.control)]
        return subprocess.Popen(
            [processes.BIN / "phub-worker", "train", self.path, *servers, "--index", str(index), "--job", name,
             "--checkpoint", self.folder / name, "--metrics", self.folder / f"{name}.metrics-{index}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start(self, name, servers=2):
        while len(self.servers) < servers:
            self.servers.append(self.server(len(self.servers)))
        self.workers = [self.worker(index, name) for index in range(WORKERS)]

    def finish(self):
        """What all workers said on standard error."""
        said = []
        for process in self.workers:
            _, errors = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, errors)
            said.append(errors)
        self.workers = []
        return said

    def undisturbed(self, name="whole"):
        self.start(name)
        self.finish()
        return tensors_of(self.folder / name)

    def wait_for_checkpoint(self, name, after=-1):
        path = self.folder / name
        return until(lambda: path.exists() and int(facts_of(path)["next_step"]) > after and
                     int(facts_of(path)["next_step"]), "a checkpoint")

    def kill_server(self, place):
        server = self.servers[place]
        server.close()
        self.servers[place] = self.server(place, control=server.control)

    def kill_worker(self, index, name):
        process = self.workers[index]
        process.kill()
        process.communicate()
        self.workers[index] = self.worker(index, name)

    def check_end(self, name, whole):
        """Without a snapshot where a server was killed while it took the last one."""
        path = self.folder / name
        if int(facts_of(path)["next_step"]) < self.steps:
            path = path.with_name(f"{name}.without-snapshot")
        facts = facts_of(path)
        self.assertEqual(int(facts["next_step"]), self.steps)
        self.assertEqual(int(facts["samples_used"]), self.steps * WORKERS * 4)
        self.assertEqual(tensors_of(path), whole)

    def test_a_server_is_killed_and_comes_back(self):
        self.config()
        whole = self.undisturbed()
        self.start("killed")
        step = self.wait_for_checkpoint("killed")
        self.kill_server(1)
        said = self.finish()
        for words in said:
            self.assertIn("the training goes back to its last checkpoint, and waits 60 s at most", words)
            self.assertRegex(words, r"going on at step \d+")
        self.assertGreaterEqual(step, EVERY)
        self.check_end("killed", whole)

    def test_workers_are_killed_and_started_again(self):
        self.config()
        whole = self.undisturbed()
        self.start("killed")
        step = 0
        for index in (2, 0):
            step = self.wait_for_checkpoint("killed", after=step)
            self.kill_worker(index, "killed")
        self.finish()
        self.check_end("killed", whole)

    def test_a_server_that_is_stopped_and_started_again_costs_no_step(self):
        self.config(steps=5000, every=500)  # an end is agreed on by heartbeats
        whole = self.undisturbed()
        self.start("stopped")
        self.wait_for_checkpoint("stopped")
        server = self.servers[1]
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=DEADLINE), 0)
        server.close()
        self.servers[1] = self.server(1, control=server.control)
        for words in self.finish():
            self.assertIn("the server is being stopped or drained", words)
        self.check_end("stopped", whole)
        steps = [json.loads(line)["step"] for line in (self.folder / "stopped.metrics-0").read_text().splitlines()
                 if json.loads(line).get("event") == "step"]
        self.assertEqual(len(steps), len(set(steps)))

    def test_a_damaged_snapshot_is_passed_over_for_the_one_before(self):
        self.config("checkpoint_last: 2")
        whole = self.undisturbed()
        self.start("damaged")
        self.wait_for_checkpoint("damaged", after=EVERY)
        gone = self.servers[1]
        gone.close()
        # Nothing is saved from now on: the servers do not have the same rounds any more.
        file = self.last_snapshot("damaged", gone.control)
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        self.servers[1] = self.server(1, control=gone.control)
        said = self.finish()
        self.assertRegex(said[0], r"checkpoint \S+damaged is passed over: .*checksum")
        self.check_end("damaged", whole)

    def test_a_checkpoint_that_is_cut_is_passed_over(self):
        self.config("checkpoint_last: 2")
        whole = self.undisturbed()
        self.start("cut")
        self.wait_for_checkpoint("cut", after=EVERY)
        self.workers[0].kill()
        self.workers[0].communicate()
        path = self.folder / "cut"
        newest = int(facts_of(path)["next_step"])
        data = path.read_bytes()
        path.unlink()  # it may be one file with the one that stays
        path.write_bytes(data[:-100])
        path.with_name(f"cut.step-{newest}").unlink(missing_ok=True)
        self.workers[0] = self.worker(0, "cut")
        said = self.finish()
        self.assertRegex(said[0], r"checkpoint \S+cut is passed over: ")
        self.check_end("cut", whole)

    def test_a_worker_alone_needs_no_index(self):
        self.config(steps=60)
        self.servers.append(self.server(0))
        done = run(processes.BIN / "phub-worker", "train", self.path, "--server", self.servers[0].control, "--workers", "1",
                   "--checkpoint", self.folder / "alone")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_another_training_of_that_name_is_refused_and_the_first_one_goes_on(self):
        self.config(steps=1_000_000, every=500)
        self.start("one")
        self.wait_for_checkpoint("one")
        self.path.write_text(self.path.read_text() + "\ntimeout_ms: 500\n")
        first, self.workers = self.workers, []
        for index in range(WORKERS):
            self.workers.append(self.worker(index, "one"))
        for process in self.workers:
            _, errors = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 1, errors)
            self.assertRegex(errors, "runs, and is to be joined when it has ended|has all of its|have joined it|exists")
        self.workers = first
        self.assertTrue(all(process.poll() is None for process in first))
        self.wait_for_checkpoint("one", after=int(facts_of(self.folder / "one")["next_step"]))

    def last_snapshot(self, name, address):
        """The file at that server which the checkpoint of `name` says."""
        for one in facts_of(self.folder / name)["snapshots"].split(", "):
            file, _, at = one.rpartition(" at ")
            if at == address:
                return self.folder / "state-1" / "snapshots" / file
        raise AssertionError(address)

    def test_in_random_moments(self):
        """Kills before the first checkpoint, while others recover, and of several at once."""
        self.config(steps=2500, every=50)
        whole = self.undisturbed()
        seed = random.randrange(2**32)
        rng = random.Random(seed)
        for moment in range(MOMENTS):
            name = f"m{moment}"
            with self.subTest(moment=moment, seed=seed):
                acts = []
                try:
                    self.disturb(name, rng, acts)
                    self.finish()
                    self.check_end(name, whole)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    self.fail(f"{acts}: {error}\n" + "\n--\n".join(self.end()))

    def disturb(self, name, rng, acts):
        self.start(name)
        for _ in range(rng.randrange(1, 4)):
            for _ in range(rng.randrange(25)):
                self.servers[0].ctl("job", "list")
            path = self.folder / name
            if path.exists() and int(facts_of(path)["next_step"]) > self.steps // 2:
                return  # who is lost in the last steps finds nobody
            victim = rng.randrange(WORKERS + 2)
            asks = victim >= WORKERS and rng.random() < 0.3
            acts.append(f"worker {victim}" if victim < WORKERS else f"server {victim - WORKERS}, {asks=}")
            if victim < WORKERS:
                self.kill_worker(victim, name)
                continue
            if asks:  # and has no time for what it would do then
                self.servers[victim - WORKERS].process.send_signal(signal.SIGTERM)
            self.kill_server(victim - WORKERS)

    def test_what_is_not_at_the_servers_comes_back_too(self):
        """A scale that workers vote on, and what compression keeps back."""
        for train in ("loss_scale { dynamic { initial: 1024 growth_steps: 4 } }",
                      "compress { density: 0.1 dense_below: 64 }"):
            with self.subTest(train):
                self.config(train)
                kind = train.split()[0]
                whole = self.undisturbed(f"{kind}-whole")
                self.start(f"{kind}-killed")
                self.wait_for_checkpoint(f"{kind}-killed")
                self.kill_server(0)
                said = self.finish()
                self.assertTrue(all("going on at step" in words for words in said), said)
                self.check_end(f"{kind}-killed", whole)

    def test_who_does_not_come_back_ends_the_training_in_time(self):
        self.config(recover=1, train="")
        self.path.write_text(self.path.read_text() + "\ntimeout_ms: 1500\n")
        self.start("alone")
        self.wait_for_checkpoint("alone")
        gone = self.servers.pop()
        gone.close()
        for process in self.workers:
            _, errors = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 1, errors)
            self.assertRegex(errors, rf"train.recover_s: 1 s are over since this: .*{gone.control}.*; the last try ended so: ")
        self.workers = []

    def test_a_job_that_an_administrator_closes_is_not_restored(self):
        self.config()
        self.start("closed", servers=1)  # with several, another one may say first that a worker is lost
        self.wait_for_checkpoint("closed")
        self.servers[0].ctl("job", "close", "closed")
        for process in self.workers:
            _, errors = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 1, errors)
            self.assertIn("it was closed by an administrator", errors)
        self.workers = []

    def test_what_cannot_be_recovered_is_refused_by_name(self):
        self.config()
        text = self.path.read_text()
        command = (processes.BIN / "phub-worker", "train", self.path, "--server", "127.0.0.1:1", "--check")
        for change, more, said in (
                (("snapshot: true", ""), ("--index", "0", "--checkpoint", "x"),
                 "recover_s: needs snapshot and checkpoint_steps"),
                (("", ""), ("--checkpoint", "x"), "worker_index: is missing"),
                (("", ""), ("--index", "0", "--checkpoint", "x", "--resume", "y"), "recover_s: contradicts resume"),
                (("", ""), ("--index", "0", "--checkpoint", "x", "--share", "auto"), "recover_s: contradicts share")):
            with self.subTest(said):
                self.path.write_text(text.replace(*change) if change[0] else text)
                done = run(*command, *more)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        MOMENTS = int(sys.argv.pop(1))
    unittest.main(verbosity=2)

"""Planned ends: a worker or a server is asked to stop, and the job leaves the checkpoint of its last step.

Usage: planned_ends_test.py BIN [MOMENTS]
MOMENTS: how many random moments are tried, else a few. Each is named with its seed when it fails.
"""
import json
import pathlib
import random
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run, temporary_folder, until  # noqa: E402
from racks import RacksTest, all_of  # noqa: E402

MOMENTS = 6
WORKERS = 3
LOOKS_MAX = 30  # from when the job runs to the moment

NETWORK = """
image { channels: 3 height: 12 }
layer { name: "conv" convolution { channels: 4 kernel: 3 padding: 1 } }
layer { name: "fc" inner_product { outputs: 10 } }
"""
CONFIG = """
%(job)s
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 768 }
optimizer { rule: "momentum" learning_rate: 0.01 }
train { batch: 4 epochs: 100000 evaluate: false seed: 5 %(train)s }
"""
# No deadline is shorter than a test's.
PATIENT = "heartbeat_deadline_ms: 60000 drain_timeout_ms: 100000\n"


def step_of(checkpoint):
    data = checkpoint.read_bytes()
    return int(json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]["next_step"])


class PlannedEnd(unittest.TestCase):
    """What all planned ends have in common."""

    def write_config(self, train="", job=""):
        (self.folder / "net.textproto").write_text(NETWORK)
        path = self.folder / "train.textproto"
        path.write_text(CONFIG % {"train": train, "job": job})
        return path

    def all_have_stopped(self, workers, reason, same_step=True):
        """Each ends with status 0 and says why; the steps that they say, by worker."""
        steps = []
        for process in workers:
            said, errors = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, errors)
            match = re.search(r"^stopped as asked after step (\d+): (.*)$", said, re.MULTILINE)
            self.assertTrue(match, (said, errors))
            self.assertRegex(match[2], reason)
            steps.append(int(match[1]))
        if same_step:
            self.assertEqual(len(set(steps)), 1, steps)
        return steps


class Moments(PlannedEnd):
    def setUp(self):
        self.folder = temporary_folder(self)
        self.servers = []
        self.workers = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.workers:
            process.kill()
            process.communicate()
        for server in self.servers:
            server.close()

    def launch(self, job, config, *more):
        """Servers that are gone are replaced."""
        path = self.folder / "server.textproto"
        path.write_text(PATIENT)
        gone = [server for server in self.servers if server.process.poll() is not None or server.ctl(
            "server", "stats")["server"].get("draining")]
        for server in gone:
            server.close()
            self.servers.remove(server)
        while len(self.servers) < 2:
            self.servers.append(Server("--config", path))
        addresses = [word for server in self.servers for word in ("--server", server.control)]
        self.workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, *addresses, "--workers", str(WORKERS), "--index",
             str(index), "--job", job, "--checkpoint", self.folder / job, "--metrics",
             self.folder / f"{job}.metrics-{index}", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(WORKERS)]

    def start(self, job, config, *more):
        self.launch(job, config, *more)
        until(lambda: all(server.running() for server in self.servers), "the job runs")

    def one(self, job, rng, config, act, reason):
        self.start(job, config)
        for _ in range(rng.randrange(LOOKS_MAX)):  # the moment: each look takes some of a round
            self.servers[0].ctl("job", "list")
        ended = act()
        step = self.all_have_stopped(self.workers, reason)[0]
        self.workers = []
        self.assertEqual(step_of(self.folder / job), step)
        if ended:
            self.assertEqual(ended.process.wait(timeout=DEADLINE), 0)
        return step

    def acts(self, rng):
        """(what it is called, what is done: returns a server that ends then, what all are told)."""
        def worker(index, number):
            return lambda: self.workers[index].send_signal(number)

        def server(place, number):
            def act():
                self.servers[place].process.send_signal(number)
                return self.servers[place]
            return act

        def drain(place):
            return lambda: self.servers[place].ctl("drain", "--deadline-ms", "90000") and None

        for index in range(WORKERS):
            number = rng.choice((signal.SIGINT, signal.SIGTERM))
            yield f"worker {index}", worker(index, number), f"worker {index} was asked to stop"
        for place in range(2):
            number = rng.choice((signal.SIGINT, signal.SIGTERM))
            yield f"server {place}", server(place, number), "the server is being stopped or drained"
        yield "drain", drain(rng.randrange(2)), "the server is being stopped or drained"

    def test_in_random_moments_all_stop_after_one_step_with_its_checkpoint(self):
        config = self.write_config()
        seed = random.randrange(2**32)
        rng = random.Random(seed)
        done = 0
        while done < MOMENTS:
            for name, act, reason in self.acts(rng):
                if done == MOMENTS:
                    break
                with self.subTest(name, moment=done, seed=seed):
                    self.one(f"m{done}", rng, config, act, reason)
                done += 1

    def test_the_checkpoint_has_the_bits_of_a_run_that_ends_there(self):
        config = self.write_config()
        step = self.one("stopped", random.Random(), config, lambda: self.workers[2].send_signal(signal.SIGTERM),
                        "worker 2")
        self.launch("whole", config, "--max-steps", str(step))
        for process in self.workers:
            errors = process.communicate(timeout=DEADLINE)[1]
            self.assertEqual(process.returncode, 0, errors)
        self.workers = []
        self.assertEqual((self.folder / "stopped").read_bytes(), (self.folder / "whole").read_bytes())

    def test_workers_that_are_all_asked_at_once_stop_together(self):
        def act():
            for process in self.workers:
                process.send_signal(signal.SIGINT)
        self.one("all", random.Random(), self.write_config(), act, r"worker \d was asked to stop")

    def test_workers_with_steps_of_their_own_end_with_the_same_parameters(self):
        for payload in ('payload: "delta" local_steps: 4', 'payload: "weights" local_steps: 3',
                        'payload: "delta" local_steps: 6 outer { fragments: 3 overlap_steps: 2 }'):
            with self.subTest(payload):
                job = f"local{len(list(self.folder.iterdir()))}"
                step = self.one(job, random.Random(), self.write_config(payload),
                                lambda: self.workers[1].send_signal(signal.SIGTERM), "worker 1")
                self.assertGreater(step, 0)

    def test_workers_of_a_job_with_a_quorum_stop_each_for_itself(self):
        config = self.write_config(job='order: "arrival" rounds { quorum: 2 grace_ms: 5 }')
        self.start("quorum", config)
        self.workers[1].send_signal(signal.SIGTERM)
        steps = self.all_have_stopped(self.workers, "worker 1", same_step=False)
        self.workers = []
        self.assertEqual(step_of(self.folder / "quorum"), steps[0])


class Racks(RacksTest, PlannedEnd):
    def stop(self, name, act, reason):
        self.start_racks(more=PATIENT)
        config = self.write_config()
        checkpoint = self.folder / name
        started = self.start_job("a:2,b:2", "--job", name, config=config, checkpoint=checkpoint)
        self.wait_until_it_trains(name)
        act(started)
        steps = self.all_have_stopped(all_of(started), reason)
        self.assertEqual(step_of(checkpoint), steps[0])

    def test_a_worker_of_another_rack_ends_the_job_of_all(self):
        self.stop("worker", lambda started: started["b"][1].send_signal(signal.SIGINT), "worker 3 was asked")

    def test_a_server_of_another_rack_ends_the_job_of_all(self):
        self.stop("server", lambda _: self.servers["b"][0].process.send_signal(signal.SIGTERM), "stopped or drained")
        self.assertEqual(self.servers["b"][0].process.wait(timeout=DEADLINE), 0)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        MOMENTS = int(sys.argv.pop(1))
    unittest.main(verbosity=2)

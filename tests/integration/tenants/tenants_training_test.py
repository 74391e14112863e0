"""Two tenants train at once, with mutual TLS and tokens; one loses a worker and starts anew.

Small enough for the sanitizers. Usage: tenants_training_test.py BIN [TEST...]
"""
import json
import os
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, find, until  # noqa: E402
from secured import SecuredTest  # noqa: E402

# Networks and rules that have nothing in common.
RED = """
job: "demo"
model { name: "resnet20" }
data { format: "synthetic" synthetic_images: 64 }
optimizer { rule: "nesterov" learning_rate: 0.01 }
train { batch: 2 evaluate: false }
"""
BLUE = """
job: "demo"
model { name: "lenet" }
data { format: "synthetic" synthetic_images: 256 }
optimizer { rule: "sgd" learning_rate: 0.02 weight_decay: 0 }
train { batch: 4 evaluate: false }
"""
WORKERS = 2
CONNECTIONS = 2 * WORKERS  # with two cores


def target_of(link):
    try:
        return os.readlink(link)
    except FileNotFoundError:  # it has just been closed
        return ""


class TenantsTraining(SecuredTest):
    def setUp(self):
        super().setUp()
        # Room for one job and no more: what is not given back is missed.
        quotas = ("--jobs", "1", "--connections", str(CONNECTIONS), "--memory-mib", "64")
        self.red, self.blue = self.tenant("red", *quotas), self.tenant("blue", *quotas)
        self.configs = {}
        for credentials, text in ((self.red, RED), (self.blue, BLUE)):
            self.configs[credentials] = self.folder / f"{credentials.name}.textproto"
            self.configs[credentials].write_text(text, encoding="utf-8")

    def launch(self, credentials, transport, *more, first=()):
        """The workers of a job; `first`: options of worker 0."""
        return [self.worker(credentials, index, WORKERS, transport, *more,
                            *(first if index == 0 else ()), config=self.configs[credentials])
                for index in range(WORKERS)]

    def finish(self, workers):
        for process in workers:
            _, error = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, error)

    def rounds(self, credentials):
        job = self.ctl(credentials, "--json", "job", "inspect", "demo")
        return int(find(json.loads(job.stdout), "rounds") or 0) if job.returncode == 0 else 0

    def usage(self, tenant):
        listed = json.loads(self.admin("--json", "tenant", "inspect", tenant))["tenant"]
        return {name: int(listed.get(name, 0)) for name in ("live_jobs", "connections", "memory_bytes")}

    def segments(self):
        """Shared memory that the server has mapped or holds open."""
        process = pathlib.Path(f"/proc/{self.server.process.pid}")
        mapped = re.findall(r"/memfd:phub\S*", (process / "maps").read_text())
        held = [target_of(entry) for entry in (process / "fd").iterdir()]
        return sorted(mapped + [name for name in held if "memfd:phub" in name])

    def train_both(self, transport):
        """Blue's workers and red's, when both jobs have trained, and blue's segments alone."""
        checkpoint = self.folder / "blue.safetensors"
        blue = self.launch(self.blue, transport, first=("--checkpoint", str(checkpoint)))
        until(lambda: self.rounds(self.blue) > 2, "blue trains")
        segments = self.segments()
        red = self.launch(self.red, transport)
        until(lambda: self.rounds(self.red) > 2, "red trains")
        self.assertEqual(self.usage("red")["connections"], CONNECTIONS)
        return blue, red, segments

    def check_given_back(self, segments):
        until(lambda: self.segments() == segments, "red's segments are given back")
        self.assertEqual(self.usage("red"), {"live_jobs": 0, "connections": 0, "memory_bytes": 0})

    def check_blue(self, blue, transport):
        """Ends blue's training where it is: the bits are those of the same steps on their own."""
        before = self.rounds(self.blue)
        until(lambda: self.rounds(self.blue) > before + 2, "blue trains on")
        blue[0].send_signal(signal.SIGTERM)
        for process in blue:
            said, error = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, error)
            self.assertIn("worker 0 was asked to stop", said)
        until(lambda: self.usage("blue")["live_jobs"] == 0, "blue's job is over")
        beside = (self.folder / "blue.safetensors").read_bytes()
        steps = re.search(rb'"next_step":"?(\d+)', beside)[1].decode()
        alone = self.folder / "alone.safetensors"
        self.finish(self.launch(self.blue, transport, "--max-steps", steps,
                                first=("--checkpoint", str(alone))))
        self.assertEqual(alone.read_bytes(), beside)

    def check_loss(self, transport, number, reason):
        blue, red, segments = self.train_both(transport)
        red[1].send_signal(number)
        self.assertIn("worker 1", red[0].communicate(timeout=DEADLINE)[1])
        until(lambda: reason in self.state(self.red, "demo"), "red's job has failed: " + reason)
        self.check_given_back(segments)
        self.finish(self.launch(self.red, transport, "--max-steps", "3"))
        self.check_given_back(segments)
        self.check_blue(blue, transport)

    def test_a_killed_worker_ends_its_tenants_job_which_can_start_again_at_once_over_shm(self):
        self.check_loss("shm", signal.SIGKILL, "was lost: its connection closed")

    def test_a_killed_worker_ends_its_tenants_job_which_can_start_again_at_once_over_tcp(self):
        self.check_loss("tcp", signal.SIGKILL, "was lost: its connection closed")

    def test_a_worker_that_stands_still_is_lost_by_its_heartbeat(self):
        self.check_loss("tcp", signal.SIGSTOP, "was lost: no heartbeat for")


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    os.environ.pop("PHUB_CREDENTIALS", None)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

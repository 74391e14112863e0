"""phubrun in allocations of a real Slurm, by the scripts in deploy/slurm. Usage: launch_slurm_test.py LIBRARY BIN"""
import os
import pathlib
import re
import shlex
import sys
import unittest

import launched
from launched import ROOT, environment, is_there, processes, temporary_folder
from processes import cleanups_of, until
from slurm import Slurm, missing

TRAIN = ROOT / "deploy/slurm/train.sh"
WORKER = ROOT / "deploy/slurm/worker.sh"
MNIST = ROOT / "configs/mnist.textproto"
SAYS = """import os, phub, numpy, phub.numpy
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print(*(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")))
with phub.Client(phub.Options(servers=os.environ["PHUB_SERVERS"], workers=workers, worker_index=rank, rule="sum")) as client:
    client.register_keys([phub.Key("w", 100)])
    print(phub.numpy.push_pull(client, "w", numpy.ones(100, numpy.float32))[-1])
"""
# Its end is written down where it is told; a second time would be told too.
WAITS = """import os, signal, sys
def on_signal(number, _):
    print("got", signal.Signals(number).name)
    told.append(number)
told = []
signal.signal(signal.SIGTERM, on_signal)
print("pid", os.getpid(), "start", os.environ.get("SLURM_RESTART_COUNT", "0"))
while not told:
    signal.pause()
signal.sigtimedwait([signal.SIGUSR2], 0.2)
print("done")
"""


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm(cleanups_of(cls))

    def setUp(self):
        self.folder = temporary_folder(self)
        self.log = self.folder / "log"
        tools = self.folder / "bin"  # on the path of who submits, and so of the job
        tools.mkdir()
        for name, words in (("phubrun", [sys.executable, "-B", "-m", "phub.launch"]),
                            ("phub-server", [processes.BIN / "phub-server"]),
                            ("phub-worker", [processes.BIN / "phub-worker"])):
            (tools / name).write_text(f"#!/bin/sh\nexec {shlex.join(map(str, words))} \"$@\"\n")
            (tools / name).chmod(0o755)
        self.more = {**environment(), "PATH": f"{tools}:{self.slurm.environment['PATH']}",
                     "SLURM_CONF": self.slurm.environment["SLURM_CONF"],
                     "PHUB_SERVER_OPTIONS": "--allow-plaintext --tokens off"}
        del self.more["RANK"], self.more["WORLD_SIZE"]

    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(text)
        return [sys.executable, "-B", "-u", path]

    def submit(self, *words, **more):
        return self.slurm.submit("--ntasks=2", f"--output={self.log}", *words, **{**self.more, **more})

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def pids(self, count=2):
        found = until(lambda: (found := re.findall(r"^\[\d\] pid (\d+) ", self.said(), re.M))[count - 1:] and found,
                      f"{count} workers run: {self.said()}")
        return [int(pid) for pid in found]

    def test_a_task_is_a_worker(self):
        job = self.submit(TRAIN, *self.program(SAYS))
        self.assertEqual(self.slurm.until_over(job), "COMPLETED", self.said())
        self.assertEqual(sorted(re.findall(r"^\[.*", self.said(), re.M)), ["[0] 0 0 2 2 0", "[0] 2.0", "[1] 1 1 2 2 0", "[1] 2.0"])

    def test_a_failure_is_the_jobs(self):
        job = self.submit(TRAIN, "sh", "-c", "exit $((RANK * 3))")
        self.assertEqual(self.slurm.until_over(job), "FAILED", self.said())
        self.assertIn("phubrun: 1 failed first: it ended with status 3.", self.said())
        self.assertIn("ExitCode=3:0", self.slurm.run("scontrol", "show", "job", job).stdout)

    def test_a_signal_to_the_steps_ends_workers_once_and_in_order(self):
        """As Slurm's SIGTERM before the time is over: it comes to all steps, so several times to one host."""
        job = self.submit(TRAIN, *self.program(WAITS))
        pids = self.pids()
        self.slurm.run("scancel", "--signal=TERM", job)
        self.slurm.until_over(job)
        self.assertEqual(sorted(re.findall(r"^\[(\d)\] (got SIGTERM|done)$", self.said(), re.M)),
                         [("0", "done"), ("0", "got SIGTERM"), ("1", "done"), ("1", "got SIGTERM")])
        self.assertNotIn("failed first", self.said())
        self.assertFalse(any(map(is_there, pids)))

    def test_pre_empted_and_queued_again(self):
        job = self.submit(TRAIN, *self.program(WAITS))
        first = self.pids()
        self.slurm.run("scontrol", "requeue", job)
        until(lambda: self.slurm.state(job) == "PENDING", "the job is queued again")
        self.assertEqual(self.said().count("got SIGTERM"), 2, self.said())
        self.assertEqual(self.said().count("] done"), 2, self.said())
        self.assertFalse(any(map(is_there, first)))
        self.slurm.run("scontrol", "update", f"jobid={job}", "StartTime=now")
        second = self.pids(4)[2:]
        self.assertEqual(len(re.findall(r"^\[\d\] pid \d+ start 1$", self.said(), re.M)), 2)
        self.slurm.run("scancel", job)
        self.assertEqual(self.slurm.until_over(job), "CANCELLED")
        until(lambda: not any(map(is_there, second)), "its workers are gone")
        self.assertEqual(self.said().count("got SIGTERM"), 4, self.said())
        self.assertEqual(self.said().count("] done"), 4, self.said())

    def test_nothing_is_left_of_a_killed_job(self):
        job = self.submit(TRAIN, *self.program(WAITS))
        pids = self.pids()
        self.slurm.run("scancel", "--full", "--signal=KILL", job)
        self.slurm.until_over(job)
        until(lambda: not any(map(is_there, pids)), "its workers are gone")

    def test_training_goes_on_from_where_it_was_asked_to_end(self):
        """phub-worker's checkpoint at SIGTERM, with the servers' snapshot, and the job's second start from there."""
        checkpoint = self.folder / "mnist.safetensors"
        job = self.submit(TRAIN, WORKER, MNIST, checkpoint, "--epochs", "1000", "--threads", "1", "--snapshot",
                          PHUB_RESUME_OPTIONS="--restart-momentum",
                          PHUB_SERVER_OPTIONS=f"{self.more['PHUB_SERVER_OPTIONS']} --state {self.folder / 'state'}")
        until(lambda: "[0] epoch" in self.said(), "an epoch is over")
        self.slurm.run("scontrol", "requeue", job)
        until(lambda: self.slurm.state(job) == "PENDING", "the job is queued again")
        self.assertIn("[0] stopped as asked after step", self.said())
        self.assertTrue(checkpoint.exists(), self.said())
        self.assertTrue(list((self.folder / "state/snapshots").rglob("*.safetensors")))
        self.slurm.run("scontrol", "update", f"jobid={job}", "StartTime=now")
        until(lambda: "[0] epoch" in self.said().rpartition("stopped as asked")[2], "an epoch is over again")
        self.slurm.run("scancel", job)
        self.slurm.until_over(job)
        self.assertEqual(len(re.findall(r"^\[0\] epoch +1/", self.said(), re.M)), 1)

    def test_outside_of_an_allocation(self):
        done = self.slurm.run("phubrun", "--slurm", "true", check=False, **self.more)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--slurm: SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE are not set: run it in a script of sbatch",
                      done.stderr)


class PlacesTest(unittest.TestCase):
    def test_tasks_of_each_host(self):
        sys.path.insert(0, str(pathlib.Path(ROOT) / "worker/torch"))
        from phub.launch import _places
        self.assertEqual(_places.repeated("2(x3),1"), [2, 2, 2, 1])
        self.assertEqual(_places.repeated("8"), [8])
        with self.assertRaisesRegex(ValueError, "is not as"):
            _places.repeated("2(x,1")


if __name__ == "__main__":
    if missing():
        print("SKIPPED:", missing())
        sys.exit(77)
    os.environ.pop("PHUB_JOB", None)
    unittest.main(argv=launched.main(globals()))

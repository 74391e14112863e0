"""Runs rack scenarios on "machines" that are reached by ssh: a real sshd on this one.

Usage: rack_ssh_test.py PATH_OF_PHUB_BENCH; exit code 77 where there is no ssh or no sshd
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from processes import free_port, temporary_folder, until  # noqa: E402
from sshd import Sshd, answers, missing  # noqa: E402

BENCH = ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs
# Nothing is measured to choose a kernel, and the rate is low enough for images that are noise.
TRAINING = """training { kernels: "onednn" worker { data { format: "synthetic" }
  optimizer { learning_rate: 0.001 } train { max_steps: 10 batch: 16 evaluate: false } } }"""
ENDLESS = "exchange { elements: 10000 rounds: 1000000 timeout_s: 86400 }"


class RackSshTest(unittest.TestCase):
    def setUp(self):
        self.folder = str(temporary_folder(self))
        self.scratch = os.path.join(self.folder, "scratch")  # of the "machines"
        os.mkdir(self.scratch)
        self.sshd = Sshd(self, TMPDIR=self.scratch)
        self.control = free_port()

    def path(self, name):
        return os.path.join(self.folder, name)

    def scenario(self, work, key="user", hosts=2):
        here = f'hosts: "{Sshd.user}@127.0.0.1" ' + 'hosts: "127.0.0.1" ' * (hosts - 1)
        options = " ".join(f'options: "{word}"' for word in self.sshd.words(key))
        text = (f"racks {{ servers: 1 workers: 1 {here} }}\n" * 2 +
                f"ssh {{ control_port: {self.control} {options} }}\n{work}\n")
        with open(self.path("s.textproto"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("s.textproto")

    def run_rack(self, *words, **more):
        return subprocess.run([BENCH, "rack", "run", self.scenario(*words, **more), "--json"],
                              capture_output=True, text=True, timeout=DEADLINE_SECONDS)

    def is_gone(self):
        return not os.listdir(self.scratch) and not answers(self.control)

    def test_machines_exchange_and_nothing_is_left_there(self):
        done = self.run_rack("exchange { elements: 100000 rounds: 3 blocks: 2 }")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["verified"])
        self.assertEqual((report["racks"], report["workers"], report["servers"]), (2, 2, 2))
        self.assertEqual(len(report["seconds_of_blocks"]), 2)
        self.assertGreater(min(report["seconds_of_blocks"]), 0)
        # Of machines nothing is counted here, so nothing is said.
        self.assertNotIn("cpus_busy", report)
        self.assertNotIn("counted_up_bytes", report["links"][0])
        self.assertTrue(self.is_gone())

    def test_machines_train(self):
        done = self.run_rack(TRAINING)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["steps"], 10)
        self.assertGreater(report["images_per_second_p50"], 0)
        self.assertTrue(self.is_gone())

    def test_what_a_killed_run_started_there_ends(self):
        process = subprocess.Popen([BENCH, "rack", "run", self.scenario(ENDLESS)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until(lambda: len(os.listdir(self.scratch)) == 2 and answers(self.control), "servers run")
        process.kill()
        until(self.is_gone, "servers and their folders are gone")

    def test_a_run_that_is_killed_while_it_starts_leaves_nothing_there(self):
        for _ in range(5):
            process = subprocess.Popen([BENCH, "rack", "run", self.scenario(ENDLESS)],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            until(lambda: os.listdir(self.scratch), "something has started")
            process.kill()
            until(self.is_gone, "servers and their folders are gone")

    def test_a_training_that_fails_leaves_nothing_there(self):
        # The rate is beyond reason, so that a worker ends while others wait for it.
        for _ in range(3):
            done = self.run_rack(TRAINING.replace("0.001", "1000"))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("the loss is no longer finite", done.stderr)
            until(self.is_gone, "workers, servers and their folders are gone")

    def test_a_host_that_does_not_let_us_in_is_told(self):
        done = self.run_rack(ENDLESS, key="stranger")
        self.assertEqual(done.returncode, 1)
        self.assertIn("phub-server r0s0", done.stderr)
        self.assertIn("Permission denied", done.stderr)

    def test_a_host_too_few_is_bad_input(self):
        done = self.run_rack(ENDLESS, hosts=1)
        self.assertEqual(done.returncode, 2)
        self.assertIn("1 hosts for 1 server(s) and 1 worker(s)", done.stderr)


if __name__ == "__main__":
    BENCH = os.path.abspath(sys.argv.pop(1))
    if missing():
        print("SKIPPED: missing:", ", ".join(missing()), "(apt-get install openssh-server)")
        sys.exit(77)
    unittest.main(verbosity=2)

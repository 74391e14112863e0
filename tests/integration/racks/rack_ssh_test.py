"""Runs rack scenarios on "machines" that are reached by ssh: a real sshd on this one.

Usage: rack_ssh_test.py PATH_OF_PHUB_BENCH; exit code 77 where there is no ssh or no sshd
"""
import getpass
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from processes import free_port, until  # noqa: E402

BENCH = ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
# Nothing is measured to choose a kernel, and the rate is low enough for images that are noise.
TRAINING = """training { kernels: "onednn" worker { data { format: "synthetic" }
  optimizer { learning_rate: 0.001 } train { max_steps: 10 batch: 16 evaluate: false } } }"""
ENDLESS = "exchange { elements: 10000 rounds: 1000000 timeout_s: 86400 }"


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class RackSshTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.scratch = os.path.join(self.folder, "scratch")  # of the "machines"
        os.mkdir(self.scratch)
        for key in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(key)],
                           check=True)
        shutil.copy(self.path("user.pub"), self.path("authorized"))
        self.port = free_port()
        with open(self.path("config"), "w", encoding="utf-8") as file:
            file.write(f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.path('host')}\n"
                       f"AuthorizedKeysFile {self.path('authorized')}\nPidFile none\nStrictModes no\n"
                       f"UsePAM no\nPermitRootLogin prohibit-password\nMaxStartups 100\n"
                       f"SetEnv TMPDIR={self.scratch}\n")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # it wants the folder to be there
        sshd = subprocess.Popen([shutil.which("sshd", path=PATH), "-D", "-e", "-f", self.path("config")],
                                stderr=subprocess.DEVNULL)
        self.addCleanup(sshd.wait)
        self.addCleanup(sshd.terminate)
        until(lambda: answers(self.port), "sshd listens")
        self.control = free_port()

    def path(self, name):
        return os.path.join(self.folder, name)

    def scenario(self, work, key="user", hosts=2):
        here = f'hosts: "{getpass.getuser()}@127.0.0.1" ' + 'hosts: "127.0.0.1" ' * (hosts - 1)
        words = ["-p", str(self.port), "-i", self.path(key), "-o", "IdentitiesOnly=yes",
                 "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.path('known')}",
                 "-o", "LogLevel=ERROR"]
        options = " ".join(f'options: "{word}"' for word in words)
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
    missing = [name for name in ("ssh", "ssh-keygen", "sshd") if not shutil.which(name, path=PATH)]
    if missing:
        print("SKIPPED: missing:", ", ".join(missing), "(apt-get install openssh-server)")
        sys.exit(77)
    unittest.main(verbosity=2)

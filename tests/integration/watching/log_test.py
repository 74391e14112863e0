"""A log that nobody reads: the control plane goes on, and says what was lost.

Usage: log_test.py BIN
"""
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, run, until  # noqa: E402

F_SETPIPE_SZ = 1031
PIPE_BYTES = 4096
JOBS = 20  # a job's life is more than 300 bytes of the log


class LogTest(unittest.TestCase):
    def setUp(self):
        self.reader, writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        fcntl.fcntl(writer, F_SETPIPE_SZ, PIPE_BYTES)
        self.process = subprocess.Popen(
            [processes.BIN / "phub-server", "--control", "127.0.0.1:0", "--data", "127.0.0.1:0",
             "--http", "127.0.0.1:0", "--cores", "1"],
            stdout=subprocess.PIPE, stderr=writer, text=True)
        self.addCleanup(self.end)
        os.close(writer)
        ready = re.search(r"control=(\S+) .*http=(\S+)", self.process.stdout.readline())
        self.control, self.http = ready[1], ready[2]

    def end(self):
        self.process.kill()
        self.process.communicate()

    def make_jobs(self):
        for index in range(JOBS):
            for verb in ("create", "close"):
                done = run(processes.BIN / "phubctl", "--server", self.control, "job", verb,
                           f"job{index}")
                self.assertEqual(done.returncode, 0, done.stderr)

    def dropped(self):
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=DEADLINE) as answer:
            text = answer.read().decode()
        return float(re.search(r"^phub_log_lines_dropped_total (\S+)", text, re.MULTILINE)[1])

    def test_who_reads_again_is_told_what_was_dropped(self):
        self.make_jobs()
        until(lambda: self.dropped() > 0, "lines are dropped and counted")
        log = os.read(self.reader, PIPE_BYTES).decode()
        self.assertIn("event=ready", log)
        def read_on():
            nonlocal log
            run(processes.BIN / "phubctl", "--server", self.control, "job", "create",
                f"more{len(log)}")
            log += os.read(self.reader, PIPE_BYTES).decode()
            return re.search(r"level=warning event=log_dropped lines=(\d+)", log)
        said = until(read_on, "the log says what it lost")
        self.assertGreater(int(said[1]), 0)

    def test_a_server_whose_log_nobody_reads_ends(self):
        self.make_jobs()
        until(lambda: self.dropped() > 0, "lines are dropped")
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(timeout=DEADLINE), 0)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

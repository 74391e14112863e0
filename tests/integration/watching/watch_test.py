"""phubctl top, job explain and trace on a real job, one of whose workers does eight times the work.

Usage: watch_test.py BIN
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import until  # noqa: E402


class WatchTest(processes.JobTest):
    def start_unequal(self):
        self.workers = [processes.worker(self.server, index, 2, "shm", "--batch", batch)
                        for index, batch in ((0, "16"), (1, "128"))]
        until(self.server.running, "the job runs")

    def test_the_straggler_is_named_in_words_and_for_programs(self):
        self.start_unequal()

        def straggler():  # on a busy machine the other one may be late at first
            findings = self.server.ctl("job", "explain", "mnist")["findings"]
            return next((f for f in findings if f["topic"] == "straggler" and "Worker 1 (" in f["what"]), None)
        found = until(straggler, "worker 1 is found to be the straggler")
        self.assertIn(f"pid {self.workers[1].pid}", found["what"])
        self.assertIn("Cure:", self.server.table("job", "explain", "mnist"))

    def test_top_shows_the_job_with_its_pace_once_and_live(self):
        self.start_unequal()
        self.wait_for_rounds(100)
        table = self.server.table("top", "--once", "--interval-ms", "200")
        for word in ("phub-server", "CORE", "mnist", "running", "2/2", "ROUNDS/S"):
            self.assertIn(word, table)
        until(lambda: self.server.ctl("top", "--interval-ms", "200")["rates"][0]["rounds_per_second"] > 0.0,
              "a round fell between the two looks")

        screen, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
        top = subprocess.Popen([processes.BIN / "phubctl", "--server", self.server.control, "top",
                                "--interval-ms", "100"], stdout=slave, stderr=slave)
        os.close(slave)
        self.addCleanup(os.close, screen)
        drawn = b""
        while drawn.count(b"\x1b[H") < 3:  # ends with an error when top ends
            drawn += os.read(screen, 4096)
        self.assertIn(b"mnist", drawn)
        shown = drawn.split(b"\x1b[H")[2].decode().replace("\x1b[K", "").replace("\x1b[J", "").replace("\r", "").split("\n")
        self.assertTrue(any("LONGEST PART" in line for line in shown), shown)
        self.assertTrue(any(line.startswith("(too narrow for: RACK") for line in shown), shown)
        self.assertLessEqual(max(len(line) for line in shown), 80, shown)
        top.send_signal(signal.SIGINT)
        top.wait(timeout=processes.DEADLINE)

    def test_a_trace_has_the_spans_of_the_last_rounds_in_order(self):
        self.start_unequal()
        self.wait_for_rounds(600)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            said = self.server.table("trace", "mnist", "--rounds", "5", "--output", path)
            self.assertIn("perfetto", said)
            events = json.loads(path.read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual([span["ts"] for span in spans], sorted(span["ts"] for span in spans))
        self.assertTrue(all(span["dur"] >= 0 for span in spans))
        for core in (1, 2):  # each has its own last rounds: one may be ahead
            rounds = {span["args"]["round"] for span in spans if span["pid"] == core}
            self.assertEqual(len(rounds), 5)
        # Two cores and two workers; push, wait, aggregate and reply each.
        self.assertEqual({event["pid"] for event in events}, {1, 2, 100001, 100002})
        self.assertLessEqual({"push", "wait", "aggregate", "reply"}, {span["name"] for span in spans})

    def test_every_help_fits_a_terminal(self):
        # Wherever the program is installed.
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "x" * 80)
        folder.mkdir()
        program = folder / "phubctl"
        program.symlink_to(processes.BIN / "phubctl")

        def commands(*words):
            said = processes.run(program, *words, "--help").stdout
            yield words, said
            listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", said, re.M)
            for name in re.findall(r"^  (\S+)", listed[1], re.M) if listed else ():
                yield from commands(*words, name)
        seen = list(commands())
        self.assertGreater(len(seen), 30)
        for words, said in seen:
            with self.subTest(words):
                self.assertEqual([line for line in said.splitlines() if len(line) > 80], [])

    def test_what_cannot_be_is_refused_with_the_cure(self):
        def refused(*words):
            done = subprocess.run([processes.BIN / "phubctl", "--server", self.server.control, *words],
                                  capture_output=True, text=True, timeout=processes.DEADLINE)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        self.assertIn("nobody", refused("job", "explain", "nobody"))
        self.assertIn("nobody", refused("trace", "nobody"))
        self.server.ctl("job", "create", "early")
        self.assertIn("no complete round", refused("trace", "early"))
        self.assertIn("0 of 1 workers", self.server.table("job", "explain", "early"))
        self.server.ctl("job", "close", "early")
        self.assertIn("is over", refused("trace", "early"))
        self.assertIn('"lst" is no command of job; did you mean "list"?', refused("job", "lst"))


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

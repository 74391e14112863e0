#!/usr/bin/env python3
"""Strangers at every port of a server, while workers join and train. Usage: door_test.py BIN"""
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import processes  # noqa: E402
import strangers  # noqa: E402
from processes import DEADLINE, JobTest, Server, find, run, until  # noqa: E402

processes.BIN = pathlib.Path(sys.argv.pop(1))


def bare_connections(address, count):
    """Connects so many times and says nothing; all of them, open."""
    streams = []
    for _ in range(count):
        try:
            streams.append(socket.create_connection(address, timeout=5))
        except OSError:
            break
    return streams


class LimitedServer(Server):
    """A server whose soft limit of open files, and with `hard` its hard one too, is 1,024."""

    def __init__(self, *more, hard=False):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard:  # the children of this process have what it has
            self.limited = ["prlimit", "--nofile=1024:1024"]
        else:
            self.limited = ["prlimit", f"--nofile=1024:{before[1]}"]
        super().__init__(*more, within=self.limited)

    def limit(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/limits").read_text()
        return int(re.search(r"Max open files\s+(\d+)", text)[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class ControlPort(unittest.TestCase):
    def answers(self, server):
        done = run(processes.BIN / "phubctl", "--server", server.control, "server", "stats")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_answers_after_more_bare_connections_than_there_are_descriptors(self):
        server = LimitedServer(hard=True)
        self.addCleanup(server.close)
        self.assertEqual(server.limit(), 1024)
        for port in (server.control, f"127.0.0.1:{server.data}"):
            streams = bare_connections(strangers.address_of(port), 1300)
            self.answers(server)
            for stream in streams:
                stream.close()
            self.answers(server)
        self.assertLess(server.descriptors(), 1024)

    def test_it_answers_after_connections_that_were_reset_in_its_queue(self):
        server = LimitedServer()
        self.addCleanup(server.close)
        for stream in bare_connections(strangers.address_of(server.control), 500):
            strangers.reset(stream, None)
        self.answers(server)

    def test_the_soft_limit_is_raised(self):
        server = LimitedServer()
        self.addCleanup(server.close)
        self.assertEqual(server.limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[1])

    def test_what_is_too_low_is_said_with_figures(self):
        server = subprocess.run(
            ["prlimit", "--nofile=100:100", processes.BIN / "phub-server", "--control",
             "127.0.0.1:0", "--cores", "1"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(server.returncode, 1, server.stderr)
        self.assertIn("may open 100 files", server.stderr)
        self.assertIn("256", server.stderr)


class Storm(JobTest):
    server_options = ("--http", "127.0.0.1:0")

    def test_eight_workers_train_on_and_others_join_while_strangers_come_in_every_way(self):
        self.start(8, "auto")
        storm = subprocess.Popen(
            [sys.executable, "-B", strangers.__file__, "--control", self.server.control, "--data",
             str(self.server.data), "--pid", str(self.server.process.pid), "--http",
             self.server.http, "--count", "6000", "--held", "4000"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(storm.wait)
        self.addCleanup(storm.kill)
        joined = 0
        while storm.poll() is None or joined < 4:
            for transport in ("tcp", "shm"):
                guest = processes.worker(self.server, 0, 1, transport, "--max-steps", "2", "--job",
                                         f"guest-{joined}")
                _, error = guest.communicate(timeout=DEADLINE)
                self.assertEqual(guest.returncode, 0, error)
                joined += 1
        report = json.loads(storm.communicate()[0])
        storm.stdout.close()
        self.assertGreater(sum(report["tried"].values()) - report["tried"].get("not let in", 0), 3000)
        self.wait_for_rounds(50)
        self.assertTrue(all(w.poll() is None for w in self.workers))
        drops = self.server.drops()
        for cause in ("bad hello", "wrong secret", "handshake timeout"):
            self.assertGreater(drops[cause], 0, drops)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Strangers at every port of a server, while workers join and train. Usage: door_test.py BIN"""
import json
import os
import pathlib
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
import strangers  # noqa: E402
from frames import frame, head  # noqa: E402
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


class Threads(unittest.TestCase):
    def test_too_few_are_said_with_figures_before_a_library_waits_for_one(self):
        for data in (40, 90, 120):  # MiB: of 8 MiB for a thread's stack
            server = subprocess.run(
                ["prlimit", f"--data={data << 20}", "--stack=8388608", processes.BIN / "phub-server",
                 "--control", "127.0.0.1:0", "--data", "127.0.0.1:0", "--cores", "2"],
                capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(server.returncode, 1, server.stderr)
            self.assertRegex(server.stderr, r"can make \d+ threads, and needs \d+")
            self.assertIn("ulimit -u", server.stderr)


class FileSizes(unittest.TestCase):
    LIMIT = ("prlimit", "--fsize=1000000")

    def test_a_job_beyond_the_limit_of_file_sizes_is_refused_and_the_server_goes_on(self):
        server = Server(within=self.LIMIT)
        self.addCleanup(server.close)
        large = processes.worker(server, 0, 1, "tcp", "--max-steps", "1")  # 1.7 MB of parameters
        _, error = large.communicate(timeout=DEADLINE)
        self.assertIsNone(server.process.poll())
        self.assertNotEqual(large.returncode, 0)
        self.assertIn("File too large", error)

    def test_a_state_beyond_it_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            server = subprocess.run(
                ["prlimit", "--fsize=20000", processes.BIN / "phub-server", "--control",
                 "127.0.0.1:0", "--cores", "1", "--state", folder],
                capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(server.returncode, 1, server.stderr)
        self.assertIn("state_folder", server.stderr)


class Caller:
    """HTTP/2 by hand, of who is known: one call of the connection has succeeded."""

    def __init__(self, address):
        self.stream = socket.create_connection(address, timeout=5)
        self.window, self.next = 65_535, 3
        self.stream.sendall(strangers.PREFACE + strangers.SETTINGS)
        self.list_jobs()

    def list_jobs(self):
        self.stream.sendall(frame(1, 4, 1, head("/phub.control.Admin/ListJobs")) +
                            frame(0, 1, 1, bytes(5)))
        while self.read()[:2] != (1, 1):  # the trailers
            pass

    def read(self):
        """The type of the next frame, and whether it ends its call."""
        front = self.whole(9)
        body = self.whole(int.from_bytes(front[:3], "big"))
        if front[3] == 8 and front[5:9] == bytes(4):
            self.window += int.from_bytes(body, "big")
        if front[3] == 4 and not front[4] & 1:
            self.stream.sendall(frame(4, 1, 0, b""))
        return front[3], front[4] & 1

    def is_over(self):
        self.stream.setblocking(False)
        try:
            while self.stream.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def whole(self, count):
        got = b""
        while len(got) < count:
            more = self.stream.recv(count - len(got))
            if not more:
                raise ConnectionResetError
            got += more
        return got

    def half_call(self, method, count):
        message = b"\0" + struct.pack(">I", 120_000) + b"x" * (count - 5)
        self.stream.sendall(frame(1, 4, self.next, head(method)))
        for at in range(0, len(message), 15_000):
            part = message[at:at + 15_000]
            while self.window < len(part):
                self.read()
            self.window -= len(part)
            self.stream.sendall(frame(0, 0, self.next, part))
        self.next += 2


class HalfMessages(JobTest):
    METHOD = "/phub.control.Rendezvous/Heartbeat"

    def half_calls(self, count):
        """A connection with calls whose messages are announced and do not come whole, or None: the
        server has ended it meanwhile."""
        try:
            caller = Caller(strangers.address_of(self.server.control))
            self.addCleanup(caller.stream.close)
            for _ in range(count):
                caller.half_call(self.METHOD, 60_000)
        except OSError:
            return None
        return caller

    def test_those_of_callers_who_are_known_take_no_memory_that_others_need(self):
        """360 MB; strangers' are in frames_test.py."""
        self.start(2, "tcp")
        before = self.server.resident()
        callers = [self.half_calls(90) for _ in range(66)]
        until(lambda: any(caller is None or caller.is_over() for caller in callers),
              "the server looks who has sent too much")
        self.assertLess(self.server.resident() - before, 200 << 10)  # KiB
        self.wait_for_rounds(50)
        self.assertTrue(all(w.poll() is None for w in self.workers))


class Garbage(unittest.TestCase):
    """Wrong hellos at the data port, more than an address may send."""

    def joins_beside_a_flood_from(self, host):
        server = Server()
        self.addCleanup(server.close)
        flood = subprocess.Popen([sys.executable, "-c", FLOOD, host, str(server.data),
                                  strangers.hello(strangers.random.Random(1), version=1).hex()])
        self.addCleanup(flood.wait)
        self.addCleanup(flood.kill)
        until(lambda: server.drops()["turned out"] > 0, "the flood's address has spent its budget")
        for number in range(3):
            worker = processes.worker(server, 0, 1, "tcp", "--max-steps", "2", "--job", f"job-{number}")
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, error)
        self.assertIsNone(flood.poll())

    def test_workers_join_from_another_address(self):
        self.joins_beside_a_flood_from("127.0.0.7")

    def test_workers_join_from_the_same_address(self):
        self.joins_beside_a_flood_from("127.0.0.1")


FLOOD = """
import collections, socket, sys
kept = collections.deque()
while True:
    if len(kept) == 200:  # as fast as the server ends them
        oldest = kept.popleft()
        oldest.settimeout(60)
        try:
            while oldest.recv(100):
                pass
        except OSError:
            pass
        oldest.close()
    stream = socket.socket()
    stream.bind((sys.argv[1], 0))
    stream.setblocking(False)
    stream.connect_ex(("127.0.0.1", int(sys.argv[2])))
    try:
        stream.send(bytes.fromhex(sys.argv[3]))
    except OSError:
        pass
    kept.append(stream)
"""


class Storm(JobTest):
    server_options = ("--http", "127.0.0.1:0", *processes.PATIENT)

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

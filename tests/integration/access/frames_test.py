#!/usr/bin/env python3
"""Strangers that flood the control port with HTTP/2, while a job trains.

Usage: frames_test.py BIN [TEST ...]. PHUB_FLOOD_SECONDS=60 repeats each flood for a minute, from
another address."""
import os
import pathlib
import random
import ssl
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import frames  # noqa: E402
import processes  # noqa: E402
import strangers  # noqa: E402
from processes import DEADLINE, JobTest, run, until  # noqa: E402
from secured import SecuredTest  # noqa: E402

processes.BIN = pathlib.Path(sys.argv.pop(1))

GROWTH = 64 << 10  # KiB, while strangers do their worst
CONNECTIONS = 64
SMALL = 8  # of floods that are many bytes
SECONDS = float(os.environ.get("PHUB_FLOOD_SECONDS", "0"))


def resident_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4


def unread_metrics():
    return b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50_000


def endless_request():
    return b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 500_000


def half_hello():
    return strangers.hello(random.Random(1))[:20]


def hello_and_more():
    return strangers.hello(random.Random(1)) + b"x" * 3_000_000


PAGE_FLOODS = (unread_metrics, endless_request)
DATA_FLOODS = (half_hello, hello_and_more)


class Watch(threading.Thread):
    """The most that a process has had, in KiB, beyond what it had at first."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.first, self.most, self.is_over = pid, resident_of(pid), 0, threading.Event()

    def run(self):
        while not self.is_over.wait(0.02):
            self.most = max(self.most, self.now())

    def now(self):
        return resident_of(self.pid) - self.first


class Floods:
    """What each flood may do to a server, whose job runs."""

    def withstand(self, address, pid, answers, goes_on, wrap=None, floods=frames.FLOODS):
        for flood in floods:
            words = flood()
            with self.subTest(flood=flood.__name__):
                watch = Watch(pid)
                watch.start()
                count = CONNECTIONS if len(words) < 1 << 22 else SMALL
                storm = frames.Flood(address, count, words, wrap, SECONDS)
                storm.start()
                asked, slowest = 0, 0.0
                while storm.is_alive() or asked == 0:
                    start = time.monotonic()
                    answers()
                    slowest = max(slowest, time.monotonic() - start)
                    asked += 1
                goes_on()
                watch.is_over.set()
                watch.join()
                storm.close()
                print(f"{flood.__name__}: +{watch.most >> 10} MiB, then +{watch.now() >> 10} MiB, "
                      f"{storm.sent >> 10} KiB taken, {asked} calls, slowest {slowest:.2f} s",
                      flush=True)
                self.assertLess(watch.most, GROWTH, "KiB")
                until(lambda: watch.now() < GROWTH // 2, "the memory goes back")


class Plaintext(JobTest, Floods):
    def test_no_frames_of_strangers_take_the_memory_that_a_job_needs(self):
        self.start(2, "tcp")
        self.wait_for_rounds(50)
        self.withstand(strangers.address_of(self.server.control), self.server.process.pid,
                       lambda: self.server.ctl("job", "list"), lambda: self.wait_for_rounds(20))
        self.assertTrue(all(w.poll() is None for w in self.workers))


class OtherPorts(JobTest, Floods):
    """The page's and the data plane's, which have bounds of their own."""
    server_options = ("--http", "127.0.0.1:0")

    def test_their_floods_cost_as_little(self):
        self.start(2, "tcp")
        for address, floods in ((strangers.address_of(self.server.http), PAGE_FLOODS),
                                (("127.0.0.1", self.server.data), DATA_FLOODS)):
            self.withstand(address, self.server.process.pid, lambda: self.server.ctl("job", "list"),
                           lambda: self.wait_for_rounds(20), floods=floods)
        self.assertTrue(all(w.poll() is None for w in self.workers))


class Encrypted(SecuredTest, Floods):
    def test_neither_do_those_of_a_worker_without_a_token(self):
        tenant = self.tenant("red")
        issued = run(processes.BIN / "phubctl", "pki", "issue", self.pki, "eve", "--role", "worker")
        self.assertEqual(issued.returncode, 0, issued.stderr)
        context = ssl.create_default_context(cafile=self.pki / "eve/ca.pem")
        context.load_cert_chain(self.pki / "eve/cert.pem", self.pki / "eve/key.pem")
        context.set_alpn_protocols(["h2"])
        workers = [self.worker(tenant, index, 2, "tcp") for index in range(2)]
        until(lambda: self.is_running(tenant, "mnist"), "the job runs")
        self.withstand(strangers.address_of(self.server.control), self.server.process.pid,
                       lambda: self.admin("job", "list"),
                       lambda: self.assertTrue(self.is_running(tenant, "mnist")),
                       lambda stream: context.wrap_socket(stream, server_hostname="localhost"))
        self.assertTrue(all(worker.poll() is None for worker in workers))


class Doctor(unittest.TestCase, Floods):
    def test_the_doctors_port_withstands_them_too(self):
        doctor = subprocess.Popen([processes.BIN / "phubctl", "doctor", "--listen", "127.0.0.1:0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(doctor.stdout.close)
        self.addCleanup(doctor.wait)
        self.addCleanup(doctor.kill)
        where = doctor.stdout.readline().split("listening on ")[1].split(",")[0]

        def measures():
            done = run(processes.BIN / "phubctl", "doctor", "--peer", where, "--seconds", "0.05")
            self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: something is worth a look
            self.assertNotIn("silent", done.stdout + done.stderr)

        measures()
        self.withstand(strangers.address_of(where), doctor.pid, measures, measures)
        self.assertIsNone(doctor.poll())


if __name__ == "__main__":
    unittest.main(verbosity=2)

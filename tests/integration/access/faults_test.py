#!/usr/bin/env python3
"""Real processes that die, and strangers on the data port. Usage: faults_test.py BIN_DIRECTORY"""
import os
import pathlib
import random
import signal
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
import strangers  # noqa: E402
from processes import DEADLINE, JobTest, Server, until, worker  # noqa: E402

processes.BIN = pathlib.Path(sys.argv.pop(1))


class PatientFaults(JobTest):
    server_options = processes.PATIENT

    def test_a_killed_worker_is_named_and_the_next_job_runs(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                self.start(3, transport)
                self.wait_for_rounds(100)
                self.workers[1].kill()
                for survivor in (self.workers[0], self.workers[2]):
                    _, error = survivor.communicate(timeout=DEADLINE)
                    self.assertEqual(survivor.returncode, 1, error)
                    self.assertIn("worker 1", error)
                self.end_workers()
                self.launch(2, transport, "--max-steps", "3")
                self.finish()

    def test_a_job_that_stands_still_is_explained_by_who_has_not_pushed(self):
        self.start(2, "shm")
        self.wait_for_rounds(100)
        self.workers[1].send_signal(signal.SIGSTOP)
        self.addCleanup(self.workers[1].send_signal, signal.SIGCONT)

        def standstill():
            findings = self.server.ctl("job", "explain", "mnist")["findings"]
            return next((f for f in findings if f["topic"] == "standstill"), None)
        found = until(standstill, "the standstill is found")
        self.assertIn("worker 1 (", found["what"])
        self.assertNotIn("worker 0 (", found["what"])


class Faults(JobTest):
    def test_memory_returns_after_failed_jobs(self):
        levels = []
        for _ in range(6):
            self.start(2, "tcp")
            self.wait_for_rounds(50)
            self.workers[0].kill()
            self.workers[1].communicate(timeout=DEADLINE)
            self.end_workers()
            until(lambda: not self.server.running(), "it failed")
            levels.append(self.server.resident())
        # The job holds over 3 MiB; what the first ones leave is the allocator's and gRPC's.
        self.assertLess(levels[-1] - levels[2], 2048, levels)

    def test_workers_end_when_the_server_is_killed(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                self.start(2, transport)
                self.server.close()
                for process in self.workers:
                    _, error = process.communicate(timeout=DEADLINE)
                    self.assertEqual(process.returncode, 1, error)
                    self.assertIn(self.server.control, error)
                self.end_workers()
                self.server = Server()
                self.addCleanup(self.server.close)

    def test_workers_end_with_the_servers_name_when_a_second_signal_stops_it_at_once(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                self.start(2, transport)
                for _ in range(2):  # the first drains, which takes as long as the jobs
                    self.server.process.send_signal(signal.SIGTERM)
                    until(lambda: self.is_taken(signal.SIGTERM), "the signal is taken")
                for process in self.workers:
                    _, error = process.communicate(timeout=DEADLINE)
                    self.assertEqual(process.returncode, 1, error)
                    self.assertRegex(error, f"{self.server.control}|the server was stopped")
                    self.assertNotIn("CANCELLED", error)
                self.end_workers()
                self.server = Server()
                self.addCleanup(self.server.close)

    def is_taken(self, number):
        """Whether no such signal waits for the server: else a second one is the same one."""
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status")
        if not status.exists():
            return True
        pending = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("ShdPnd")]
        return not pending or not int(pending[0], 16) >> (number - 1) & 1

    def test_a_worker_that_waits_for_others_says_so(self):
        self.workers = [worker(self.server, 0, 2, "shm")]
        line = next(line for line in self.workers[0].stderr if "waiting for" in line)
        for word in (self.server.control, "2 workers", "timeout_ms"):
            self.assertIn(word, line)

    def test_strangers_on_the_data_port_are_dropped_and_counted(self):
        self.start(2, "tcp")
        rng = random.Random(5)
        attempts = [rng.randbytes(200) for _ in range(20)]
        attempts += [b"GET / HTTP/1.1\r\n\r\n" * 8, strangers.hello(rng)[:20]]
        attempts += [strangers.hello(rng, job=job) + rng.randbytes(32) for job in (1, 2, 999)]
        for bytes_ in attempts:
            with socket.create_connection(("127.0.0.1", self.server.data)) as stream:
                stream.settimeout(DEADLINE)
                try:
                    stream.sendall(bytes_)
                    stream.shutdown(socket.SHUT_WR)
                    while stream.recv(4096):
                        pass
                except OSError:  # closed while we were still talking
                    pass
        until(lambda: sum(self.server.drops().values()) >= len(attempts), "all are counted")
        drops = self.server.drops()
        self.assertEqual(drops["bad hello"], 21)
        self.assertEqual(drops["wrong secret"], 3)
        self.wait_for_rounds(50)

    def test_sigterm_drains(self):
        self.start(1, "shm", "--max-steps", "200")
        self.server.process.send_signal(signal.SIGTERM)
        _, error = self.workers[0].communicate(timeout=DEADLINE)
        self.assertEqual(self.workers[0].returncode, 0, error)
        self.assertEqual(self.server.process.wait(timeout=DEADLINE), 0)

    def test_two_workers_train_the_same_bits_every_time(self):
        digests = set()
        for run, transport in enumerate(("shm", "tcp", "shm")):
            path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"phub-{os.getpid()}-{run}"
            self.addCleanup(lambda p=path: p.unlink(missing_ok=True))
            self.workers = [worker(self.server, i, 2, transport, "--max-steps", "10", *more)
                            for i, more in enumerate((("--checkpoint", str(path)), ()))]
            self.finish()
            digests.add(path.read_bytes())
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

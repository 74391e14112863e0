"""Tests with mutual TLS and tokens: a server, its administrator, tenants and their workers.

Set processes.BIN before use.
"""
import pathlib
import tempfile
import unittest

import processes
from processes import Server, run


class SecuredTest(unittest.TestCase):
    """Everything that is started ends with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pki = self.folder / "pki"
        made = run(processes.BIN / "phubctl", "pki", "init", self.pki, "--host", "localhost")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.processes = []
        self.addCleanup(self.end)
        self.server = self.start_server()

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.server.close()

    def start_server(self, control="127.0.0.1:0"):
        return Server("--credentials", self.pki / "server", "--state", self.folder / "state",
                      control=control)

    def ctl(self, credentials, *words):
        return run(processes.BIN / "phubctl", "--server", self.server.control, "--credentials",
                   credentials, *words)

    def admin(self, *words):
        done = self.ctl(self.pki / "admin", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def tenant(self, name, *quotas):
        """A tenant, and a worker's credentials for it."""
        self.admin("tenant", "create", name, *quotas)
        issued = run(processes.BIN / "phubctl", "pki", "issue", self.pki, name, "--role", "worker")
        self.assertEqual(issued.returncode, 0, issued.stderr)
        self.admin("tenant", "token", "create", name, "--save", self.pki / name / "token")
        return self.pki / name

    def worker(self, credentials, index, workers, transport, *more, config=None):
        process = processes.worker(self.server, index, workers, transport, "--credentials",
                                   credentials, *more, config=config)
        self.processes.append(process)
        return process

    def state(self, credentials, name):
        done = self.ctl(credentials, "job", "inspect", name)
        return done.stdout if done.returncode == 0 else ""

    def is_running(self, credentials, name):
        return "running" in self.state(credentials, name)

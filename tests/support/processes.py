"""Real servers and workers for tests in Python: started, watched, ended.

Set BIN, the folder of the programs, before use.
"""
import json
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(".")
CONFIG = pathlib.Path(__file__).parents[2] / "configs" / "mnist.textproto"
DEADLINE = 120  # only bounds a test that hangs


# Of a server for which a silent worker is lost after ten minutes: what is noticed earlier was told by
# a connection.
PATIENT = ("--config", pathlib.Path(__file__).parent / "patient_server.textproto")


def run(*command):
    """The ended process, with its output as text."""
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)


def temporary_folder(test):
    """A folder that goes when the test is over."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return pathlib.Path(folder.name)


def cleanups_of(cls):
    """A class as temporary_folder and others want a test: what is added is cleaned up after all tests of the class."""
    class Cleanups:
        addCleanup = staticmethod(cls.addClassCleanup)
    return Cleanups


_claims = []  # of ports, until the process ends


def free_port():
    """Of loopback: one that nobody has, below those that the kernel gives to connections, so that
    no connection takes it meanwhile, nor another test, which sees the claim."""
    while True:
        port = random.randrange(15_000, 32_000)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0phub-test-port-{port}")
            with socket.socket() as free:
                free.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port


def until(condition, what):
    """Polls a condition; fails naming it when DEADLINE passes."""
    deadline = DEADLINE
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {deadline} s: {what}")


class Server:
    def __init__(self, *more, control="127.0.0.1:0", within=(), log=subprocess.DEVNULL, level="warn",
                 cores=2):
        """`within`: a command that runs the server's. `log`: where its log goes."""
        self.process = subprocess.Popen(
            [*within, BIN / "phub-server", "--control", control, "--data", "127.0.0.1:0",
             "--cores", str(cores), "--log-level", level, *more],
            stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        match = re.match(r"phub-server ready control=(\S+) data=(\d+) pid=\d+(?: http=(\S+))?", line)
        assert match, line
        self.control, self.data, self.http = match[1], int(match[2]), match[3]

    def ctl(self, *words):
        out = subprocess.run([BIN / "phubctl", "--server", self.control, "--json", *words],
                             capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
        return json.loads(out)

    def text(self, *words):
        return json.dumps(self.ctl(*words))

    def table(self, *words):
        return subprocess.run([BIN / "phubctl", "--server", self.control, *words],
                              capture_output=True, text=True, timeout=DEADLINE, check=True).stdout

    def drops(self):
        return {d["cause"]: int(d.get("count", 0)) for d in find(self.ctl("server", "stats"), "drops")}

    def running(self):
        jobs = self.text("job", "list")
        return "JOB_STATE_RUNNING" in jobs or '"running"' in jobs

    def chunks(self):
        return sum(int(c.get("chunksCompleted", c.get("chunks_completed", 0)))
                   for c in find(self.ctl("server", "stats"), "cores"))

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return sum(int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("RssAnon", "RssShmem"))

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def unverified():
    """For a server whose certificate is not what is tested."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def find(tree, name):
    """The first value of this name in nested JSON, in either spelling."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == name:
                return value
            found = find(value, name)
            if found is not None:
                return found
    if isinstance(tree, list):
        for value in tree:
            found = find(value, name)
            if found is not None:
                return found
    return None


def worker(server, index, workers, transport, *more, within=(), config=None):
    """`within`: a command that runs the worker's. `config`: what to train, else CONFIG."""
    return subprocess.Popen(
        [*within, BIN / "phub-worker", "train", config or CONFIG, "--server", server.control, "--workers", str(workers),
         "--index", str(index), "--transport", transport, "--epochs", "1000", *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class JobTest(unittest.TestCase):
    """A server, and workers that end with the test."""
    server_options = ()

    def setUp(self):
        self.server = Server(*self.server_options)
        self.addCleanup(self.server.close)
        self.workers = []
        self.addCleanup(self.end_workers)

    def end_workers(self):
        for process in self.workers:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def launch(self, count, transport, *more):
        self.workers = [worker(self.server, i, count, transport, *more) for i in range(count)]

    def start(self, count, transport, *more):
        """Workers of a job that runs."""
        self.launch(count, transport, *more)
        until(self.server.running, "the job runs")

    def wait_for_rounds(self, chunks):
        before = self.server.chunks()
        until(lambda: self.server.chunks() > before + chunks, "rounds complete")

    def finish(self, workers=None):
        """These workers, or else all, end well."""
        for process in workers or self.workers:
            _, error = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, error)

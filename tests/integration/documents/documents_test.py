"""What README.md, deploy/README.md's racks and the end of the quickstart tell a user to type does what they say.

Usage: documents_test.py BIN

Commands run with the words that are written there; behind them come a free port for the one in the
file, and what bounds the run.
"""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
import processes  # noqa: E402
from processes import until  # noqa: E402

BUILT = "build/release/bin/"  # where the documents say that programs are
COMPILER = os.environ.get("CXX", "c++")


def blocks(text, language=""):
    """The code blocks of a document."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def commands(block):
    """The words of each line, without its comment, and whether the comment says 'twice'."""
    for line in block.splitlines():
        words, _, comment = line.partition("#")
        if words.strip():
            yield shlex.split(words), "twice" in comment


class Documents(unittest.TestCase):
    def setUp(self):
        self.readme = (ROOT / "README.md").read_text()
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, words, *more):
        words = [str(processes.BIN / w.removeprefix(BUILT)) if w.startswith(BUILT) else w for w in words]
        process = subprocess.Popen([*words, *more], cwd=ROOT, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.started.append(process)
        return process

    def output(self, words, *more, statuses=(0,)):
        process = self.start(words, *more)
        said, _ = process.communicate(timeout=10 * processes.DEADLINE)
        self.assertIn(process.returncode, statuses, f"{words}: {said}")
        return said

    def serve(self, words):
        server = self.start(words, "--control", "127.0.0.1:0", "--http", "127.0.0.1:0")
        return re.search(r"ready control=(\S+)", server.stdout.readline())[1]

    def test_two_commands_are_there(self):
        for words, _ in commands(blocks(self.readme)[0]):
            self.assertTrue(os.access(ROOT / words[0], os.X_OK), words)

    def test_using_it(self):
        lines = list(commands(blocks(self.readme)[1]))
        (serve, _), (train, is_twice), *looks = lines
        self.assertTrue(is_twice)
        control = self.serve(serve)
        train[train.index("--server") + 1] = control
        workers = [self.start(train, "--epochs", "1000") for _ in range(2)]
        ask = [processes.BIN / "phubctl", "--server", control, "--json", "job", "inspect", "mnist"]
        until(lambda: re.search(r"running\b", subprocess.run(ask, capture_output=True, text=True).stdout, re.I), "the job runs")
        self.assertEqual([words[1] for words, _ in looks], ["top", "job", "doctor"])
        for words, _ in looks:
            more = ("--once",) if words[1] == "top" else ()
            at = () if words[1] == "doctor" else ("--server", control)
            # The doctor ends with 1 when it has found something.
            said = self.output([words[0], *at, *words[1:]], *more, statuses=(0, 1) if words[1] == "doctor" else (0,))
            self.assertIn({"top": "mnist", "job": "Cure:", "doctor": "RDMA"}[words[1]], said)
        for worker in workers:
            worker.send_signal(signal.SIGINT)
        for worker in workers:
            worker.communicate(timeout=processes.DEADLINE)

    def test_two_racks_on_one_machine(self):
        operations = (ROOT / "deploy/README.md").read_text()
        (block,) = (block for block in blocks(operations) if "configs/racks/a.textproto" in block)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ports = {"7071": str(processes.free_port()), "7072": str(processes.free_port())}
        self.assertNotEqual(*ports.values())

        def elsewhere(text):
            for listed, free in ports.items():
                text = text.replace(f":{listed}", f":{free}")
            return text

        for rack in "ab":
            text = (ROOT / f"configs/racks/{rack}.textproto").read_text()
            (pathlib.Path(folder.name) / f"{rack}.textproto").write_text(elsewhere(text))
        *lines, (last, _) = commands(elsewhere(block).replace("configs/racks", folder.name))
        self.assertEqual(last, ["kill", "%1", "%2"])
        said, background = [], []
        for words, _ in lines:
            if words[-1] != "&":
                said.append(self.output(words))
                continue
            background.append(self.start(words[:-1]))
            if "phub-server" in words[0]:
                self.assertIn("ready", background[-1].stdout.readline())
        racks, probe, _, plan, trained = said
        for rack, free in zip("ab", ports.values()):
            self.assertRegex(racks, rf"{rack} +127.0.0.1:{free}")
        self.assertRegex(probe, r"from 0 +a .*Gb/s")
        self.assertRegex(plan, "takes (spread|chain|multicolour|hybrid|nested)")
        self.assertRegex(trained, r"test accuracy \d+")
        *servers, other = background
        said_by_other, _ = other.communicate(timeout=processes.DEADLINE)
        self.assertEqual(other.returncode, 0, said_by_other)
        for server in servers:
            server.terminate()
            server.communicate(timeout=processes.DEADLINE)
            self.assertEqual(server.returncode, 0)

    def test_the_program_compiles(self):
        (program,) = blocks(self.readme, "cpp")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "program.cc"
            source.write_text("#include <span>\nvoid fill(std::span<float> values);\nbool more();\n" + program)
            done = subprocess.run([COMPILER, "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", f"-I{ROOT}", source],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_links_lead_somewhere(self):
        for target in re.findall(r"\]\(([^)#]+)\)", self.readme):
            self.assertTrue((ROOT / target).exists(), target)

    def test_the_quickstarts_last_words(self):
        script = (ROOT / "deploy/quickstart.sh").read_text()
        hints = [shlex.split(re.split(r" {3,}", line.strip())[0].replace("$bin/", BUILT))
                 for line in script.splitlines() if line.startswith("  $bin/")]
        self.assertEqual([hint[0] for hint in hints],
                         [BUILT + name for name in ("phub-server", "phubctl", "phub-bench")])
        self.assertIn("\n  cmake --build build/release --target phub-bench\n  $bin/phub-bench", script)
        self.serve(hints[0])
        self.assertIn("Usage", self.output(hints[1]))
        said = self.output(hints[2], "--elements", "8192", "--workers", "2", "--iterations", "2", "--blocks", "1")
        self.assertIn("phub", said)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])

"""The example on MNIST, as its documents start it. Usage: mnist_test.py LIBRARY BIN"""
import importlib.util
import re
import subprocess
import sys
import unittest

import launched
from launched import DEADLINE, ROOT, environment, processes

if importlib.util.find_spec("torch") is None:
    print("skipped: no module named torch")
    sys.exit(77)

EXAMPLE = ROOT / "worker/torch/examples/mnist.py"


class MnistTest(unittest.TestCase):
    def test_three_lines_are_phubs(self):
        lines = [line for line in EXAMPLE.read_text().splitlines() if re.search(r"\bphub\.", line)]
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertIn("# PHub", line)

    def test_two_workers_learn(self):
        done = subprocess.run(
            [sys.executable, "-B", "-m", "phub.launch", "-n", "2", "--server-program", processes.BIN / "phub-server",
             sys.executable, "-B", EXAMPLE, "--epochs", "1", "--log-interval", "20"],
            env=environment(), capture_output=True, text=True, timeout=2 * DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(2):
            (accuracy,) = re.findall(rf"^\[{rank}\] Test set: .*\(([\d.]+)%\)", done.stdout, re.M)
            self.assertGreater(float(accuracy), 90)


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

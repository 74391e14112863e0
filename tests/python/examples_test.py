"""The larger examples, small. Usage: examples_test.py LIBRARY BIN"""
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


def run(test, example, *arguments):
    """What two workers print."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "phub.launch", "-n", "2", "--server-program", processes.BIN / "phub-server",
         sys.executable, "-B", ROOT / "worker/torch/examples" / example, *arguments],
        env=environment(), capture_output=True, text=True, timeout=2 * DEADLINE)
    test.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout


class ExamplesTest(unittest.TestCase):
    def test_residual_network(self):
        said = run(self, "resnet.py", "--images", "128", "--batch-size", "8", "--epochs", "1")
        self.assertEqual(len(re.findall(r"^\[[01]\] epoch 1 accuracy on the test images [\d.]+ %", said, re.M)), 2)

    def test_transformer_learns(self):
        said = run(self, "language.py", "--steps", "60", "--width", "48", "--depth", "2", "--length", "32", "--lr", "3e-3")
        for rank in range(2):
            losses = [float(loss) for loss in re.findall(rf"^\[{rank}\] step \d+ of 60 loss ([\d.]+)", said, re.M)]
            self.assertEqual(len(losses), 6)
            self.assertLess(losses[-1], losses[0])
            self.assertLess(losses[-1], 3.6)  # log 256 is 5.5


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

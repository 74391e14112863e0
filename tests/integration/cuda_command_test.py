"""phub-worker's backend `cuda` as a user meets it: without a GPU, with a wrong plug-in, and with one
that a CPU stands in for.

Usage: cuda_command_test.py PATH_OF_PHUB_WORKER PATH_OF_THE_STAND_IN PATH_OF_A_FOREIGN_PLUGIN
"""
import os
import subprocess
import sys
import tempfile
import unittest

WORKER = STAND_IN = FOREIGN = ""
DEADLINE_SECONDS = 60

CONFIG = """
model { name: "lenet" }
data { format: "synthetic" synthetic_images: 64 }
optimizer { learning_rate: 0.01 }
train { epochs: 1 batch: 16 backend: "cuda" }
"""


def run(*arguments, **environment):
    with tempfile.TemporaryDirectory() as cache:
        everything = {**os.environ, "XDG_CACHE_HOME": cache, **environment}
        return subprocess.run([WORKER, *arguments], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS, env=everything)


class CudaCommand(unittest.TestCase):
    def train(self, *arguments, **environment):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write(CONFIG)
            file.flush()
            return run("train", file.name, "--local", *arguments, **environment)

    def test_without_a_gpu_or_a_plug_in_the_cure_is_told(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        for command in (("bench", "lenet", "--backend", "cuda"), ("tune", "lenet")):
            done = run(*command)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertTrue("nvidia-smi" in done.stderr or "PHUB_CUDA_PLUGIN" in done.stderr,
                            done.stderr)

    def test_a_plug_in_that_is_not_there_or_of_another_build_is_refused(self):
        done = run("bench", "lenet", "--backend", "cuda", PHUB_CUDA_PLUGIN="/nowhere/mine.so")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("/nowhere/mine.so: not there", done.stderr)
        done = run("bench", "lenet", "--backend", "cuda", "--cuda-plugin", FOREIGN)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("built for another phub-worker", done.stderr)

    def test_a_plug_in_trains_with_the_type_that_fits(self):
        for arguments, compute_type in (((), "bf16"), (("--loss-scale", "128"), "fp16")):
            done = self.train(*arguments, PHUB_CUDA_PLUGIN=STAND_IN)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("test accuracy", done.stdout)
            self.assertIn(f"a stand-in for a GPU, {compute_type}", done.stderr)

    def test_what_makes_no_sense_is_refused(self):
        done = self.train("--compute-type", "fp16", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("loss_scale", done.stderr)
        done = self.train("--device", "3", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("train.device", done.stderr)
        done = run("bench", "lenet", "--backend", "cuda", "--threads", "2")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--threads", done.stderr)

    def test_a_backend_that_keeps_no_parameters_says_so(self):
        done = run("bench", "lenet", "--backend", "cuda", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("through an exchange only", done.stderr)


if __name__ == "__main__":
    WORKER, STAND_IN, FOREIGN = (sys.argv.pop(1) for _ in range(3))
    unittest.main()

"""The networks that bench/gpu/torch_step.py times in PyTorch are those of phub-worker; torch_ranks.py runs on a CPU.

Usage: torch_network_test.py PATH_OF_PHUB_WORKER LIBPHUB PATH_OF_PHUB_SERVER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench/gpu"))

import torch
from torch_network import Network

WORKER = LIBRARY = SERVER = ""


def model(name, form):
    done = subprocess.run([WORKER, "model", name, form], capture_output=True, text=True, check=True)
    return done.stdout


class TorchNetwork(unittest.TestCase):
    def test_parameters_and_outputs_have_the_same_shapes(self):
        for name in ("lenet", "resnet20", "alexnet_bn", "googlenet", "resnet50"):
            with self.subTest(name):
                table = json.loads(model(name, "--json"))
                shapes = sorted(tuple(parameter["shape"]) for layer in table["layers"]
                                for parameter in layer["parameters"])
                network = Network(model(name, "--textproto"))
                own = sorted(tuple(parameter.shape) for parameter in network.parameters())
                self.assertEqual(own, shapes)
                with torch.no_grad():
                    output = network(torch.zeros(2, *network.image))
                self.assertEqual(output.shape[1], table["layers"][-1]["output"][0])


class TorchRanks(unittest.TestCase):
    def ranks(self, *words):
        script = [sys.executable, ROOT / "bench/gpu/torch_ranks.py", *words, "--device", "cpu"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "worker/torch"), "PHUB_LIBRARY": LIBRARY,
                       "PHUB_SERVER_PROGRAM": SERVER, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-B", "-m", "phub.launch", "-n", "2", *script], capture_output=True,
                              text=True, check=False, env=environment, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.partition("[0] ")[2].splitlines()[0])

    def test_each_way_of_training_has_the_parameters_of_torch_optim(self):
        found = self.ranks("check")
        self.assertEqual(found["wrong"], [])
        self.assertLess(found["optimizer"], 1e-5)

    def test_a_step_is_timed(self):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as description:
            description.write(model("lenet", "--textproto"))
            description.flush()
            found = self.ranks("speed", "--way", "optimizer", "--description", description.name, "--batch", "4",
                               "--steps", "2", "--warm-up", "1")
        self.assertGreater(found["images_per_second"], 0)


if __name__ == "__main__":
    WORKER, LIBRARY, SERVER = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main()

"""The networks that bench/gpu/torch_step.py times in PyTorch are those of phub-worker.

Usage: torch_network_test.py PATH_OF_PHUB_WORKER
"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench" / "gpu"))

import torch
from torch_network import Network

WORKER = ""


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


if __name__ == "__main__":
    WORKER = sys.argv.pop(1)
    unittest.main()

"""A small training in a folder of its own, by phub-worker."""
import pathlib
import tempfile
import unittest

import processes
from processes import run

# Everything that a step draws on: batch normalisation, dropout, augmentation, a schedule, a loss
# scale that moves, several batches a step.
NETWORK = """
image { channels: 3 height: 12 }
layer { name: "conv" convolution { channels: 8 kernel: 3 padding: 1 bias: false } }
layer { name: "norm" batch_norm { relu: true } }
layer { name: "pool" pool { kernel: 2 stride: 2 } }
layer { name: "drop" dropout { ratio: 0.3 } }
layer { name: "fc" inner_product { outputs: 10 } }
"""
CONFIG = """
job: "run"
wire_type: "%(wire)s"
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 96 shift_pixels: 1 }
optimizer {
  rule: "%(rule)s" learning_rate: 0.01
  schedule { kind: "cosine" warmup_steps: 3 }
}
train {
  epochs: 3 batch: 4 accumulate: 2 seed: 5
  loss_scale { dynamic { initial: 1024 growth_steps: 4 } }
}
"""


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "net.textproto").write_text(NETWORK)

    def config(self, rule="nesterov", wire="fp32"):
        path = self.folder / "train.textproto"
        path.write_text(CONFIG % {"rule": rule, "wire": wire})
        return path

    def train(self, config, *more):
        done = run(processes.BIN / "phub-worker", "train", config, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

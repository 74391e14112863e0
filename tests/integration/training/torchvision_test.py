"""Checkpoints of phub-worker in torchvision, and torchvision's in phub-worker: the same logits.

Needs PyTorch and torchvision (Debian: python3-torch, python3-torchvision); without them it is
skipped. Weights are random: nothing is downloaded.

Usage: torchvision_test.py PATH_OF_PHUB_WORKER
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import torch
    import torchvision
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

WORKER = ""
DEADLINE_SECONDS = 240
IMAGES = 16  # for training; a quarter as many for the test
CLASSES = 10

CONFIG = """
model {{ name: "{name}" classes: 10 image {{ height: {side} }} }}
data {{ format: "synthetic" synthetic_images: 16 }}
optimizer {{ learning_rate: 0.0005 }}
train {{ epochs: 1 batch: 4 max_steps: 2 evaluate: false seed: 7 }}
"""

# Name, pixels of a side, what torchvision's constructor is told.
MODELS = [
    ("resnet50", 64, {}),
    ("resnet18", 64, {}),
    ("resnext50_32x4d", 64, {}),
    ("googlenet", 96, {"aux_logits": False, "init_weights": True}),
    ("inception_v3", 96, {"aux_logits": False, "init_weights": False}),
    ("alexnet", 224, {}),
]


def make(name, **options):
    torch.manual_seed(3)
    return getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, **options)


def read_safetensors(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", name
        values = numpy.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


def write_safetensors(path, tensors):
    """As safetensors.torch.save_file does."""
    types = {torch.float32: ("F32", "<f4"), torch.int64: ("I64", "<i8"), torch.float16: ("F16", "<f2")}
    header, blobs, end = {}, [], 0
    for name, tensor in tensors.items():
        word, code = types[tensor.dtype]
        blob = tensor.detach().contiguous().numpy().astype(code).tobytes()
        header[name] = {"dtype": word, "shape": list(tensor.shape), "data_offsets": [end, end + len(blob)]}
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


INCREMENT = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def mix(z):
    """Splitmix64's, of numbers or arrays of 64 bits."""
    z = (z + INCREMENT) & MASK if isinstance(z, int) else z + numpy.uint64(INCREMENT)
    wide = (lambda n: n) if isinstance(z, int) else numpy.uint64
    z = ((z ^ (z >> wide(30))) * wide(0xBF58476D1CE4E5B9)) & wide(MASK)
    z = ((z ^ (z >> wide(27))) * wide(0x94D049BB133111EB)) & wide(MASK)
    return z ^ (z >> wide(31))


def random_bytes(seed, major, minor, count):
    """worker/data/random.h: numbers below 256 for the purpose of synthetic images."""
    synthetic = 2
    state = mix(mix(mix(mix(seed) + synthetic & MASK) + major & MASK) + minor & MASK)
    with numpy.errstate(over="ignore"):
        steps = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(INCREMENT)
        drawn = mix(numpy.uint64(state) + steps)
    return ((drawn >> numpy.uint64(32)) * numpy.uint64(256) >> numpy.uint64(32)).astype(numpy.int64)


def test_images(side, seed=7):
    """The test images of worker/data/synthetic.cc, normalised, as PyTorch wants them."""
    images = []
    for index in range(IMAGES, IMAGES + IMAGES // 4):
        count = side * side * 3
        pixels = (random_bytes(seed, 0, index % CLASSES, count) + random_bytes(seed, 1, index, count)) // 2
        scaled = (pixels.astype(numpy.float32) / numpy.float32(255) - numpy.float32(0.5)) / numpy.float32(0.2)
        images.append(scaled.reshape(side, side, 3).transpose(2, 0, 1))
    return torch.from_numpy(numpy.stack(images))


class Torchvision(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_worker(self, *arguments):
        return subprocess.run([WORKER, *arguments], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS)

    def config(self, name, side):
        with open(self.path("c.textproto"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(name=name, side=side))
        return self.path("c.textproto")

    def evaluate(self, config, checkpoint):
        """The worker's logits, and what it says about them."""
        done = self.run_worker("eval", config, "--checkpoint", checkpoint, "--json",
                               "--logits", self.path("logits"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return read_safetensors(self.path("logits"))["logits"], json.loads(done.stdout)

    def compare(self, ours, said, model, images):
        model.eval()
        with torch.no_grad():
            theirs = model(images)
        self.assertEqual(ours.shape, theirs.shape)
        spread = float(theirs.max() - theirs.min())
        self.assertGreater(spread, 0)
        self.assertLess(float((ours - theirs).abs().max()), 1e-4 * max(spread, 1e-3), said)
        labels = torch.arange(IMAGES, IMAGES + IMAGES // 4) % CLASSES
        self.assertAlmostEqual(said["loss"], float(torch.nn.functional.cross_entropy(theirs, labels)),
                               delta=1e-3 * max(1.0, spread))
        top5 = (theirs.topk(5).indices == labels[:, None]).any(1)
        self.assertEqual(said["top1"], float((theirs.argmax(1) == labels).double().mean()))
        self.assertEqual(said["top5"], float(top5.double().mean()))

    def test_checkpoints_go_both_ways(self):
        for name, side, options in MODELS:
            with self.subTest(model=name):
                config, images = self.config(name, side), test_images(side)
                done = self.run_worker("train", config, "--local", "--checkpoint", self.path("ours"))
                self.assertEqual(done.returncode, 0, done.stderr)
                model = make(name, **options)
                # Strictly: no name is missing, none is unknown, every shape is right.
                model.load_state_dict(read_safetensors(self.path("ours")), strict=True)
                self.compare(*self.evaluate(config, self.path("ours")), model, images)

                theirs = make(name, **options)
                theirs.train()
                with torch.no_grad():
                    theirs(images)  # running statistics that are not the first ones
                write_safetensors(self.path("theirs"), theirs.state_dict())
                self.compare(*self.evaluate(config, self.path("theirs")), theirs, images)

    def test_what_does_not_fit_is_named_with_the_cure(self):
        config = self.config("resnet18", 64)
        state = make("resnet18").state_dict()
        missing = {name: value for name, value in state.items() if name != "layer3.1.bn2.running_var"}
        wrong_shape = dict(state, **{"fc.weight": torch.zeros(7, 512)})
        unknown = dict(state, **{"aux1.fc1.weight": torch.zeros(3)})
        half = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
        for broken, text in ((missing, "no tensor layer3.1.bn2.running_var: is it of another model?"),
                             (wrong_shape, "fc.weight is [7, 512], the model's [10, 512]"),
                             (unknown, "a tensor aux1.fc1.weight that the model does not have"),
                             (half, "dtype is not F32; convert it")):
            write_safetensors(self.path("broken"), broken)
            done = self.run_worker("eval", config, "--checkpoint", self.path("broken"))
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(text, done.stderr)
            self.assertIn(self.path("broken"), done.stderr)
            self.assertEqual(done.stdout, "")
        done = self.run_worker("eval", config, "--checkpoint", self.path("none"))
        self.assertIn("cannot open", done.stderr)
        done = self.run_worker("eval", config)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--checkpoint: is missing", done.stderr)


if __name__ == "__main__":
    WORKER = sys.argv.pop(1)
    unittest.main()

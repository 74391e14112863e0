"""A folder of small generated images of three classes, and trainings on it."""
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

CLASSES, TRAIN, TEST = 3, 12, 4  # images of each class
CONFIG = """
model {{ file: "net.textproto" }}
data {{ format: "{format}" path: "{path}" flip: true {more} }}
optimizer {{ rule: "momentum" learning_rate: 0.05 }}
train {{ batch: 6 epochs: 4 threads: 1 {train} }}
"""
NETWORK = """
image { channels: 3 height: 16 }
layer { name: "conv" convolution { channels: 8 kernel: 3 padding: 1 } }
layer { name: "relu" relu {} }
layer { name: "pool" global_average_pool {} }
layer { name: "fc" inner_product { outputs: 3 } }
"""


def chunk(kind, data):
    """A part of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, pixel):
    """A PNG file, whose pixel (row, column) is pixel(row, column)."""
    rows = b"".join(b"\0" + b"".join(bytes(pixel(r, c)) for c in range(width)) for r in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def colour(label, number):
    """Each class has a channel that is bright."""
    def pixel(row, column):
        noise = (row * 7 + column * 13 + number * 29) % 64
        return [200 + noise % 56 if channel == label else noise for channel in range(3)]
    return pixel


class ImageFolder(unittest.TestCase):
    """A test with the set in `folder`/pictures; `programs` is where phub-worker is."""
    programs = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "net.textproto").write_text(NETWORK)
        for split, images in (("train", TRAIN), ("test", TEST)):
            for label in range(CLASSES):
                place = self.folder / "pictures" / split / f"class{label}"
                place.mkdir(parents=True)
                for number in range(images):
                    (place / f"{number:03}.png").write_bytes(
                        png(20 + number, 24 + label, colour(label, number)))

    def worker(self, *arguments, status=0):
        done = subprocess.run([self.programs / "phub-worker", *arguments], capture_output=True, text=True,
                              cwd=self.folder, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def config(self, name="train.textproto", format="folder", path="pictures", more="", train=""):
        (self.folder / name).write_text(
            CONFIG.format(format=format, path=path, more=more, train=train))
        return name

    def losses(self, config):
        self.worker("train", config, "--metrics", "metrics.jsonl")
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if line["event"] == "step"], lines

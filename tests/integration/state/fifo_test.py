"""Whatever file a user names: a FIFO that nobody writes to, a folder or a device is refused by name.

Usage: fifo_test.py BIN
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import run, temporary_folder  # noqa: E402

CONFIG = """
model { %s }
data { %s }
optimizer { learning_rate: 0.01 }
train { epochs: 1 batch: 10 %s }
"""
MODEL = 'name: "lenet"'
DATA = 'format: "synthetic" synthetic_images: 100'
IMAGES = "train-images-idx3-ubyte"
BATCH = "data_batch_1.bin"


class FifoTest(unittest.TestCase):
    def setUp(self):
        self.folder = temporary_folder(self)
        self.fifo = self.folder / "fifo"
        os.mkfifo(self.fifo)
        self.others = self.folder / "directory"
        self.others.mkdir()

    def refused(self, program, *words, field="", says="may never end"):
        done = run(processes.BIN / program, *words)  # which a program that waits does not survive
        self.assertIn(done.returncode, (1, 2), (words, done.stdout, done.stderr))
        for part in (field, str(says)):
            self.assertIn(part, done.stderr, words)

    def bad_files(self):
        return ((self.fifo, "may never end"), ("/dev/zero", "may never end"),
                (self.others, "is a directory"))

    def config(self, model=MODEL, data=DATA, train=""):
        path = self.folder / "run.textproto"
        path.write_text(CONFIG % (model, data, train))
        return path

    def test_configurations_and_networks(self):
        for path, says in self.bad_files():
            self.refused("phub-worker", "train", path, "--check", says=says)
            self.refused("phub-server", "--check", "--config", path, says=says)
            self.refused("phub-worker", "train", self.config(model=f'file: "{path}"'), "--check",
                         field="model", says=says)
            self.refused("phub-worker", "model", path, says=says)
            self.refused("phubctl", "job", "create", "--file", path, says=says)

    def test_data_sets(self):
        for kind, name in (("idx", IMAGES), ("idx", IMAGES + ".gz"), ("cifar10", BATCH)):
            for path, says in self.bad_files():
                data = self.folder / "data"
                data.mkdir(exist_ok=True)
                (data / name).unlink(missing_ok=True)
                (data / name).symlink_to(path)
                self.refused("phub-worker", "train", "--local",
                             self.config(data=f'format: "{kind}" path: "{data}"'),
                             field="data.path", says=says)
                (data / name).unlink()

    def test_checkpoints_and_caches(self):
        for path, _ in self.bad_files():
            self.refused("phub-worker", "train", "--local", self.config(train=f'resume: "{path}"'),
                         field=str(path), says="")
            self.refused("phub-worker", "eval", self.config(), "--checkpoint", path,
                         field=str(path), says="")
        kept = run(processes.BIN / "phub-worker", "bench", "lenet", "--steps", "1", "--warm-up",
                   "0", "--batch", "2", "--kernel-cache", self.fifo)
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertIn("give another file", kept.stderr)

    def test_what_is_written(self):
        config = self.config(train="max_steps: 1")
        says = "nobody reads"
        self.refused("phub-worker", "train", "--local", config, "--metrics", self.fifo, says=says)
        self.refused("phub-worker", "profile", "lenet", "--steps", "1", "--warm-up", "0",
                     "--batch", "2", "--trace", self.fifo, field="--trace", says=says)

    def test_metrics_go_to_a_fifo_that_is_read(self):
        with subprocess.Popen(["cat", self.fifo], stdout=subprocess.PIPE, text=True) as reader:
            done = run(processes.BIN / "phub-worker", "train", "--local",
                       self.config(train="max_steps: 2"), "--metrics", self.fifo)
            self.assertEqual(done.returncode, 0, done.stderr)
            events = [json.loads(line)["event"] for line in reader.stdout]
        self.assertEqual(events, ["start", "step", "step", "epoch", "end"])

    def test_training_goes_on_when_its_metrics_are_not_read_to_the_end(self):
        with subprocess.Popen(["head", "-n", "1", self.fifo], stdout=subprocess.DEVNULL):
            done = run(processes.BIN / "phub-worker", "train", "--local",
                       self.config(train='max_steps: 20 checkpoint: "%s"' % (self.folder / "c.safetensors")),
                       "--metrics", self.fifo)
        self.assertIn("has its reader ended", done.stderr)
        self.assertTrue((self.folder / "c.safetensors").exists())

    def test_credentials(self):
        pki = self.folder / "pki"
        made = run(processes.BIN / "phubctl", "pki", "init", pki, "--host", "localhost")
        self.assertEqual(made.returncode, 0, made.stderr)
        for folder, program, words, files in (
                (pki / "server", "phub-server",
                 ("--check", "--state", self.folder / "state", "--credentials"),
                 ("ca.pem", "cert.pem", "key.pem")),
                (pki / "admin", "phubctl", ("job", "list", "--server", "localhost:1",
                                            "--credentials"),
                 ("ca.pem", "cert.pem", "key.pem", "token")),
        ):
            for name in files:
                for path, says in self.bad_files():
                    held = folder / (name + ".held")
                    if (folder / name).exists():
                        (folder / name).rename(held)
                    (folder / name).symlink_to(path)
                    self.refused(program, *words, folder, field="security." if name != "token" else "token",
                                 says=says)
                    (folder / name).unlink()
                    if held.exists():
                        held.rename(folder / name)
        (pki / "ca" / "key.pem").unlink()
        (pki / "ca" / "key.pem").symlink_to(self.fifo)
        self.refused("phubctl", "pki", "issue", pki, "x", "--role", "worker")

    def test_revocations(self):
        pki = self.folder / "pki"
        run(processes.BIN / "phubctl", "pki", "init", pki, "--host", "localhost")
        crls = self.folder / "crls"
        crls.mkdir()
        (crls / "0123abcd.r0").symlink_to(self.fifo)
        config = self.folder / "server.textproto"
        config.write_text(f'state_folder: "{self.folder}/state" '
                          f'security {{ ca: "{pki}/server/ca.pem" certificate: "{pki}/server/cert.pem"'
                          f' key: "{pki}/server/key.pem" crl_folder: "{crls}" }}\n')
        self.refused("phub-server", "--check", "--config", config, field="security.crl_folder")


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

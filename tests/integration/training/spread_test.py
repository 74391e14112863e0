"""Workers that hold a packed set together: what they read, what they learn, and one that dies.

Usage: spread_test.py BIN
"""
import json
import pathlib
import signal
import struct
import subprocess
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run, temporary_folder, until  # noqa: E402
from racks import RacksTest  # noqa: E402

CLASSES, IMAGES = 3, 20  # images of each class: 60 make 4 steps of 15 an epoch
WORKERS, EPOCHS = 3, 4
CONFIG = """
job: "spread" workers: 3
model { file: "net.textproto" }
data { format: "packed" path: "packed" threads: 2 %(spread)s }
optimizer { rule: "%(rule)s" learning_rate: 0.05 }
train { batch: 5 epochs: %(epochs)d threads: 1 evaluate: false checkpoint: "%(name)s.safetensors" }
%(more)s
"""
NETWORK = """
image { channels: 3 height: 16 }
layer { name: "conv" convolution { channels: 8 kernel: 3 padding: 1 } }
layer { name: "relu" relu {} }
layer { name: "pool" global_average_pool {} }
layer { name: "fc" inner_product { outputs: 3 } }
"""


def png(label, number):
    """A PNG file whose size and pixels are this image's own."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    width, height = 20 + number, 24 + label
    rows = b""
    for row in range(height):
        noise = [(row * 7 + column * 13 + number * 29) % 64 for column in range(width)]
        rows += b"\0" + b"".join(bytes(200 + n % 56 if c == label else n for c in range(3)) for n in noise)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_set(folder):
    """A network's description and a packed set; the bytes of the training images."""
    (folder / "net.textproto").write_text(NETWORK)
    of_training = 0
    for split, images in (("train", IMAGES), ("test", 2)):
        for label in range(CLASSES):
            place = folder / "pictures" / split / f"class{label}"
            place.mkdir(parents=True)
            for number in range(images):
                image = png(label, number)
                (place / f"{number:03}.png").write_bytes(image)
                of_training += len(image) if split == "train" else 0
    subprocess.run([processes.BIN / "phub-worker", "data", "pack", "pictures", "packed"], cwd=folder,
                   capture_output=True, timeout=DEADLINE, check=True)
    return of_training


def lines_of(path):
    """The epochs that a worker has told of."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [line for line in lines if line["event"] == "samples"]


class Spread(unittest.TestCase):
    def setUp(self):
        self.folder = temporary_folder(self)
        self.bytes = make_set(self.folder)
        self.workers = []
        self.addCleanup(self.end)

    def end(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.communicate()

    def config(self, name, spread="", epochs=EPOCHS, more="", rule="momentum"):
        path = self.folder / f"{name}.textproto"
        path.write_text(CONFIG % {"name": name, "spread": spread, "epochs": epochs, "more": more, "rule": rule})
        return path

    def server(self, *more):
        server = Server(*more)
        self.addCleanup(server.close)
        return server

    def launch(self, server, config, *more):
        self.workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", server.control, "--index", str(index),
             "--metrics", f"{config.stem}-{index}.jsonl", *more],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(WORKERS)]

    def train(self, server, config, *more):
        """What the workers have said on standard error."""
        self.launch(server, config, *more)
        said = [worker.communicate(timeout=DEADLINE)[1] for worker in self.workers]
        for worker, error in zip(self.workers, said):
            self.assertEqual(worker.returncode, 0, error)
        return said

    def lines(self, name, index):
        return lines_of(self.folder / f"{name}-{index}.jsonl")

    def model(self, name):
        return (self.folder / f"{name}.safetensors").read_bytes()

    def check_epochs(self, name, epochs=EPOCHS):
        """Each epoch has each sample once; the lines of each worker."""
        lines = [self.lines(name, index) for index in range(WORKERS)]
        sums = set()
        for epoch in range(epochs):
            of_epoch = [each[epoch] for each in lines]
            self.assertTrue(all(line["epoch"] == epoch and line["whole"] for line in of_epoch), of_epoch)
            self.assertEqual(sum(line["own"] + line["peer"] + line["source"] for line in of_epoch), CLASSES * IMAGES)
            sums.add(sum(int(line["sum"], 16) for line in of_epoch) % 2 ** 64)
        self.assertEqual(len(sums), 1, "every epoch has the same samples with the same bytes")
        return lines

    def test_three_workers_read_each_byte_once_and_learn_the_same(self):
        self.train(self.server(), self.config("alone"))
        said = self.train(self.server(), self.config("together", "spread { memory_mib: 4 }"))
        for error in said:
            self.assertNotIn("data.spread", error)
        self.assertEqual(self.lines("alone", 0), [])
        lines = self.check_epochs("together")
        last = [each[-1] for each in lines]
        self.assertEqual(sum(line["source_samples"] for line in last), CLASSES * IMAGES)
        self.assertEqual(sum(line["source_bytes"] for line in last), self.bytes)
        for each in lines:
            self.assertTrue(all(line["source"] == 0 for line in each))
            self.assertGreater(sum(line["peer"] for line in each), sum(line["own"] for line in each))
        self.assertEqual(self.model("together"), self.model("alone"))

    def test_between_workers_that_encrypt_it_is_the_same(self):
        config = self.folder / "server.textproto"
        config.write_text('security { tokens: "off" encrypt_data: true }')
        server = self.server("--config", config)
        said = self.train(server, self.config("sealed", "spread { memory_mib: 8 }"), "--transport", "tcp")
        for error in said:
            self.assertNotIn("data.spread", error)
        last = [each[-1] for each in self.check_epochs("sealed")]
        self.assertEqual(sum(line["source_bytes"] for line in last), self.bytes)

    def test_a_run_that_stops_within_an_epoch_goes_on_as_if_it_had_not(self):
        self.train(self.server(), self.config("whole", "spread { memory_mib: 4 }", rule="sgd"))
        server = self.server()
        self.train(server, self.config("half", "spread { memory_mib: 4 }", rule="sgd"), "--max-steps", "6")
        rest = [line["whole"] for line in self.lines("half", 0)]
        self.assertEqual(rest, [True, False])
        config = self.config("half", "spread { memory_mib: 4 }", rule="sgd")
        self.train(server, config, "--resume", self.folder / "half.safetensors")
        # The lines of the first part stay.
        self.assertEqual([line["whole"] for line in self.lines("half", 0)], [True, False, False, True, True])
        self.assertEqual(self.model("half"), self.model("whole"))

    def test_when_all_stop_as_planned_nobody_misses_another(self):
        server = self.server()
        config = self.config("planned", "spread { memory_mib: 4 }", epochs=100000)
        self.launch(server, config)
        until(lambda: all(len(self.lines("planned", index)) > 2 for index in range(WORKERS)), "all train")
        self.workers[1].send_signal(signal.SIGTERM)
        for worker in self.workers:
            error = worker.communicate(timeout=DEADLINE)[1]
            self.assertEqual(worker.returncode, 0, error)
            self.assertNotIn("data.spread", error)

    def test_a_worker_alone_has_a_cache(self):
        config = self.config("cache", "spread { memory_mib: 4 }", more="").read_text().replace("workers: 3", "workers: 1")
        (self.folder / "cache.textproto").write_text(config)
        done = subprocess.run([processes.BIN / "phub-worker", "train", "cache.textproto", "--local", "--metrics",
                               "cache-0.jsonl"], cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        last = self.lines("cache", 0)[-1]
        self.assertEqual((last["own"], last["source_bytes"]), (CLASSES * IMAGES, self.bytes))

    def test_what_is_wrong_is_refused_with_the_field(self):
        for spread, format, said in (
                ("spread { memory_mib: 0 }", "packed", "data.spread.memory_mib"),
                ("spread { }", "packed", "data.spread.memory_mib"),
                ("spread { memory_mib: 4 address: \"nowhere\" }", "packed", "data.spread.address"),
                ("spread { memory_mib: 4 }", "idx", "data.spread: has no effect")):
            config = self.config("wrong", spread)
            config.write_text(config.read_text().replace('"packed" path', f'"{format}" path'))
            done = run(processes.BIN / "phub-worker", "train", config, "--check")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)

    def test_memory_that_links_would_take_is_refused_before_the_job_is_joined(self):
        config = self.config("many", "spread { memory_mib: 1 }")
        config.write_text(config.read_text().replace("workers: 3", "workers: 900").replace("batch: 5", "batch: 1"))
        # Nobody is at that address, so whoever wants to join waits.
        for more in ((), ("--racks", "a:450,b:450"), ("--racks", "a:10,b:890", "--index", "10")):
            done = subprocess.run([processes.BIN / "phub-worker", "train", config, "--server", "127.0.0.1:1", *more],
                                  cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("data.spread.memory_mib: 1 leaves nothing for samples", done.stderr)
            self.assertRegex(done.stderr, r"links to (899|449|889) workers")

    def test_a_worker_without_it_is_named(self):
        server = self.server()
        with_it, without = self.config("with", "spread { memory_mib: 4 }"), self.config("without")
        self.workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", server.control, "--index", str(index)],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for index, config in enumerate((with_it, without, with_it))]
        error = self.workers[0].communicate(timeout=DEADLINE)[1]
        self.assertEqual(self.workers[0].returncode, 2, error)
        self.assertIn("data.spread: worker 1 has none", error)

    def test_a_worker_with_another_set_ends_the_training(self):
        image = self.folder / "pictures" / "train" / "class1" / "003.png"
        image.rename(image.parents[1] / "class2" / "003a.png")
        subprocess.run([processes.BIN / "phub-worker", "data", "pack", "pictures", "other"], cwd=self.folder,
                       capture_output=True, timeout=DEADLINE, check=True)
        server = self.server()
        same, other = self.config("same", "spread { memory_mib: 4 }"), self.config("other", "spread { memory_mib: 4 }")
        other.write_text(other.read_text().replace('path: "packed"', 'path: "other"'))
        self.workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", server.control, "--index", str(index)],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for index, config in enumerate((same, other, same))]
        said = [worker.communicate(timeout=DEADLINE)[1] for worker in self.workers]
        self.assertTrue(all(worker.returncode != 0 for worker in self.workers), said)
        self.assertIn("has another set than this worker", said[1])
        self.assertIn("give all workers of the job the same set", said[1])
        self.assertTrue(any("worker 1 (127.0.0.1 port " in said[index] for index in (0, 2)), said)

    def test_the_others_go_on_without_a_worker_that_is_killed(self):
        server = self.server()
        config = self.config("quorum", "spread { memory_mib: 4 }", epochs=100000,
                             more='order: "arrival" rounds { quorum: 2 grace_ms: 20 }')
        self.launch(server, config)

        def epochs(index):
            return len(self.lines("quorum", index))

        until(lambda: all(epochs(index) > 2 for index in range(WORKERS)), "all train")
        self.workers[2].kill()
        before = [epochs(index) for index in range(2)]
        until(lambda: all(epochs(index) > before[index] + 5 for index in range(2)), "the others train on")
        for index in range(2):
            lines = self.lines("quorum", index)
            self.assertEqual(lines[1]["source"], 0)
            self.assertGreater(lines[-1]["source"], 0)
            self.assertGreater(lines[-1]["own"], 0)
        for worker in self.workers[:2]:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers[:2]:
            error = worker.communicate(timeout=DEADLINE)[1]
            self.assertEqual(worker.returncode, 0, error)
            self.assertIn("data.spread: worker 2 (127.0.0.1 port ", error)
            self.assertEqual(error.count("is asked for no more samples"), 1)


class SpreadRacks(RacksTest):
    def test_each_rack_reads_the_set_once(self):
        of_training = make_set(self.folder)
        self.start_racks("ab")
        config = self.folder / "racks.textproto"
        text = CONFIG % {"name": "racks", "spread": "spread { memory_mib: 4 }", "epochs": EPOCHS, "rule": "momentum",
                         "more": ""}
        config.write_text(text.replace("workers: 3", "workers: 4"))
        self.workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", self.addresses["ab"[index // 2]][0],
             "--index", str(index), "--racks", "a:2,b:2", "--metrics", f"racks-{index}.jsonl"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(4)]
        for worker in self.workers:
            error = worker.communicate(timeout=DEADLINE)[1]
            self.assertEqual(worker.returncode, 0, error)
            self.assertNotIn("data.spread", error)
        lines = [lines_of(self.folder / f"racks-{index}.jsonl") for index in range(4)]
        self.assertEqual([sum(each[-1]["source_bytes"] for each in lines[first:first + 2]) for first in (0, 2)],
                         [of_training, of_training])
        sums = {sum(int(each[epoch]["sum"], 16) for each in lines) % 2 ** 64 for epoch in range(EPOCHS)}
        self.assertEqual(len(sums), 1)
        self.assertTrue(all(line["peer"] > 0 and line["source"] == 0 for each in lines for line in each))


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)

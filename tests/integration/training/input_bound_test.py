#!/usr/bin/env python3
"""Trainings whose input is slow, and one whose input is not, as `phubctl` tells of them.

Usage: input_bound_test.py BIN"""
import pathlib
import re
import shutil
import sys
import urllib.request
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import image_folder
import processes
from processes import until

SIDE = 1500  # of an image that takes a hundred times as long as a step on what is left of it
CONFIG = """
job: "pictures"
model {{ file: "net.textproto" }}
data {{ format: "folder" path: "{path}" threads: 1 {more} }}
optimizer {{ rule: "momentum" learning_rate: 0.001 }}
train {{ batch: 6 epochs: 1000 threads: 1 }}
"""


def large_png():
    """Noise that repeats, so that it is written quickly and has to be inflated."""
    row = b"\0" + bytes(range(0, 250, 5)) * (3 * SIDE // 50)
    return image_folder.png(1, 1, lambda r, c: [0, 0, 0])[:8] + b"".join((
        image_folder.chunk(b"IHDR", SIDE.to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"),
        image_folder.chunk(b"IDAT", zlib.compress(row * SIDE, 1)), image_folder.chunk(b"IEND", b"")))


class InputBound(image_folder.ImageFolder, processes.JobTest):
    server_options = ("--http", "127.0.0.1:0")

    def setUp(self):
        image_folder.ImageFolder.setUp(self)
        processes.JobTest.setUp(self)
        shutil.copytree(self.folder / "pictures", self.folder / "large")
        content = large_png()
        for path in (self.folder / "large" / "train").glob("*/*.png"):
            path.write_bytes(content)

    def config_of(self, path, more=""):
        config = self.folder / f"{path}.textproto"
        config.write_text(CONFIG.format(path=path, more=more))
        return config

    def start_job(self, *configs):
        self.workers = [processes.worker(self.server, index, len(configs), "shm", config=config)
                        for index, config in enumerate(configs)]

    def explained(self, job, topic):
        """What explain says once it finds the topic, and what each worker says then."""
        def found():
            if not self.server.running():
                return None
            said = self.server.ctl("job", "explain", job)
            findings = [each for each in said["findings"] if each["topic"] == topic]
            return (findings[0], said) if findings else None
        return until(found, f"{topic} is found")

    def test_slow_input_of_one_worker_is_named_with_its_cure_and_not_the_worker_that_waits(self):
        self.start_job(self.config_of("pictures"), self.config_of("large"))
        found, said = self.explained("pictures", "input")
        self.assertRegex(found["what"], r"Input is the bound: worker 1 \(.*, pid %d\) waits for its samples \d+\.\d %%"
                         % self.workers[1].pid)
        self.assertRegex(found["what"], r"Each round waits for it: worker 0 \(.*, pid %d\) spends" % self.workers[0].pid)
        self.assertRegex(found["cure"], r"`phub-worker data bench CONFIG`.*data\.threads.*data\.cache\.memory_mib")
        self.assertNotIn("straggler", [each["topic"] for each in said["findings"]])
        fast, slow = said["steps"]
        self.assertTrue(fast["says"] and slow["says"])
        self.assertGreater(slow["input_share"], 0.5)
        self.assertGreater(fast["exchange_share"], 0.5)
        self.assertEqual((slow["input_threads"], slow["samples"]), (1, 6 * slow["steps"]))
        self.assertRegex(self.server.table("job", "explain", "pictures"),
                         r"What the workers say of their last steps:\nWORKER +STEP +INPUT +EXCHANGE +COMPUTE")
        self.assertRegex(self.server.table("job", "inspect", "pictures"), r"WORKER +STEP +INPUT +EXCHANGE +COMPUTE")
        self.assertRegex(self.server.table("top", "--once", "--interval-ms", "100"), r"INPUT")
        with urllib.request.urlopen(f"http://{self.server.http}/metrics") as answer:
            metrics = answer.read().decode()
        shares = {(worker, of): float(share) for worker, of, share in re.findall(
            r'phub_member_step_share\{phub_job="pictures".*worker="(\d)".*of="(\w+)"\} (\S+)', metrics)}
        self.assertEqual(len(shares), 6)
        self.assertGreater(shares["1", "input"], 0.5)
        self.assertGreater(shares["0", "exchange"], 0.5)

    def test_where_samples_come_from_is_told_with_a_cache(self):
        self.start_job(self.config_of("large", 'cache { path: "copies" }'))
        _, said = self.explained("pictures", "input")

        def has_copies():
            return self.server.ctl("job", "explain", "pictures")["steps"][0]["from_disk"] > 0
        until(has_copies, "samples come from copies on the disk")
        self.assertGreater(said["steps"][0]["from_source"], 0)

    def test_a_training_that_computes_is_not_bound_by_its_input(self):
        self.launch(2, "shm", "--batch", "64")
        _, said = self.explained("mnist", "compute")

        def say():
            steps = self.server.ctl("job", "explain", "mnist")["steps"]
            return all(each["says"] and each["steps"] >= 10 for each in steps)
        until(say, "both workers say")
        said = self.server.ctl("job", "explain", "mnist")
        self.assertNotIn("input", [each["topic"] for each in said["findings"]])
        self.assertLess(max(each["input_share"] for each in said["steps"]), 0.1)


if __name__ == "__main__":
    processes.BIN = InputBound.programs = pathlib.Path(sys.argv.pop())
    import unittest
    unittest.main()

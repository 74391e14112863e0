"""How the CPU backend's kernels are chosen, by phub-worker tune, bench, profile and train.

Usage: kernels_test.py BIN
"""
import array
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run  # noqa: E402

CONFIG = """
model { name: "resnet20" }
data { format: "synthetic" synthetic_images: 64 }
train { batch: 4 max_steps: 3 evaluate: false }
"""


class KernelsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "kernels.jsonl"

    def worker(self, *arguments, status=0):
        done = run(processes.BIN / "phub-worker", *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def tuned(self, *arguments):
        done = self.worker("tune", "resnet20", "--backend", "onednn", "--batch", "4", "--json",
                           "--kernel-cache", str(self.cache), *arguments)
        return json.loads(done.stdout), done.stderr

    def test_what_is_tuned_once_is_known_to_every_later_run(self):
        first, said = self.tuned()
        self.assertIn("measuring this processor's kernels", said)
        # Six convolutions and a product, three passes each, but for the data gradient of the first.
        self.assertEqual(len(first["kernels"]), 3 * 7 - 1)
        for choice in first["kernels"]:
            self.assertFalse(choice["known"])
            self.assertIn(choice["kernel"], choice["microseconds"])
            self.assertTrue(any(name.startswith(("nhwc ", "oi ")) for name in choice["microseconds"]))
        second, said = self.tuned()
        self.assertEqual(said, "")
        self.assertTrue(all(choice["known"] for choice in second["kernels"]))
        bench = json.loads(self.worker("bench", "resnet20", "--batch", "4", "--steps", "2", "--kernel-cache",
                                       str(self.cache), "--print-kernels", "--json").stdout)
        self.assertEqual(bench["kernels"], second["kernels"])
        other, _ = self.tuned("--threads", "2")
        self.assertFalse(any(choice["known"] for choice in other["kernels"]))

    def test_a_rule_forces_the_choice(self):
        for rule, prefix in (("onednn", ("nhwc ", "oi ")), ("blocked", "any ")):
            done = self.worker("profile", "resnet20", "--batch", "2", "--steps", "1", "--warm-up", "0", "--kernels",
                               rule, "--print-kernels", "--json", "--peak-gflops", "100")
            kernels = json.loads(done.stdout)["kernels"]
            self.assertTrue(all(choice["known"] and not choice["microseconds"] for choice in kernels))
            self.assertTrue(any(choice["kernel"].startswith(prefix) for choice in kernels))
        table = self.worker("bench", "lenet", "--steps", "1", "--kernels", "own", "--print-kernels").stdout
        self.assertIn("forward fp32 64 x 1x28x28", table)

    def test_an_edited_cache_forces_a_choice(self):
        first, _ = self.tuned()
        lines = self.cache.read_text().splitlines()
        forced = {}
        for index, line in enumerate(lines[1:], start=1):
            choice = json.loads(line)
            choice["kernel"] = next(reversed(choice["microseconds"]))
            forced[choice["operation"]] = choice["kernel"]
            lines[index] = json.dumps(choice)
        self.cache.write_text("\n".join(lines) + "\n")
        said, _ = self.tuned()
        self.assertEqual({choice["operation"]: choice["kernel"] for choice in said["kernels"]}, forced)

    def test_a_run_that_is_repeated_with_the_same_cache_has_the_same_bits(self):
        config = self.folder / "config.textproto"
        config.write_text(CONFIG)
        models = []
        for name in ("a", "b"):
            file = self.folder / f"{name}.safetensors"
            self.worker("train", str(config), "--local", "--kernel-cache", str(self.cache), "--checkpoint", str(file))
            models.append(file.read_bytes())
        self.assertEqual(models[0], models[1])

    def trained_by(self, name, rules):
        """The parameters' bytes after a job of one worker for each rule."""
        config = self.folder / "config.textproto"
        config.write_text(CONFIG)
        server = Server()
        self.addCleanup(server.close)
        model = self.folder / name
        workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", server.control, "--workers", str(len(rules)),
             "--index", str(index), "--kernels", rule, "--checkpoint", model],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index, rule in enumerate(rules)]
        for worker in workers:
            _, errors = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, errors)
        data = model.read_bytes()
        return data[8 + int.from_bytes(data[:8], "little"):]

    def test_workers_of_a_job_may_choose_differently(self):
        alike = self.trained_by("alike", ("onednn", "onednn"))
        mixed = self.trained_by("mixed", ("onednn", "blocked"))
        self.assertNotEqual(alike, mixed)  # kernels differ in the order of their sums
        values = [array.array("f", data[:len(data) // 4 * 4]) for data in (alike, mixed)]
        size = sum(value * value for value in values[0]) ** 0.5
        apart = sum((a - b) ** 2 for a, b in zip(*values)) ** 0.5
        self.assertGreater(size, 1)
        self.assertLess(apart, 1e-3 * size)

    def test_a_cache_that_is_no_cache_is_left_alone_with_one_line(self):
        self.cache.write_text("a letter\n")
        _, said = self.tuned()
        self.assertEqual(self.cache.read_text(), "a letter\n")
        self.assertEqual(said.count("is no cache of measured kernels"), 1)

    def test_what_would_be_ignored_is_refused(self):
        done = self.worker("bench", "lenet", "--backend", "reference", "--kernels", "own", status=2)
        self.assertIn("--kernels", done.stderr)
        done = self.worker("tune", "lenet", "--backend", "onednn", "--tune", status=2)
        self.assertIn("--tune", done.stderr)
        self.worker("bench", "lenet", "--kernels", "fastest", status=2)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    os.environ.pop("PHUB_KERNEL_CACHE", None)
    unittest.main()

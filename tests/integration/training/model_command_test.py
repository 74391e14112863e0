"""Looks at networks with `phub-worker model`, trains one from a description, times steps of one.

Usage: model_command_test.py PATH_OF_PHUB_WORKER
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

WORKER = ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs

NETWORK = """
image { channels: 1 height: 12 }
layer { name: "conv" convolution { channels: 8 kernel: 3 stride: 2 padding: 1 } }
layer { name: "norm" batch_norm { relu: true } }
layer { name: "drop" dropout { ratio: 0.2 } }
layer { name: "fc" inner_product { outputs: 5 } }
"""

CONFIG = """
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 100 }
optimizer { learning_rate: 0.01 }
train { epochs: 1 batch: 10 backend: "%s" checkpoint: "%s"%s }
"""


def run(*arguments, environment=None):
    return subprocess.run([WORKER, *arguments], capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS, env={**os.environ, **(environment or {})})


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class ModelCommand(unittest.TestCase):
    def succeed(self, *arguments):
        done = run("model", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *arguments):
        done = run("model", *arguments)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_errors_are_json_where_it_is_asked_for(self):
        for words, code, status in (
                (["model", "no-such"], "INVALID_ARGUMENT", 2),
                (["bench", "no-such"], "INVALID_ARGUMENT", 2),
                (["bench", "lenet", "--backend", "reference", "--threads", "2"], "INVALID_ARGUMENT", 2),
                (["tune"], "INVALID_ARGUMENT", 2),
                (["profile", "no-such"], "NOT_FOUND", 2),
                (["eval", "no-such.textproto"], "NOT_FOUND", 2),
                (["bench", "lenet", "--steps", "many"], "INVALID_ARGUMENT", 2),
                (["nonsense"], "INVALID_ARGUMENT", 2)):
            done = run(*words, "--json")
            self.assertEqual((done.returncode, done.stdout), (status, ""), words)
            error = json.loads(done.stderr)["error"]
            self.assertEqual(error["code"], code, words)
            plain = run(*words)
            if len(words) > 1 and words[1] != "lenet":
                self.assertEqual(plain.stderr, f"phub-worker: {error['message']}\n")

    def test_lists_models_and_prints_each(self):
        models = json.loads(self.succeed("--list", "--json"))
        listed = self.succeed("--list")
        self.assertGreaterEqual(len(models), 21)
        for model in models:
            self.assertIn(model["model"], listed)
        resnet50 = json.loads(self.succeed("resnet50", "--json"))
        self.assertEqual(resnet50["totals"]["parameter_elements"], 25557032)
        self.assertIn("25,557,032 in 161 tensors", self.succeed("resnet50"))

    def test_a_description_of_a_model_is_that_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "google.textproto", self.succeed("googlenet", "--textproto"))
            self.assertEqual(self.succeed(path, "--json"), self.succeed("googlenet", "--json"))

    def test_options_change_a_model(self):
        small = json.loads(
            self.succeed("resnet18", "--image", "32x48", "--classes", "7", "--json"))
        self.assertEqual(small["input"], [3, 32, 48])
        self.assertEqual(small["layers"][-1]["output"], [7, 1, 1])
        narrow = json.loads(self.succeed("lenet", "--segments", "--wire-type", "bf16", "--json"))
        self.assertEqual(narrow["segments"][0]["type"], "bf16")

    def test_wrong_usage_has_a_cure(self):
        self.assertIn("use one of lenet", self.refused("resnet51"))
        self.assertIn("--list", self.refused())
        self.assertIn("224x224", self.refused("lenet", "--image", "8y8"))
        self.assertIn('layer "features.23": kernel', self.refused("vgg16", "--image", "8x8"))
        self.assertIn("cannot be read", self.refused("no/such.textproto"))
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "net.textproto", NETWORK.replace("kernel: 3", "kernel: 99"))
            self.assertIn('net.textproto:3:48: layer "conv": kernel: 99', self.refused(path))
            self.assertIn("--classes", self.refused(path, "--classes", "3"))

    def test_a_description_is_trained_on_both_backends(self):
        for backend in ("onednn", "reference"):
            with tempfile.TemporaryDirectory() as folder:
                write(folder, "net.textproto", NETWORK)
                checkpoint = os.path.join(folder, "model.safetensors")
                config = write(folder, "train.textproto", CONFIG % (backend, checkpoint, ""))
                done = run("train", config, "--local")
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(checkpoint, "rb") as file:
                    length = int.from_bytes(file.read(8), "little")
                    header = json.loads(file.read(length))
                self.assertEqual(header["conv.weight"]["shape"], [8, 1, 3, 3])
                self.assertEqual(header["norm.running_var"]["shape"], [8])
                self.assertEqual(header["__metadata__"]["model"], "net")

    def test_a_compute_type_that_is_not_offered_is_refused_with_a_cure(self):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "net.textproto", NETWORK)
            for backend, wanted, text in (("onednn", "fp16", "use bf16 or fp32"),
                                          ("onednn", "tf32", "compute_type"),
                                          ("reference", "bf16", 'choose backend "onednn"')):
                config = write(folder, "train.textproto",
                               CONFIG % (backend, "", f' compute_type: "{wanted}"'))
                done = run("train", config, "--local")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("train.compute_type", done.stderr)
                self.assertIn(text, done.stderr)

    def test_a_wrong_description_ends_the_training_before_it_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "net.textproto", NETWORK.replace('"norm"', '"conv"'))
            config = write(folder, "train.textproto", CONFIG % ("onednn", "", ""))
            done = run("train", config, "--local")
            self.assertEqual(done.returncode, 2)
            self.assertIn('layer "conv": name: another layer has it', done.stderr)


class BenchCommand(unittest.TestCase):
    def test_times_steps(self):
        done = run("bench", "lenet", "--batch", "4", "--steps", "3", "--warm-up", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = json.loads(done.stdout)
        self.assertEqual((line["model"], line["batch"], line["steps"]), ("lenet", 4, 3))
        step = line["step_seconds"]
        self.assertTrue(0 < step["min"] <= step["median"] <= step["max"])
        self.assertAlmostEqual(line["images_per_second"], 4 / step["median"])
        parts = sum(line[part + "_seconds"]["min"]
                    for part in ("forward", "loss", "backward", "update"))
        self.assertLessEqual(parts, step["max"])

    def test_prints_a_table_of_a_description(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "net.textproto", NETWORK)
            done = run("bench", path, "--backend", "reference", "--steps", "1", "--warm-up", "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("net on reference, fp32, batch 64, threads 1, 1 steps", done.stdout)

    def test_times_steps_in_mixed_precision_or_says_what_is_missing(self):
        arguments = ("bench", "lenet", "--compute-type", "bf16", "--batch", "4", "--steps", "1", "--json")
        done = run(*arguments)
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout)["compute_type"], "bf16")
        else:  # a processor without AVX-512
            self.assertIn("train.compute_type", done.stderr)
        done = run(*arguments, environment={"DNNL_MAX_CPU_ISA": "AVX2"})
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("would need AVX-512; use fp32", done.stderr)

    def test_no_convolution_falls_back_to_a_scalar_loop(self):
        for isa in ("AVX2", "ALL"):
            done = run("bench", "resnet20", "--batch", "1", "--steps", "1", "--warm-up", "0",
                       environment={"DNNL_MAX_CPU_ISA": isa, "DNNL_VERBOSE": "1"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("convolution,", done.stdout)
            self.assertNotIn("convolution,ref", done.stdout)

    def test_a_batch_beyond_memory_is_named(self):
        bytes_of_addresses = 2 << 30
        for backend in ("onednn", "reference"):
            done = subprocess.run(
                [WORKER, "bench", "resnet50", "--batch", "4096", "--backend", backend],
                capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                      (bytes_of_addresses, bytes_of_addresses)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("train.batch is 4096", done.stderr)

    def test_wrong_usage_has_a_cure(self):
        for arguments, text in (((), "--list"), (("lenot",), "use one of lenet"),
                                (("lenet", "--compute-type", "fp16"), "bf16"),
                                (("lenet", "--compute-type", "bf16", "--backend", "reference"),
                                 "use fp32"),
                                (("lenet", "--backend", "reference", "--threads", "2"),
                                 "leave it out")):
            done = run("bench", *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    WORKER = sys.argv.pop(1)
    unittest.main()

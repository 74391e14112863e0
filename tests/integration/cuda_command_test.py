"""phub-worker's backend `cuda` as a user meets it: without a GPU, with a wrong plug-in, and with one
that runs its executor on the host.

Usage: cuda_command_test.py WORKER SERVER STAND_IN FOREIGN_PLUGIN, all of them paths
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

WORKER = SERVER = STAND_IN = FOREIGN = ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs

CONFIG = """
model { name: "lenet" }
data { format: "synthetic" synthetic_images: 32 }
optimizer { learning_rate: 0.01 }
train { epochs: 1 batch: 16 backend: "cuda" }
"""


def run(*arguments, **environment):
    with tempfile.TemporaryDirectory() as cache:
        everything = {**os.environ, "XDG_CACHE_HOME": cache, **environment}
        return subprocess.run([WORKER, *arguments], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS, env=everything)


class CudaCommand(unittest.TestCase):
    def train(self, *arguments, local=True, **environment):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write(CONFIG)
            file.flush()
            where = ("--local",) if local else ()
            return run("train", file.name, *where, *arguments, **environment)

    def test_without_a_gpu_or_a_plug_in_the_cure_is_told(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        for command in (("bench", "lenet", "--backend", "cuda"), ("tune", "lenet")):
            done = run(*command)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertTrue("nvidia-smi" in done.stderr or "PHUB_CUDA_PLUGIN" in done.stderr,
                            done.stderr)

    def test_a_plug_in_that_is_not_there_or_of_another_build_is_refused(self):
        done = run("bench", "lenet", "--backend", "cuda", PHUB_CUDA_PLUGIN="/nowhere/mine.so")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("/nowhere/mine.so: not there", done.stderr)
        done = run("bench", "lenet", "--backend", "cuda", "--cuda-plugin", FOREIGN)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("built for another phub-worker", done.stderr)

    def test_a_profile_has_every_step_of_the_device(self):
        done = run("profile", "lenet", "--backend", "cuda", "--batch", "4", "--steps", "2", "--json",
                   PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = json.loads(done.stdout)
        passes = [step["pass"] for step in profile["steps"]]
        self.assertEqual(passes, sorted(passes, reverse=True))
        self.assertEqual(set(passes), {"forward", "backward"})
        for step in profile["steps"]:
            self.assertGreater(step["seconds"], 0)
            self.assertGreater(step["bytes"], 0)
            self.assertGreater(step["roof"], 0)
        self.assertGreater(sum(step["flops"] for step in profile["steps"]), 0)
        table = run("profile", "lenet", "--backend", "cuda", "--batch", "4", "--steps", "2",
                    PHUB_CUDA_PLUGIN=STAND_IN)
        for step in profile["steps"]:
            self.assertIn(step["name"], table.stdout)
        for option in (("--server", "127.0.0.1:1"), ("--trace", "/tmp/never-written")):
            refused = run("profile", "lenet", "--backend", "cuda", *option, PHUB_CUDA_PLUGIN=STAND_IN)
            self.assertEqual(refused.returncode, 2, refused.stdout)
            self.assertIn(option[0], refused.stderr)

    def test_a_plug_in_trains_with_the_type_that_fits(self):
        for arguments, compute_type in (((), "bf16"), (("--loss-scale", "128"), "fp16")):
            done = self.train(*arguments, PHUB_CUDA_PLUGIN=STAND_IN)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("test accuracy", done.stdout)
            self.assertIn(f"a stand-in for a GPU, {compute_type}", done.stderr)

    def test_what_is_fused_can_be_forced(self):
        for way, said in (("unfused", "bf16, unfused\n"), ("fused", "bf16\n"), ("tuned", "bf16\n")):
            done = self.train("--fusion", way, PHUB_CUDA_PLUGIN=STAND_IN)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"a stand-in for a GPU, {said}", done.stderr)
        done = self.train("--fusion", "some", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--fusion", done.stderr)
        done = run("bench", "lenet", "--fusion", "fused")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--backend cuda", done.stderr)

    def test_what_makes_no_sense_is_refused(self):
        done = self.train("--compute-type", "fp16", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("loss_scale", done.stderr)
        done = self.train("--device", "3", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("train.device", done.stderr)
        done = run("bench", "lenet", "--backend", "cuda", "--threads", "2")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--threads", done.stderr)

    def test_devices_that_make_no_sense_are_refused_with_the_field(self):
        for devices, field, more in (("0,0", "train.devices: 0", ()), ("0,1,2", "train.batch: 16", ()),
                                     ("0,9", "train.devices: there is no GPU 9", ()),
                                     ("0,1", "train.devices", ("--backend", "onednn"))):
            done = self.train("--devices", devices, *more, PHUB_CUDA_PLUGIN=STAND_IN)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(field, done.stderr)
        done = self.train("--devices", "0,1", "--device", "1", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--device", done.stderr)
        done = run("bench", "lenet", "--backend", "cuda", "--devices", "1,1",
                   PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("train.devices: 1 is listed twice", done.stderr)

    def test_several_gpus_keep_their_parameters_too(self):
        done = run("bench", "lenet", "--backend", "cuda", "--devices", "0,1,2", "--batch", "6",
                   "--steps", "2", "--json", "--warm-up", "1", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("several of them: 3", done.stderr)
        self.assertEqual(json.loads(done.stdout)["batch"], 6)

    def test_a_gpu_alone_keeps_its_parameters_and_tells_whole_steps(self):
        done = run("bench", "lenet", "--backend", "cuda", "--batch", "4", "--steps", "3", "--json",
                   "--warm-up", "1", PHUB_CUDA_PLUGIN=STAND_IN)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["compute_type"], "fp16")
        self.assertIn("step_seconds", result)
        self.assertNotIn("forward_seconds", result)

    def losses(self, *arguments, servers=False):
        """Of each epoch, with the executor of a GPU or with oneDNN."""
        with tempfile.TemporaryDirectory() as folder:
            metrics = os.path.join(folder, "metrics.jsonl")
            done = self.train("--metrics", metrics, *arguments, local=not servers,
                              PHUB_CUDA_PLUGIN=STAND_IN)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(metrics, encoding="utf-8") as file:
                events = [json.loads(line) for line in file]
        return [event["loss"] for event in events if event["event"] == "epoch"]

    def test_training_is_that_of_the_cpu(self):
        own = self.losses("--epochs", "3")
        oracle = self.losses("--epochs", "3", "--backend", "onednn")
        self.assertEqual(len(own), 3)
        for one, other in zip(own, oracle):
            self.assertAlmostEqual(one, other, delta=0.01 * other)

    def test_training_on_several_gpus_is_that_of_the_cpu(self):
        oracle = self.losses("--epochs", "3", "--backend", "onednn")
        for devices in ("0,1", "3,1,2,0"):
            own = self.losses("--epochs", "3", "--devices", devices)
            self.assertEqual(len(own), 3)
            for one, other in zip(own, oracle):
                self.assertAlmostEqual(one, other, delta=0.01 * other, msg=devices)

    def test_through_a_server_gradients_travel_as_the_device_writes_them(self):
        with subprocess.Popen([SERVER, "--control", "127.0.0.1:0"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            try:
                address = re.search(r"control=(\S+)", server.stdout.readline()).group(1)
                for job, more in (("plain", ()), ("half", ("--wire-type", "fp16")),
                                  ("static", ("--wire-type", "fp16", "--loss-scale", "128")),
                                  ("voted", ("--wire-type", "fp16", "--loss-scale", "dynamic")),
                                  ("summed", ("--wire-type", "bf16", "--accumulate", "2"))):
                    runs = {"one": ("cuda",), "cpu": ("onednn",)}
                    if job in ("half", "voted", "summed"):
                        runs["four"] = ("cuda", "--devices", "0,1,2,3")
                    losses = {name: self.losses("--epochs", "2", "--server", address, "--job",
                                                job + name, "--backend", *backend, *more,
                                                servers=True)
                              for name, backend in runs.items()}
                    for name, own in losses.items():
                        for one, other in zip(own, losses["cpu"], strict=True):
                            self.assertAlmostEqual(one, other, delta=0.02 * other,
                                                   msg=f"{job}, {name}")
            finally:
                server.terminate()


if __name__ == "__main__":
    WORKER, SERVER, STAND_IN, FOREIGN = (sys.argv.pop(1) for _ in range(4))
    unittest.main()

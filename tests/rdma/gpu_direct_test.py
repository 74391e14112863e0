#!/usr/bin/env python3
"""train.gpu_direct with whole workers over software RDMA, and a stand-in for a GPU whose memory no CPU
may touch. Usage: gpu_direct_test.py BIN_DIRECTORY STAND_IN_PLUGIN MEMFD_DMABUF, all of them paths

Software RDMA reads no GPU: what it refuses is real. With MEMFD_DMABUF preloaded it takes a file for a
dma-buf, so that the other way runs too, on the same devices.
"""
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import processes  # noqa: E402
from processes import JobTest  # noqa: E402

processes.BIN, STAND_IN, DMABUF = (pathlib.Path(sys.argv.pop(1)) for _ in range(3))
processes.DEADLINE = DEADLINE = 240  # only bounds a failure

CONFIG = """
model { name: "lenet" }
data { format: "synthetic" synthetic_images: 32 }
optimizer { learning_rate: 0.01 }
train { batch: 2 backend: "cuda" max_steps: 3 evaluate: false gpu_direct: "%s" }
"""


class GpuDirect(JobTest):
    server_options = ("--transports", "tcp", "verbs")

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, wanted, job, *more, preload=False):
        """Exit status and standard error of each of two workers, and worker 0's checkpoint."""
        config = self.folder / f"{job}.textproto"
        config.write_text(CONFIG % wanted)
        checkpoint = self.folder / f"{job}.safetensors"
        within = ["env", f"PHUB_CUDA_PLUGIN={STAND_IN}", f"XDG_CACHE_HOME={self.folder}"]
        within += [f"LD_PRELOAD={DMABUF}"] * preload
        self.workers = [processes.worker(self.server, index, 2, "verbs", "--job", job, *more,
                                         "--checkpoint", str(checkpoint), within=within,
                                         config=config) for index in range(2)]
        ended = [(process.communicate(timeout=DEADLINE)[1], process.returncode)
                 for process in self.workers]
        return ended, checkpoint.read_bytes() if checkpoint.exists() else None

    def test_both_ways_train_to_the_same_bits(self):
        ended, through_host = self.train("off", "host", "--wire-type", "fp16")
        for error, status in ended:
            self.assertEqual(status, 0, error)
            self.assertNotIn("gradients go", error)
        ended, direct = self.train("required", "gpu", "--wire-type", "fp16", preload=True)
        for error, status in ended:
            self.assertEqual(status, 0, error)
            self.assertRegex(error, "gradients go from the GPU's memory to the network: rxe[01] "
                                    "by dma-buf")
        self.assertIsNotNone(direct)
        self.assertEqual(direct, through_host)

    def test_what_software_rdma_refuses_is_told_and_gradients_go_through_the_host(self):
        ended, checkpoint = self.train("auto", "refused")
        self.assertIsNotNone(checkpoint)
        for error, status in ended:
            self.assertEqual(status, 0, error)
            self.assertEqual(error.count("gradients go through the host's memory"), 1, error)
            self.assertRegex(error, "rxe[01] cannot read the GPU's memory: no dma-buf: rxe[01] or its "
                                    "driver registers none: Operation not supported; no peer memory: "
                                    ".*Bad address")
        print(ended[0][0], file=sys.stderr)

    def test_required_ends_the_worker_with_what_refused_it_and_the_cure(self):
        ended, checkpoint = self.train("required", "strict")
        self.assertIsNone(checkpoint)
        self.assertTrue(any('train.gpu_direct is "required"' in error and "nvidia-peermem" in error
                            for error, _ in ended), ended)
        self.assertEqual([status for _, status in ended], [1, 1], ended)


if __name__ == "__main__":
    unittest.main(verbosity=2)

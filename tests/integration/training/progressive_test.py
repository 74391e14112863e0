#!/usr/bin/env python3
"""Trainings whose first epochs have smaller images (data.progressive): alone, with copies, and by two workers.

Usage: progressive_test.py BIN"""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import processes  # noqa: E402
from image_folder import CLASSES, TRAIN, ImageFolder  # noqa: E402
from processes import DEADLINE, Server  # noqa: E402

IMAGES = CLASSES * TRAIN
STAGES = "progressive { side: 8 until_epoch: 1 } progressive { side: 12 until_epoch: 3 } "


class Progressive(ImageFolder):
    def test_a_worker_tells_its_stages_and_they_change_what_it_trains_on(self):
        done = self.worker("train", self.config(more=STAGES))
        told = [line.split("images of ")[1] for line in done.stderr.splitlines() if "progressive" in line]
        self.assertEqual(told, ["8 x 8 pixels from epoch 1 on", "12 x 12 pixels from epoch 2 on",
                                "16 x 16 pixels from epoch 4 on"])
        self.assertNotEqual(self.losses(self.config(more=STAGES))[0], self.losses(self.config())[0])

    def test_decoded_images_that_are_kept_serve_all_stages(self):
        wanted, _ = self.losses(self.config(more=STAGES))
        losses, lines = self.losses(self.config(more=STAGES + "cache { memory_mib: 8 }"))
        self.assertEqual(losses, wanted)
        self.assertGreater(sum(line["reads"]["memory"] for line in lines if line["event"] == "epoch"), IMAGES)

    def test_wrong_stages_are_refused_by_name(self):
        for more, text in (
                ("progressive { side: 16 until_epoch: 1 }", "side 16 is not below"),
                ("progressive { side: 8 until_epoch: 4 }", "data.progressive[0].until_epoch"),
                ("progressive { side: 12 until_epoch: 1 } progressive { side: 8 until_epoch: 2 }",
                 "data.progressive[1].side")):
            done = self.worker("train", self.config(more=more), status=2)
            self.assertIn(text, done.stderr)

    def together(self, server, job, more, *arguments):
        """Two workers with half of the batch each: the bytes of the checkpoint of the first one."""
        config = self.config(more=more)
        running = [subprocess.Popen(
            [self.programs / "phub-worker", "train", config, "--server", server.control, "--workers", "2",
             "--index", str(index), "--batch", "3", "--job", job, "--checkpoint", f"{job}.safetensors", *arguments],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(2)]
        for worker in running:
            _, errors = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, errors)
        return (self.folder / f"{job}.safetensors").read_bytes()

    def test_two_workers_train_in_stages_and_give_each_other_their_samples(self):
        server = Server()
        self.addCleanup(server.close)
        alone = self.together(server, "alone", STAGES)
        self.assertEqual(self.together(server, "spread", STAGES + "spread { memory_mib: 16 } threads: 2"), alone)
        self.assertNotEqual(self.together(server, "full", ""), alone)


if __name__ == "__main__":
    ImageFolder.programs = processes.BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

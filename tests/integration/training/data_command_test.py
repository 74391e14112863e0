#!/usr/bin/env python3
"""`phub-worker data` and trainings on image folders and packed files.

Usage: data_command_test.py BIN"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from image_folder import TRAIN, ImageFolder


class DataCommand(ImageFolder):
    def test_a_folder_is_checked_packed_and_shown(self):
        self.assertIn("36 images", self.worker("data", "check", "pictures").stdout)
        packed = json.loads(self.worker("data", "pack", "pictures", "packed", "--json").stdout)
        self.assertEqual([each["samples"] for each in packed["files"]], [36, 12])
        checked = json.loads(self.worker("data", "check", "packed", "--json").stdout)
        self.assertEqual(checked["splits"][0]["classes"][1], {"class": "class1", "images": TRAIN})
        sheets = {}
        for more in ("", "mixup: 0.4"):
            for extra in ((), ("--test",), ("--epoch", "2")):
                shown = self.worker("data", "show", self.config(more=more), "--out", "sheet.png",
                                    *extra).stdout
                self.assertRegex(shown, r"class2 +12 +4\n")
                sheets[more, extra] = (self.folder / "sheet.png").read_bytes()
                self.assertEqual(sheets[more, extra][:8], b"\x89PNG\r\n\x1a\n")
        self.assertNotEqual(sheets["", ()], sheets["mixup: 0.4", ()])
        self.assertEqual(sheets["", ("--test",)], sheets["mixup: 0.4", ("--test",)])

    def test_a_folder_and_its_packed_file_train_alike_with_any_number_of_threads(self):
        self.worker("data", "pack", "pictures", "packed")
        first, lines = self.losses(self.config())
        self.assertLess(first[-1], first[0])
        self.assertGreater(lines[-2]["input_seconds"], 0)
        self.assertGreater(max(line.get("test_accuracy", 0) for line in lines), 0.5)
        jitter = "jitter { brightness: 0.2 contrast: 0.2 saturation: 0.2 }"
        other, _ = self.losses(self.config(more=jitter))
        self.assertNotEqual(first, other)
        for more in ("", "batches_ahead: 0", "threads: 1 batches_ahead: 1", "threads: 3 batches_ahead: 4"):
            again, _ = self.losses(self.config(format="packed", path="packed", more=more))
            self.assertEqual(first, again, more)
        mixed, _ = self.losses(self.config(more="mixup: 0.4"))
        self.assertNotEqual(first, mixed)
        again, _ = self.losses(self.config(more="mixup: 0.4 threads: 3 batches_ahead: 4"))
        self.assertEqual(mixed, again)

    def test_a_damaged_image_is_named_and_counted(self):
        damaged = self.folder / "pictures/train/class1/004.png"
        damaged.write_bytes(damaged.read_bytes()[:60])
        done = self.worker("train", self.config())
        self.assertRegex(done.stderr, r"class1/004\.png: .*another image takes its place")
        done = self.worker("train", self.config(more="damaged_max: 0"), status=1)
        self.assertIn("data.damaged_max (0)", done.stderr)
        damaged.write_bytes(b"neither JPEG nor PNG")
        done = self.worker("data", "check", "pictures", status=1)
        self.assertIn("class1/004.png", done.stdout)
        self.assertIn("1 of 48 images are damaged", done.stderr)

    def test_damage_inside_an_image_is_found_by_check_and_told_by_eval(self):
        self.worker("train", self.config(), "--checkpoint", "model.safetensors")
        damaged = self.folder / "pictures/test/class2/001.png"
        damaged.write_bytes(damaged.read_bytes()[:60])
        done = self.worker("data", "check", "pictures", status=1)
        self.assertIn("class2/001.png", done.stdout)
        done = self.worker("eval", self.config(), "--checkpoint", "model.safetensors")
        self.assertRegex(done.stderr, r"class2/001\.png: .*another image takes its place")

    def test_splits_whose_labels_differ_are_refused(self):
        self.worker("data", "pack", "pictures", "packed")
        for split in ("train", "test"):
            (self.folder / f"pictures/{split}/class0").rename(self.folder / f"pictures/{split}/zebra")
        self.worker("data", "pack", "pictures", "packed", "--split", "test")
        done = self.worker("train", self.config(format="packed", path="packed"), status=2)
        self.assertIn("label 0 is class class0 in the training and class1 in the test", done.stderr)

    def test_an_image_may_be_predicted_and_what_is_none_is_refused(self):
        self.worker("train", self.config(), "--checkpoint", "model.safetensors")
        predict = ("predict", self.config(), "--checkpoint", "model.safetensors")
        done = self.worker(*predict, "pictures/test/class1/000.png", "--json")
        self.assertEqual(json.loads(done.stdout)["images"][0]["classes"][0]["class"], 1)
        for path in (".", "/dev/zero"):
            self.assertIn(path, self.worker(*predict, path, status=2).stderr)

    def test_the_rates_of_all_stages_are_told(self):
        done = self.worker("data", "bench", self.config(), "--seconds", "0.01", "--threads", "1,2",
                           "--json")
        stages = {row["stage"]: row for row in json.loads(done.stdout)["stages"]}
        self.assertEqual(list(stages), ["read", "decode", "view", "batch", "1 thread", "2 threads"])
        self.assertTrue(all(row["images_per_second"] > 0 for row in stages.values()))
        table = self.worker("data", "bench", self.config(more="mixup: 0.4"), "--seconds", "0.01").stdout
        self.assertIn("IMAGES/S", table)

    def test_memory_for_a_training_need_not_be_there_to_look_at_its_images(self):
        plain = self.worker("data", "show", self.config(), "--out", "plain.png").stdout
        for more in ("cache { memory_mib: 1000000000 }", "spread { memory_mib: 1000000000 }"):
            shown = self.worker("data", "show", self.config(more=more), "--out", "sheet.png").stdout
            self.assertEqual(shown.splitlines()[:4], plain.splitlines()[:4])
            done = self.worker("data", "bench", self.config(more=more), "--seconds", "0.01", "--json")
            self.assertTrue(all(row["images_per_second"] > 0 for row in json.loads(done.stdout)["stages"]))
        done = self.worker("train", self.config(more="cache { memory_mib: 1000000000 }"), status=1)
        self.assertIn("data.cache.memory_mib", done.stderr)

    def test_wrong_input_is_refused_by_name(self):
        for config, text in (
                (dict(path="nothing", status=1), "nothing"),
                (dict(more="crop { min_area: 0 }"), "data.crop.min_area"),
                (dict(more="jitter { contrast: 2 }"), "data.jitter.contrast"),
                (dict(more="mean: 0.5"), "data.deviation"),
                (dict(more="mean: 0.5 deviation: 0.5"), "data.mean has 1 numbers"),
                (dict(format="cifar10", more="crop {}"), "data.crop"),
                (dict(format="packed", status=1), "pictures")):
            status = config.pop("status", 2)
            arguments = ("train", self.config(**config))
            done = subprocess.run([self.programs / "phub-worker", *arguments], capture_output=True, text=True,
                                  cwd=self.folder, timeout=300)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr, config)


if __name__ == "__main__":
    ImageFolder.programs = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Trainings with copies of their images: on a disk, decoded in shared memory, and both.

Usage: image_cache_test.py BIN"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from image_folder import CLASSES, TEST, TRAIN, ImageFolder

IMAGES = CLASSES * TRAIN


class ImageCache(ImageFolder):
    def reads(self, lines):
        return [line["reads"] for line in lines if line["event"] == "epoch"]

    def cache(self, *arguments, status=0):
        return json.loads(self.worker("cache", *arguments, "--json", status=status).stdout)

    def test_copies_on_a_disk_are_read_in_place_of_the_set(self):
        wanted, lines = self.losses(self.config())
        self.assertNotIn("reads", lines[-2])
        cached = 'cache { path: "copies" }'
        first, lines = self.losses(self.config(more=cached))
        self.assertEqual(first, wanted)
        reads = self.reads(lines)
        self.assertGreaterEqual(sum(each["source"] for each in reads), IMAGES)
        self.assertGreater(sum(each["disk"] for each in reads), 0)
        again, lines = self.losses(self.config(more=cached))
        self.assertEqual(again, wanted)
        self.assertEqual(sum(each["source"] for each in self.reads(lines)), 0)
        shown = self.worker("train", self.config(more=cached)).stdout
        self.assertRegex(shown, r"epoch 1/4 .*  cache 100 %")
        listed = self.cache("list", "copies")["stores"]
        self.assertEqual(sorted(each["kept"] for each in listed), [CLASSES * TEST, IMAGES])
        self.assertTrue(any(each["set"].endswith("pictures, folder, train") for each in listed))
        self.assertFalse(any(each["in_use"] for each in listed))

    def test_a_damaged_copy_is_told_by_verify_and_read_from_the_set(self):
        more = 'cache { path: "copies" }'
        wanted, _ = self.losses(self.config(more=more))
        self.assertTrue(all(not store["damaged"] for store in self.cache("verify", "copies")["stores"]))
        for file in self.folder.glob("copies/*/data"):
            content = bytearray(file.read_bytes())
            content[100] ^= 1
            file.write_bytes(content)
        done = self.worker("cache", "verify", "copies", status=1)
        self.assertRegex(done.stdout, r"1 damaged\n  image \d+")
        self.assertIn("2 images or stores are damaged", done.stderr)
        again, lines = self.losses(self.config(more=more))
        self.assertEqual(again, wanted)
        self.assertGreater(sum(each["source"] for each in self.reads(lines)), 0)
        self.assertEqual(len(self.cache("clear", "copies")["removed"]), 2)
        self.assertEqual(self.cache("list", "copies")["stores"], [])

    def test_another_set_is_another_store(self):
        more = 'cache { path: "copies" }'
        self.losses(self.config(more=more))
        (self.folder / "pictures/train/class0/000.png").rename(
            self.folder / "pictures/train/class0/500.png")
        _, lines = self.losses(self.config(more=more))
        self.assertGreaterEqual(self.reads(lines)[0]["source"], IMAGES)
        self.assertEqual(len(self.cache("list", "copies")["stores"]), 3)

    def test_decoded_images_in_shared_memory_change_nothing_and_go_with_the_worker(self):
        wanted, _ = self.losses(self.config())
        for cache in ("memory_mib: 8", 'memory_mib: 8 path: "copies"'):
            losses, lines = self.losses(self.config(more=f"cache {{ {cache} }}"))
            self.assertEqual(losses, wanted)
            self.assertGreater(sum(each["memory"] for each in self.reads(lines)), IMAGES)
        stores = self.cache("list")["stores"]
        self.assertFalse([each for each in stores if str(self.folder) in each["set"]])

    def test_a_folder_that_is_not_there_is_told(self):
        for command in ("list", "verify", "clear"):
            done = self.worker("cache", command, "mistyped", status=1)
            self.assertIn("there is no folder mistyped", done.stderr)

    def test_wrong_caches_are_refused_by_name(self):
        for more, text in (
                ("cache {}", "data.cache.path"),
                ("cache { memory_mib: 4 disk_mib: 5 }", "data.cache.disk_mib"),
                ('cache { path: "copies" decoded_side: 64 }', "data.cache.decoded_side"),
                ("cache { memory_mib: 4 decoded_side: 8 }", "give at least 16, or 0"),
                ('cache { path: "copies" disk_mib: 0 }', "data.cache.disk_mib"),
                ("cache { memory_mib: 1000000000 }", "data.cache.memory_mib")):
            done = subprocess.run([self.programs / "phub-worker", "train", self.config(more=more)],
                                  capture_output=True, text=True, cwd=self.folder, timeout=60)
            self.assertIn(done.returncode, (1, 2), more)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    ImageFolder.programs = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

#!/usr/bin/env python3
"""`phub-worker train` and `data` on tar archives and TFRecords of a web server.

Usage: web_shards_test.py BIN"""
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import processes
import web_files
from image_folder import ImageFolder

SHARDS = {"train": 3, "val": 2}


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, content):
    """A field of bytes in protobuf's format."""
    length, size = len(content), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


def record(image, label):
    """A tf.train.Example as a record."""
    features = b"".join(
        field(1, field(1, name) + field(2, value)) for name, value in (
            (b"image/encoded", field(1, field(1, image))),
            (b"image/class/label", field(3, b"\x08" + bytes([label])))))
    example = field(1, features)
    length = struct.pack("<Q", len(example))
    return length + masked_crc32c(length) + example + masked_crc32c(example)


def write_tar(path, samples):
    with tarfile.open(path, "w") as tar:
        for key, image, label in samples:
            for name, content in ((f"{key}.cls", str(label).encode()), (f"{key}.png", image)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def write_shards(pictures, tars, records):
    """The pictures as tar archives in one folder, and as TFRecords in another one."""
    for folder in (tars, records):
        folder.mkdir()
    for split, shards in SHARDS.items():
        images = sorted((pictures / {"val": "test"}.get(split, split)).glob("*/*.png"))
        samples = [(f"{i:04}", image.read_bytes(), int(image.parent.name[-1]))
                   for i, image in enumerate(images)]
        for shard in range(shards):
            write_tar(tars / f"{split}-{shard:06}.tar", samples[shard::shards])
            (records / f"{split}-{shard:05}-of-{shards:05}").write_bytes(
                b"".join(record(image, label) for _, image, label in samples[shard::shards]))


class WebShards(ImageFolder):
    def setUp(self):
        super().setUp()
        write_shards(self.folder / "pictures", self.folder / "tars", self.folder / "records")
        self.web = web_files.WebFiles(self.folder)
        self.addCleanup(self.web.close)
        self.tars = self.url("tars/train-{000000..000002}.tar", "tars/val-{000000..000001}.tar")
        self.records = self.url("records/train-{00000..00002}-of-00003",
                                "records/val-{00000..00001}-of-00002")

    def url(self, *paths):
        return "::".join(self.web.url(path) for path in paths)

    def worker(self, *arguments, status=0):
        done = subprocess.run([self.programs / "phub-worker", *arguments], capture_output=True,
                              text=True, cwd=self.folder, timeout=300,
                              env=dict(os.environ, no_proxy="*"))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn("secret", done.stdout + done.stderr)
        return done

    def trained(self, format, path, more=""):
        """The losses of all steps, the sums of all samples, and the parameters of the end."""
        config = self.config(format=format, path=path, more=more)
        self.worker("train", "--local", config, "--metrics", "metrics.jsonl", "--checkpoint",
                    "end.safetensors")
        lines = [json.loads(line)
                 for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        losses = [line["loss"] for line in lines if line["event"] == "step"]
        sums = [line["sum"] for line in lines if line["event"] == "samples"]
        self.assertGreater(len(losses), 10)
        return losses, sums, (self.folder / "end.safetensors").read_bytes()

    def refused(self, text, status, path=None, format="webdataset"):
        done = self.worker("train", "--local", self.config(format=format, path=path or self.tars),
                           status=status)
        self.assertRegex(done.stderr, text)
        self.assertNotIn("takes its place", done.stderr)

    def test_a_training_from_shards_of_a_server_is_that_from_their_folder(self):
        spread, memory = "spread { memory_mib: 16 }", "cache { memory_mib: 16 }"
        for format, folder, urls in (("webdataset", "tars", self.tars),
                                     ("tfrecord", "records", self.records)):
            for more in ("", spread, memory):
                with self.subTest(format=format, more=more):
                    here = self.trained(format, folder, more)
                    self.assertEqual(bool(here[1]), more == spread)
                    self.assertEqual(here, self.trained(format, urls, more))
        self.web.server.fails = lambda request: request % 20 == 0
        self.assertEqual(here, self.trained("tfrecord", urls, memory))

    def test_workers_hold_a_set_together_from_a_server_and_from_files(self):
        server = processes.Server()
        self.addCleanup(server.close)
        config = self.config(format="webdataset", path="tars", more="spread { memory_mib: 8 }")
        workers = [subprocess.Popen(
            [self.programs / "phub-worker", "train", config, "--server", server.control, "--workers", "2",
             "--data", path, "--metrics", f"{index}.jsonl"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, no_proxy="*")) for index, path in enumerate(("tars", self.tars))]
        for worker in workers:
            self.addCleanup(worker.kill)
        for worker in workers:
            error = worker.communicate(timeout=processes.DEADLINE)[1]
            self.assertEqual(worker.returncode, 0, error)
            self.assertNotIn("data.spread", error)
        lines = [[line for line in map(json.loads, (self.folder / f"{i}.jsonl").read_text().splitlines())
                  if line["event"] == "samples"] for i in range(2)]
        sums = {(int(one["sum"], 16) + int(other["sum"], 16)) % 2 ** 64 for one, other in zip(*lines)}
        self.assertEqual(len(sums), 1)
        self.assertEqual(sum(each[-1]["source_samples"] for each in lines), 36)
        self.assertTrue(all(each[-1]["peer"] > 0 for each in lines))

    def test_an_index_is_kept_beside_the_copies_of_images(self):
        more = 'cache { path: "copies" }'
        path = self.tars.replace("://", "://user:secret@").replace(".tar", ".tar?secret")

        def requests():
            before = self.web.server.requests
            self.assertEqual(self.trained("webdataset", path, more), wanted)
            return self.web.server.requests - before
        wanted = self.trained("webdataset", "tars")
        self.assertGreater(requests(), 36 + 12)
        shards = sum(SHARDS.values())
        self.assertEqual(requests(), shards)  # each is asked whether it is still the same
        listed = json.loads(self.worker("cache", "list", "copies", "--json").stdout)["stores"]
        indexes = [store for store in listed if store["set"].endswith(", index")]
        self.assertEqual(sorted(store["kept"] for store in indexes), sorted(SHARDS.values()))
        self.assertEqual(len(listed), 4)
        for file in self.folder.glob("copies/*-index/data"):
            content = bytearray(file.read_bytes())
            content[20] ^= 1  # in the first index that is kept
            file.write_bytes(content)
        self.assertGreater(requests(), shards)
        self.assertEqual(requests(), shards)
        os.utime(self.folder / "tars/train-000000.tar", ns=(1, 1))
        self.assertGreater(requests(), shards + 36)
        self.assertEqual(requests(), shards)

    def test_shards_of_a_server_are_checked_packed_and_shown(self):
        for path in (self.tars, self.records):
            checked = json.loads(self.worker("data", "check", path, "--json").stdout)
            self.assertEqual([split["images"] for split in checked["splits"]], [36, 12])
            self.assertEqual([split["opened"]["shards"] for split in checked["splits"]], [3, 2])
        self.assertRegex(self.worker("data", "check", "tars").stdout,
                         r"train: opened by reading [\d.]+ MB of 3 shards\ntrain: 36 images")
        self.worker("data", "pack", self.tars, "from_web")
        self.worker("data", "pack", "tars", "from_files")
        self.assertEqual(self.trained("packed", "from_web"), self.trained("packed", "from_files"))
        config = self.config(format="webdataset", path=self.tars)
        self.assertRegex(self.worker("data", "show", config).stdout, r"2 +12 +4\n")

    def test_a_server_that_fails_ends_a_training_and_says_where(self):
        second = "val-000001.tar"
        for fault, text, status in (
                (404, "val-000001.tar, bytes 0-0, after 1 try: .* status 404", 1),
                (403, "val-000001.tar, bytes 0-0, after 1 try: .* status 403: it wants other cred", 1),
                ("lie", r"val-000001.tar, bytes \d+-\d+, after 1 try: the server sends bytes 1-", 1),
                ("cut", r"val-000001.tar, bytes \d+-\d+, after 5 tries: ", 1)):
            with self.subTest(fault=fault):
                self.web.server.fault = lambda name, fault=fault: fault if name == second else None
                self.refused(text, status)
        self.web.server.fault = lambda name: None
        self.web.server.has_ranges = False
        self.refused("status 200 to a range request, which wants 206", 2)

    def test_a_server_that_goes_ends_a_training(self):
        self.web.server.fails = lambda request: request > 60
        self.refused(r"/tars/\w+-\d+\.tar, bytes \d+-\d+, after 5 tries: .* status 503", 1)

    def test_a_shard_that_changes_meanwhile_is_not_read(self):
        shard = self.folder / "tars/train-000001.tar"

        def changes(request):
            if request == 40:  # while the training reads samples
                os.utime(shard, ns=(1, 1))
            return False
        self.web.server.fails = changes
        config = self.config(format="webdataset", path=self.tars, more="damaged_max: 0")
        done = self.worker("train", "--local", config, status=1)
        self.assertIn("train-000001.tar", done.stderr)
        self.assertIn("has changed since the set was opened", done.stderr)

    def test_damaged_shards_of_a_server_are_named_with_the_offset(self):
        shard = self.folder / "tars/train-000002.tar"
        whole = shard.read_bytes()
        shard.write_bytes(whole[:5000])
        self.refused(r"train-000002.tar is damaged at offset \d+: ", 1)
        shard.write_bytes(whole[:512] + b"x" * 512 + whole[1024:])
        self.refused("train-000002.tar, offset 512: member .* is no decimal number", 2)
        shard = self.folder / "records/train-00001-of-00003"
        whole = bytearray(shard.read_bytes())
        whole[100] ^= 1
        shard.write_bytes(whole)
        done = self.worker("data", "check", self.records, status=1)
        self.assertRegex(done.stdout, "train-00001-of-00003 is damaged at offset 12: the record's che")

    def test_what_is_wrong_with_the_urls_is_told_without_their_secrets(self):
        url = self.web.url("tars/{}").replace("://", "://user:secret@") + "?secret"
        self.refused("data.path: has braces at character .*write {000000", 2,
                     url.format("train-{1..secret}.tar"))
        self.refused("data.path: names more than 65536 URLs", 2, url.format("train-{0..99999}.tar"))
        self.refused(r"train-000000.tar\?... has no shard of the split test; join", 1,
                     url.format("train-000000.tar"))
        self.refused(r"tars/\?... does not end in .tar; name the shards", 2, url.format(""))
        self.refused("none of the words train, test, val and val.*put #train", 2, url.format("0.tar"))


if __name__ == "__main__":
    ImageFolder.programs = processes.BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)

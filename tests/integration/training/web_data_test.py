#!/usr/bin/env python3
"""`phub-worker train` and `data` on packed files of a web server.

Usage: web_data_test.py BIN"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import web_files
from image_folder import ImageFolder


class WebData(ImageFolder):
    def setUp(self):
        super().setUp()
        self.worker("data", "pack", "pictures", "packed")
        self.web = web_files.WebFiles(self.folder)
        self.addCleanup(self.web.close)

    def worker(self, *arguments, status=0, **environment):
        done = subprocess.run([self.programs / "phub-worker", *arguments], capture_output=True, text=True,
                              cwd=self.folder, timeout=300,
                              env=dict(os.environ, no_proxy="*", **environment))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def trained(self, path, **environment):
        """The losses of all steps, and the parameters of the end."""
        config = self.config(format="packed", path=path)
        self.worker("train", "--local", config, "--metrics", "metrics.jsonl", "--checkpoint",
                    "end.safetensors", **environment)
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        losses = [line["loss"] for line in map(json.loads, lines) if line["event"] == "step"]
        self.assertGreater(len(losses), 10)
        return losses, (self.folder / "end.safetensors").read_bytes()

    def test_a_training_from_a_server_is_that_from_its_folder(self):
        here = self.trained("packed")
        self.assertEqual(here, self.trained(self.web.url("packed")))
        self.web.server.fails = lambda request: request % 20 == 0
        self.assertEqual(here, self.trained(self.web.url("packed/?name=secret")))

    def test_a_training_ends_where_its_server_does_and_takes_no_other_images(self):
        self.web.server.fails = lambda request: request > 60
        config = self.config(format="packed", path=self.web.url("packed"))
        done = self.worker("train", "--local", config, status=1)
        self.assertRegex(done.stderr, r"/t\w+\.phub, bytes \d+-\d+, after 5 tries: .* status 503")
        self.assertNotIn("takes its place", done.stderr)

    def test_copies_of_a_server_are_read_without_it_and_its_secrets_are_not_kept(self):
        url = self.web.url("packed/?key=secret").replace("://", "://user:secret@")
        more = 'cache { path: "copies" }'

        def losses():
            return self.losses(self.config(format="packed", path=url, more=more))
        wanted, _ = self.losses(self.config(format="packed", path="packed"))
        self.assertEqual(losses()[0], wanted)
        requests = self.web.server.requests
        again, lines = losses()
        self.assertEqual(again, wanted)
        epochs = [line["reads"] for line in lines if line["event"] == "epoch"]
        self.assertEqual(sum(each["source"] for each in epochs), 0)
        self.assertLess(self.web.server.requests - requests, 12)  # what opening takes
        listed = self.worker("cache", "list", "copies").stdout
        self.assertIn("packed, train", listed)
        for file in self.folder.glob("copies/*/about"):
            self.assertNotIn("secret", file.read_text())
        self.assertNotIn("secret", listed)
        # A folder with the same packed files has the same copies.
        _, lines = self.losses(self.config(format="packed", path="packed", more=more))
        self.assertEqual(sum(line["reads"]["source"] for line in lines if line["event"] == "epoch"), 0)

    def test_a_training_over_tls_wants_a_certificate_that_is_known(self):
        key = self.folder / "key.pem"
        certificate = web_files.make_certificate(key)
        web = web_files.WebFiles(self.folder, key)
        self.addCleanup(web.close)
        here = self.trained("packed")
        self.assertEqual(here, self.trained(web.url("packed"), SSL_CERT_FILE=str(certificate)))
        done = self.worker("data", "check", web.url("packed"), status=2)
        self.assertRegex(done.stderr, r"after 1 try: .*certificate.*SSL_CERT_FILE")

    def test_a_set_on_a_server_is_checked_packed_and_shown(self):
        checked = json.loads(self.worker("data", "check", self.web.url("packed"), "--json").stdout)
        self.assertEqual([split["images"] for split in checked["splits"]], [36, 12])
        self.assertIn("12 images", self.worker("data", "check", self.web.url("packed/test.phub"),
                                               "--split", "test").stdout)
        self.worker("data", "pack", self.web.url("packed"), "again")
        done = self.worker("data", "pack", "pictures", self.web.url("new"), status=2)
        self.assertIn("OUT: is a URL", done.stderr)
        self.assertEqual(self.trained("packed"), self.trained("again"))
        config = self.config(format="packed", path=self.web.url("packed"))
        self.assertRegex(self.worker("data", "show", config).stdout, r"class2 +12 +4\n")

    def test_what_is_wrong_is_told_with_the_url_and_without_its_secrets(self):
        def refused(path, text, status, format="packed"):
            config = self.config(format=format, path=path)
            done = self.worker("train", "--local", config, status=status)
            self.assertIn(text, done.stderr)
            self.assertNotIn("secret", done.stdout + done.stderr)
        url = self.web.url("packed")
        refused(url, "data.path: is a URL, and format \"folder\"", 2, format="folder")
        refused("s3://secret/x", "data.path: is a URL of scheme \"s3\"", 2)
        refused(self.web.url("nowhere?secret"), "nowhere/train.phub?..., bytes 0-0, after 1 try: ", 1)
        refused(url.replace("//", "//user:secret@") + "x", "packedx/train.phub, bytes 0-0", 1)
        self.web.server.has_ranges = False
        refused(url, "200 to a range request, which wants 206", 2)


if __name__ == "__main__":
    ImageFolder.programs = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)

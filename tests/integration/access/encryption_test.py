"""Training over the encrypted data plane with real processes.

Usage: encryption_test.py BIN
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, find, run  # noqa: E402


class EncryptionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def server(self, security, more=""):
        path = self.folder / "server.textproto"
        path.write_text((f"security {{ {security} }}\n" if security else "") + more)
        server = Server("--config", path)
        self.addCleanup(server.close)
        return server

    def config(self, security):
        path = self.folder / "worker.textproto"
        text = processes.CONFIG.read_text().replace(
            '"data/mnist10k"', f'"{processes.CONFIG.parent / "data" / "mnist10k"}"')
        path.write_text(text + (f"security {{ {security} }}\n" if security else ""))
        return path

    def train(self, server, name, *more, config=processes.CONFIG, steps="25"):
        """Two workers' training; the checkpoint's hash."""
        checkpoint = self.folder / name
        workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", server.control, "--workers",
             "2", "--index", str(i), "--transport", "tcp", "--max-steps", steps, "--job", name,
             *(("--checkpoint", checkpoint) if i == 0 else ()), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(2)]
        self.addCleanup(lambda: [p.kill() for p in workers if p.poll() is None])
        for process in workers:
            _, error = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, error)
        return hashlib.sha256(checkpoint.read_bytes()).hexdigest()

    def test_encrypted_training_has_the_bits_of_plain_training(self):
        plain = self.train(self.server(""), "plain")
        server = self.server('tokens: "off" encrypt_data: true')
        self.assertEqual(self.train(server, "encrypted"), plain)
        self.assertIn("encrypted (AES-128-GCM)", server.table("server", "stats"))
        self.assertTrue(find(server.ctl("server", "stats"), "encrypts_data"))
        members = find(server.ctl("job", "inspect", "encrypted"), "members")
        reasons = [member["transport_reason"] for member in members]
        self.assertEqual(reasons, ["as asked for; encrypted (AES-128-GCM)"] * 2)
        self.assertEqual(set(server.drops().values()), {0})

    def test_encrypted_compressed_training_has_the_bits_of_plain_one(self):
        plain, sealed = self.server(""), self.server('tokens: "off" encrypt_data: true')
        for encoding in ("sparse", "int4"):
            self.assertEqual(self.train(sealed, encoding, "--compress", encoding),
                             self.train(plain, encoding, "--compress", encoding))
        self.assertEqual(set(sealed.drops().values()), {0})

    def test_with_tls_and_tokens_workers_that_require_encryption_train(self):
        pki = self.folder / "pki"
        made = run(processes.BIN / "phubctl", "pki", "init", pki, "--host", "localhost")
        self.assertEqual(made.returncode, 0, made.stderr)
        server = self.server('encrypt_data: true ca: "pki/server/ca.pem" '
                             'certificate: "pki/server/cert.pem" key: "pki/server/key.pem"',
                             'state_folder: "state"')
        issued = run(processes.BIN / "phubctl", "--server", server.control, "--credentials",
                     pki / "admin", "tenant", "token", "create", "default", "--save",
                     pki / "worker" / "token")
        self.assertEqual(issued.returncode, 0, issued.stderr)
        self.train(server, "tls", "--credentials", pki / "worker",
                   config=self.config("require_encryption: true"), steps="5")

    def test_a_worker_that_requires_encryption_ends_before_a_plain_server(self):
        server = self.server("")
        process = subprocess.run(
            [processes.BIN / "phub-worker", "train", self.config("require_encryption: true"),
             "--server", server.control, "--transport", "tcp"],
            capture_output=True, text=True, timeout=DEADLINE)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("require_encryption", process.stderr)
        self.assertIn("encrypt_data: true", process.stderr)

    def test_a_server_does_not_tell_keys_in_plain(self):
        path = self.folder / "wrong.textproto"
        path.write_text('control_address: "0.0.0.0:0"\n'
                        'security { tokens: "off" allow_plaintext: true encrypt_data: true }\n')
        started = run(processes.BIN / "phub-server", "--config", path)
        self.assertEqual(started.returncode, 2)
        self.assertIn("security.encrypt_data: needs TLS", started.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main()

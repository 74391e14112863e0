#!/usr/bin/env python3
"""A server's certificates while it runs: replaced, expiring, revoked. Usage: certificates_test.py BIN"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run, until  # noqa: E402
from secured import SecuredTest  # noqa: E402

processes.BIN = pathlib.Path(sys.argv.pop(1))

AUTHORITY = """
[ca]
default_ca = lab
[lab]
database = {folder}/index
crlnumber = {folder}/number
default_md = sha256
default_crl_days = 30
"""


def phubctl(*words):
    done = run(processes.BIN / "phubctl", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Authority:
    """Revokes certificates of a CA's folder, by the openssl program."""

    def __init__(self, folder, ca):
        self.folder, self.ca = folder, ca
        folder.mkdir()
        (folder / "index").touch()
        (folder / "number").write_text("01\n", encoding="utf-8")
        (folder / "config").write_text(AUTHORITY.format(folder=folder), encoding="utf-8")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=DEADLINE)

    def ca_command(self, *words):
        self.openssl("ca", "-config", self.folder / "config", "-cert", self.ca / "cert.pem",
                     "-keyfile", self.ca / "key.pem", *words)

    def publish(self, folder, *revoked):
        """A list of revocations in `folder`, which holds no other."""
        for certificate in revoked:
            self.ca_command("-revoke", certificate)
        self.ca_command("-gencrl", "-out", self.folder / "crl.pem")
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        shutil.copy(self.folder / "crl.pem", folder / "crl.pem")
        self.openssl("rehash", folder)


class Certificates(SecuredTest):
    def write_config(self, security=""):
        config = self.folder / "server.textproto"
        config.write_text(
            'security { ca: "pki/server/ca.pem" certificate: "pki/server/cert.pem" '
            f'key: "pki/server/key.pem" {security} }}\n'
            'state_folder: "state"\nhttp_address: "127.0.0.1:0"\n', encoding="utf-8")
        return config

    def start_server(self, control="127.0.0.1:0", security=""):
        """With its log in a file."""
        self.log = self.folder / "server.log"
        with open(self.log, "w", encoding="utf-8") as log:
            return Server("--config", self.write_config(security), control=control, log=log,
                          level="info")

    def restart(self, security=""):
        self.server.close()
        self.server = self.start_server(security=security)

    def said(self, words):
        return words in self.log.read_text(encoding="utf-8")

    def answers(self, name="admin"):
        return self.ctl(self.pki / name, "job", "list").returncode == 0

    def served_serial(self):
        port = self.server.control.rsplit(":", 1)[1]
        shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}"], input="",
                               capture_output=True, text=True, timeout=DEADLINE).stdout
        serial = subprocess.run(["openssl", "x509", "-noout", "-serial"], input=shown,
                                capture_output=True, text=True, timeout=DEADLINE)
        return serial.stdout

    def test_half_of_a_new_pair_is_not_taken_and_the_whole_is(self):
        old = self.served_serial()
        phubctl("pki", "issue", self.pki, "next", "--role", "server", "--host", "localhost",
                "--host", "127.0.0.1")
        shutil.copy(self.pki / "next/cert.pem", self.pki / "server/cert.pem")
        until(lambda: self.said("event=tls_not_reloaded"), "the half is noticed")
        self.assertTrue(self.said("is not the key of"))
        self.assertEqual(self.served_serial(), old)
        shutil.copy(self.pki / "next/key.pem", self.pki / "server/key.pem")
        until(lambda: self.served_serial() != old, "the new pair is served")
        self.assertTrue(self.answers())

    def test_a_hangup_reads_the_files_again_and_ends_nothing(self):
        for _ in range(3):
            self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.log.read_text(encoding="utf-8").count("name=HUP") >= 1, "it is heard")
        self.assertTrue(self.answers())
        self.assertIsNone(self.server.process.poll())

    def test_a_key_that_others_may_read_is_warned_of(self):
        self.assertFalse(self.said("event=key_is_open"))
        os.chmod(self.pki / "server/key.pem", 0o640)
        self.restart()
        until(lambda: self.said("event=key_is_open"), "the log's thread writes it")
        self.assertTrue(self.said("mode=640"))

    def test_a_state_and_a_token_that_others_may_read_are_warned_of(self):
        self.assertFalse(self.said("_is_open"))
        os.chmod(self.folder / "state", 0o777)
        os.chmod(self.folder / "state/admin.token", 0o644)
        self.restart()
        for words in ("event=state_is_open", "mode=777", "chmod 700", "event=token_is_open", "mode=644"):
            until(lambda: self.said(words), words)

    def test_an_expiry_that_is_near_is_warned_of_and_every_one_is_a_metric(self):
        self.assertFalse(self.said("event=certificate_expires"))
        phubctl("pki", "issue", self.pki, "short", "--role", "server", "--host", "localhost",
                "--host", "127.0.0.1", "--days", "2")
        for name in ("cert.pem", "key.pem"):
            shutil.copy(self.pki / "short" / name, self.pki / "server" / name)
        until(lambda: self.said("event=certificate_expires what=certificate"), "it is said")
        token = (self.folder / "state/admin.token").read_text(encoding="utf-8").strip()
        request = urllib.request.Request(f"https://{self.server.http}/metrics",
                                         headers={"Authorization": f"Bearer {token}"})
        context = processes.unverified()
        text = urllib.request.urlopen(request, timeout=DEADLINE, context=context).read().decode()
        self.assertIn('phub_certificate_expires_seconds{certificate="certificate"}', text)
        self.assertIn('phub_certificate_expires_seconds{certificate="ca"}', text)
        shown = self.ctl(self.pki / "admin", "server", "stats").stdout
        self.assertRegex(shown, r"(?m)^CERTIFICATE +EXPIRES +IN DAYS\ncertificate +20.* 1\nca +20.* [1-9][0-9]+$")

    def test_a_revoked_certificate_is_refused_and_one_in_use_ends_with_its_connection(self):
        authority = Authority(self.folder / "authority", self.pki / "ca")
        crls = self.folder / "crls"
        authority.publish(crls)
        self.restart('crl_folder: "crls" connection_age_ms: 1000')
        phubctl("pki", "issue", self.pki, "leaver", "--role", "admin")
        self.assertTrue(self.answers("leaver"))
        tenant = self.tenant("red")
        worker = self.worker(tenant, 0, 1, "shm")
        until(lambda: self.is_running(tenant, "mnist"), "the job runs")
        authority.publish(crls, self.pki / "leaver/cert.pem", tenant / "cert.pem")
        until(lambda: not self.answers("leaver"), "the revoked administrator is refused")
        self.assertTrue(self.answers("admin"))
        _, error = worker.communicate(timeout=DEADLINE)
        self.assertEqual(worker.returncode, 1, error)

    def test_a_ca_without_a_list_has_revoked_nothing(self):
        (self.folder / "crls").mkdir()
        self.restart('crl_folder: "crls"')
        self.assertTrue(self.answers())

    def test_revocations_under_other_names_than_openssl_looks_for_are_refused(self):
        authority = Authority(self.folder / "authority", self.pki / "ca")
        authority.publish(self.folder / "crls")
        for hashed in (self.folder / "crls").glob("*.r0"):
            hashed.unlink()
        config = self.write_config('crl_folder: "crls"')
        self.server.close()
        for more in (["--check"], []):
            done = run(processes.BIN / "phub-server", "--control", "127.0.0.1:0", "--config", config,
                       *more)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("openssl rehash", done.stderr)

    def test_lifetimes_that_are_no_lifetime_are_refused(self):
        self.tenant("red")
        for hours in ("0.0002", "1e300", "nan", "-1", "inf"):
            done = self.ctl(self.pki / "admin", "tenant", "token", "create", "red",
                            f"--lifetime-hours={hours}")
            self.assertEqual(done.returncode, 2, (hours, done.stdout))
            self.assertIn("lifetime-hours", done.stderr)
        self.admin("tenant", "token", "create", "red", "--lifetime-hours", "0.5")


if __name__ == "__main__":
    unittest.main(verbosity=2)

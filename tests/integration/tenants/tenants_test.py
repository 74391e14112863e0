"""Tenants with real processes: mutual TLS, tokens, quotas, two jobs of one name, restarts.

Usage: tenants_test.py BIN
"""

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, until  # noqa: E402
from secured import SecuredTest, run  # noqa: E402


class TenantsTest(SecuredTest):
    def test_two_tenants_train_jobs_of_one_name_over_shm_and_tcp(self):
        red, blue = self.tenant("red"), self.tenant("blue")
        for credentials, transport in ((red, "shm"), (blue, "tcp")):
            for index in range(2):
                self.worker(credentials, index, 2, transport, "--max-steps", "30", "--job", "demo")
        for process in self.processes:
            _, error = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, error)
        jobs = self.admin("job", "list")
        self.assertEqual(jobs.count(" demo "), 2, jobs)
        self.assertIn("shm", self.state(red, "demo"))
        self.assertIn("tcp", self.state(blue, "demo"))

    def test_one_tenants_worker_dies_and_the_other_tenant_trains_on(self):
        red, blue = self.tenant("red"), self.tenant("blue")
        for credentials in (red, blue):
            for index in range(2):
                self.worker(credentials, index, 2, "shm", "--job", "demo")
        until(lambda: self.is_running(red, "demo") and self.is_running(blue, "demo"), "both run")
        self.processes[0].kill()
        until(lambda: "failed" in self.state(red, "demo"), "red's job fails")
        before = processes.find(processes.json.loads(
            self.ctl(blue, "--json", "job", "inspect", "demo").stdout), "rounds")
        until(lambda: processes.find(processes.json.loads(
            self.ctl(blue, "--json", "job", "inspect", "demo").stdout), "rounds") > before + 10,
            "blue's rounds go on")

    def test_workers_without_the_right_credentials_are_turned_away_with_the_cure(self):
        red = self.tenant("red")
        bare = self.worker(self.pki / "worker", 0, 1, "shm")
        self.assertIn("show a token too", bare.communicate(timeout=DEADLINE)[1])
        self.assertEqual(bare.returncode, 1)
        (red / "token").write_text("phub-2-wrong\n", encoding="utf-8")
        wrong = self.worker(red, 0, 1, "shm")
        self.assertIn("the token is not accepted", wrong.communicate(timeout=DEADLINE)[1])
        spied = self.ctl(self.pki / "observer", "job", "create", "mine")
        self.assertEqual(spied.returncode, 1)
        self.assertIn("role observer", spied.stderr)
        audit = self.admin("audit")
        self.assertIn("authenticate", audit)
        self.assertIn("tenant create", audit)

    def test_quotas_refuse_with_their_figures(self):
        red = self.tenant("red", "--jobs", "1", "--connections", "3", "--memory-mib", "1")
        wide = self.worker(red, 0, 2, "shm")
        self.assertIn("needs 4 connections", wide.communicate(timeout=DEADLINE)[1])
        self.admin("tenant", "set", "red", "--connections", "8")
        large = self.worker(red, 0, 1, "shm")
        error = large.communicate(timeout=DEADLINE)[1]
        self.assertRegex(error, r"needs \d+ MiB, tenant \"red\" has 0 MiB of its quota of 1 MiB")
        self.admin("tenant", "set", "red", "--memory-mib", "0")
        self.worker(red, 0, 1, "shm")
        until(lambda: self.is_running(red, "mnist"), "the job runs")
        second = self.worker(red, 0, 1, "shm", "--job", "second")
        self.assertIn("has 1 live jobs and its quota is 1", second.communicate(timeout=DEADLINE)[1])

    def test_a_nonce_lets_a_worker_join_one_job(self):
        red = self.tenant("red")
        made = self.ctl(red, "--json", "job", "create", "demo", "--workers", "1", "--rule",
                        "momentum", "--learning-rate", "0.015", "--momentum", "0.9")
        job = processes.json.loads(made.stdout)
        (self.pki / "worker" / "nonce").write_text(f"{job['job_id']}:{job['nonce']}\n",
                                                   encoding="utf-8")
        trained = self.worker(self.pki / "worker", 0, 1, "shm", "--job", "demo", "--max-steps", "5")
        error = trained.communicate(timeout=DEADLINE)[1]
        self.assertEqual(trained.returncode, 0, error)
        self.assertIn("red", self.state(red, "demo"))

    def test_a_token_that_cannot_be_saved_is_not_made(self):
        self.tenant("red")
        taken = self.pki / "taken"
        taken.write_text("mine", encoding="utf-8")
        before = self.admin("tenant", "token", "list")
        refused = self.ctl(self.pki / "admin", "tenant", "token", "create", "red", "--save", taken)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn(str(taken), refused.stderr)
        self.assertEqual(taken.read_text(encoding="utf-8"), "mine")
        self.assertEqual(self.admin("tenant", "token", "list"), before)
        # And one that is refused leaves no file.
        nobody = self.ctl(self.pki / "admin", "tenant", "token", "create", "nobody", "--save", self.pki / "new")
        self.assertNotEqual(nobody.returncode, 0)
        self.assertFalse((self.pki / "new").exists())

    def test_a_job_of_another_tenant_is_pointed_out_to_who_may_see_it(self):
        red = self.tenant("red")
        self.assertEqual(self.ctl(red, "job", "create", "kept").returncode, 0)
        for command in (("job", "inspect"), ("job", "explain"), ("job", "plan"), ("job", "close"), ("snapshot",)):
            unknown = self.ctl(self.pki / "admin", *command, "kept")
            self.assertEqual(unknown.returncode, 1)
            self.assertIn("there is one of tenant red: name it with --tenant", unknown.stderr)
        other = self.tenant("blue")
        self.assertNotIn("red", self.ctl(other, "job", "inspect", "kept").stderr)

    def test_state_survives_kill_and_sigterm(self):
        red = self.tenant("red", "--jobs", "5")
        self.assertEqual(self.ctl(red, "job", "create", "kept").returncode, 0)
        self.assertEqual(self.ctl(red, "job", "create", "closed").returncode, 0)
        self.assertEqual(self.ctl(red, "job", "close", "closed").returncode, 0)
        for number in (signal.SIGKILL, signal.SIGTERM):
            control = self.server.control
            self.server.process.send_signal(number)
            self.server.process.wait(timeout=DEADLINE)
            self.server.close()
            self.server = self.start_server(control)
            self.assertIn("waiting", self.state(red, "kept"))
            self.assertIn("of 5", self.admin("tenant", "list"))
        self.assertIn("tenant create", self.admin("audit"))

    def test_the_audit_log_is_read_whatever_callers_write_into_it(self):
        red = self.tenant("red")
        for before in ("", "x"):
            self.assertEqual(self.ctl(red, "job", "close", before + "\u00e4" * 500).returncode, 1)
        audit = self.admin("audit")
        self.assertEqual(audit.count("job close"), 2)
        self.assertIn("tenant create", audit)

    def test_a_second_server_on_the_same_state_is_refused(self):
        done = run(processes.BIN / "phub-server", "--control", "127.0.0.1:0", "--data",
                   "127.0.0.1:0", "--cores", "1", "--state", self.folder / "state")
        self.assertEqual(done.returncode, 1)
        self.assertIn("in use by another phub-server", done.stderr)

    def test_other_hosts_need_tls_or_an_explicit_word(self):
        refused = run(processes.BIN / "phub-server", "--control", "0.0.0.0:0", "--data",
                      "127.0.0.1:0", "--cores", "1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("allow_plaintext", refused.stderr)
        self.assertIn("pki init", refused.stderr)
        Server("--allow-plaintext", "--tokens", "off", control="0.0.0.0:0").close()  # it was ready

    def test_plaintext_leaves_tokens_as_they_are(self):
        unsaid = run(processes.BIN / "phub-server", "--control", "0.0.0.0:0", "--allow-plaintext")
        self.assertEqual(unsaid.returncode, 2)
        self.assertIn("security.tokens: \"required\" needs state_folder", unsaid.stderr)
        self.assertIn("--tokens off", unsaid.stderr)
        config = self.folder / "plain.textproto"
        config.write_text(f'state_folder: "{self.folder}/plain" security {{ tokens: "required" }}',
                          encoding="utf-8")
        server = Server("--config", config, "--allow-plaintext")
        self.addCleanup(server.close)
        stranger = run(processes.BIN / "phubctl", "--server", server.control, "job", "create", "x")
        self.assertEqual(stranger.returncode, 1)
        self.assertIn("this server wants a token", stranger.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    os.environ.pop("PHUB_CREDENTIALS", None)
    unittest.main(argv=sys.argv[:1])

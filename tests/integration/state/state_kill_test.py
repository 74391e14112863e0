"""Servers that are killed in the middle of administration: what was acknowledged is there again.

Usage: state_kill_test.py BIN
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import Server, run  # noqa: E402

KILLS = 30


class Model:
    """What was acknowledged."""

    def __init__(self):
        self.jobs, self.tenants, self.revoked = set(), {}, set()
        self.made = 0

    def change(self, server, rng):
        """One change, acknowledged when phubctl ends well."""
        kind = rng.choice(["job", "job", "close", "close", "tenant", "set", "delete", "token"])
        self.made += 1
        name = f"n{self.made}"
        if kind == "close" and self.jobs:
            job = rng.choice(sorted(self.jobs))
            server.ctl("job", "close", job)
            self.jobs.discard(job)
        elif kind == "set" and self.tenants:
            tenant = rng.choice(sorted(self.tenants))
            server.ctl("tenant", "set", tenant, "--jobs", str(self.made))
            self.tenants[tenant] = self.made
        elif kind == "delete" and self.tenants:
            tenant = rng.choice(sorted(self.tenants))
            server.ctl("tenant", "delete", tenant)
            del self.tenants[tenant]
        elif kind == "token":
            token = server.ctl("tenant", "token", "create", "--role", "observer")
            number = processes.find(token, "tokenId") or processes.find(token, "token_id")
            server.ctl("tenant", "token", "revoke", str(number))
            self.revoked.add(int(number))
        elif kind == "tenant":
            server.ctl("tenant", "create", name, "--jobs", "1")
            self.tenants[name] = 1
        else:
            server.ctl("job", "create", name)
            self.jobs.add(name)

    def compare(self, test, server):
        live = {job["spec"]["name"] for job in server.ctl("job", "list").get("jobs", [])
                if "waiting" in json.dumps(job).lower()}
        test.assertEqual(live, self.jobs)
        tenants = {t["name"]: int(t["quotas"].get("jobs", 0))
                   for t in server.ctl("tenant", "list")["tenants"] if t["name"] != "default"}
        test.assertEqual(tenants, self.tenants)
        tokens = server.ctl("tenant", "token", "list").get("tokens", [])
        revoked = {int(t.get("tokenId", t.get("token_id"))) for t in tokens if t.get("revoked")}
        test.assertEqual(revoked, self.revoked)


class StateKillTest(unittest.TestCase):
    def test_acknowledged_changes_survive_kills(self):
        with tempfile.TemporaryDirectory() as folder:
            model, rng = Model(), random.Random(17)
            for kill in range(KILLS):
                server = Server("--state", f"{folder}/state", "--transports", "tcp")
                self.addCleanup(server.close)
                with self.subTest(kill=kill):
                    model.compare(self, server)
                for _ in range(rng.randint(1, 4)):
                    model.change(server, rng)
                server.close()  # SIGKILL, right behind the answer

    def test_a_change_that_was_under_way_is_there_or_not_and_the_server_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            for kill in range(5):
                server = Server("--state", f"{folder}/state", "--transports", "tcp")
                self.addCleanup(server.close)
                under_way = [subprocess.Popen(
                    [processes.BIN / "phubctl", "--server", server.control, "job", "create",
                     f"k{kill}-{i}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    for i in range(4)]
                under_way[kill % 4].stdout.readline()  # one is answered, the others are on the way
                server.close()
                acknowledged = set()
                for i, process in enumerate(under_way):
                    process.communicate(timeout=processes.DEADLINE)
                    if process.returncode == 0:
                        acknowledged.add(f"k{kill}-{i}")
                server = Server("--state", f"{folder}/state", "--transports", "tcp")
                self.addCleanup(server.close)
                found = {job["spec"]["name"] for job in server.ctl("job", "list").get("jobs", [])}
                self.assertLessEqual(acknowledged, found)
                self.assertGreaterEqual(len(acknowledged), 1)
                server.close()

    def test_who_lost_the_admin_token_gets_another_while_the_server_is_down(self):
        with tempfile.TemporaryDirectory() as folder:
            state = pathlib.Path(folder) / "state"
            pki = pathlib.Path(folder) / "pki"
            run(processes.BIN / "phubctl", "pki", "init", pki, "--host", "localhost")
            reset = [processes.BIN / "phub-server", "--state", state, "--reset-admin-token"]
            self.assertIn("no state.sqlite", run(*reset).stderr)
            server = Server("--credentials", pki / "server", "--state", state)
            self.addCleanup(server.close)
            busy = run(*reset)
            self.assertEqual(busy.returncode, 1)
            self.assertIn("in use by another phub-server", busy.stderr)
            server.close()
            (state / "admin.token").unlink()
            done = run(*reset)
            self.assertEqual(done.returncode, 0, done.stderr)
            server = Server("--credentials", pki / "server", "--state", state)
            self.addCleanup(server.close)
            (pki / "worker" / "token").write_bytes((state / "admin.token").read_bytes())
            listed = run(processes.BIN / "phubctl", "--server", server.control, "--credentials",
                         pki / "worker", "tenant", "token", "list")
            self.assertEqual(listed.returncode, 0, listed.stderr)
            self.assertIn("reset", listed.stdout)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

"""Servers of several racks that find each other: in their configurations, and in a real etcd that is
killed, stopped, emptied and filled with what is none of theirs.

Usage: etcd_test.py BIN; exits 77 (skipped) without etcd.
"""

import base64
import json
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import processes  # noqa: E402
from processes import Server, free_port, run, until  # noqa: E402

PREFIX = "/phub/racks"
SERVERS_MAX = 4096  # kRackServersMax of common/base/rack.h


def coded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """One member with a folder of its own: no service. Its JSON gateway is the test's way in."""

    def __init__(self, folder, pki=None):
        self.data, self.process, self.token = folder / "etcd", None, None
        scheme = "http" if pki is None else "https"
        self.address, peers = f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self.url = f"{scheme}://{self.address}"
        self.command = ["etcd", "--data-dir", self.data, "--listen-client-urls", self.url,
                        "--advertise-client-urls", self.url, "--listen-peer-urls", peers,
                        "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
                        "--logger", "zap", "--log-level", "error"]
        self.context = None
        if pki is not None:
            server, admin = pki / "server", pki / "admin"
            self.command += ["--cert-file", server / "cert.pem", "--key-file", server / "key.pem"]
            self.context = ssl.create_default_context(cafile=admin / "ca.pem")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        until(self.is_healthy, "etcd is healthy")

    def is_healthy(self):
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5, context=self.context) as reply:
                return json.load(reply)["health"] == "true"
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def call(self, path, **fields):
        request = urllib.request.Request(f"{self.url}/v3/{path}", json.dumps(fields).encode())
        if self.token:
            request.add_header("Authorization", self.token)
        with urllib.request.urlopen(request, timeout=processes.DEADLINE, context=self.context) as reply:
            return json.load(reply)

    def keys(self):
        found = self.call("kv/range", key=coded(f"{PREFIX}/"), range_end=coded(f"{PREFIX}0"),
                          keys_only=True)
        return [base64.b64decode(entry["key"]).decode() for entry in found.get("kvs", [])]

    def put(self, *keys, value=""):
        """In transactions of at most 128."""
        for begin in range(0, len(keys), 128):
            self.call("kv/txn", success=[
                {"requestPut": {"key": coded(key), "value": coded(value)}}
                for key in keys[begin:begin + 128]])

    def remove(self, begin, end):
        self.call("kv/deleterange", key=coded(begin), range_end=coded(end))

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class RackTest(unittest.TestCase):
    """Everything that is started ends with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, name, text, control="127.0.0.1:0"):
        config = self.folder / f"{name}.textproto"
        config.write_text(text)
        log = open(self.folder / f"{name}.log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        server = Server("--config", config, "--http", "127.0.0.1:0", control=control, log=log,
                        level="info")
        self.addCleanup(server.close)
        return server

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text()


def racks_of(server):
    return {rack["name"]: rack["servers"] for rack in server.ctl("racks").get("racks", [])}


def trouble_of(server):
    return server.ctl("racks").get("trouble", "")


def metric_of(server, name):
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=processes.DEADLINE) as reply:
        return float(re.search(rf"(?m)^{name} (\S+)$", reply.read().decode())[1])


class StaticTest(RackTest):
    def test_servers_of_two_racks_know_each_other_from_their_configurations(self):
        ports = [free_port(), free_port()]
        a, b = (f"127.0.0.1:{port}" for port in ports)
        listed = (f'directory {{ racks {{ name: "b" servers: "{b}" }} '
                  f'racks {{ name: "a" servers: "{a}" }} }}')
        for name, address in (("a", a), ("b", b)):
            server = self.serve(name, f'rack: "{name}" control_address: "{address}" {listed}', address)
            self.assertEqual(racks_of(server), {"a": [a], "b": [b]})
            told = server.ctl("racks")
            self.assertEqual((told["own_rack"], told["own_address"], told["source"]),
                             (name, address, "configuration"))
            table = server.table("racks")
            self.assertRegex(table, rf"(?m)^{name} +{address} +this server$")
            self.assertEqual(table.count("this server"), 1)
            self.assertIn("from configuration", table)

    def test_a_server_without_a_rack_says_so(self):
        server = self.serve("none", "")
        self.assertIn("no racks are known here", server.table("racks"))
        self.assertEqual(racks_of(server), {})

    def test_a_server_that_is_not_in_its_list_does_not_start(self):
        config = self.folder / "s.textproto"
        config.write_text('rack: "a"\ndirectory { racks { name: "a" servers: "10.0.0.1:7400" } }\n')
        done = run(processes.BIN / "phub-server", "--config", config)
        self.assertEqual(done.returncode, 2)
        self.assertIn("control_address: \"127.0.0.1:7077\" is not among the servers of rack \"a\"",
                      done.stderr)


class EtcdTest(RackTest):
    def setUp(self):
        super().setUp()
        self.etcd = Etcd(self.folder)
        self.addCleanup(self.etcd.kill)

    def join(self, rack, name=None, lease_s=2, timeout_ms=1000):
        return self.serve(name or rack, f"""rack: "{rack}" directory {{ etcd {{
            endpoints: "{self.etcd.address}" lease_s: {lease_s} timeout_ms: {timeout_ms} }} }}""")

    def wait_for_racks(self, servers, expected):
        for server in servers:
            until(lambda server=server: racks_of(server) == expected,
                  f"{server.control} knows {expected}")

    def wait_until_reached(self, *servers):
        for server in servers:
            until(lambda server=server: not trouble_of(server), f"{server.control} has reached etcd")

    def test_servers_find_each_other_and_who_dies_is_gone_after_its_lease(self):
        a, b = self.join("a"), self.join("b")
        both = {"a": [a.control], "b": [b.control]}
        self.wait_for_racks((a, b), both)
        self.wait_until_reached(a, b)
        b.process.kill()  # its lease is left to run out
        self.wait_for_racks((a,), {"a": [a.control]})
        second, c = self.join("a", "a2"), self.join("c", lease_s=3600)
        three = {"a": sorted([a.control, second.control], key=lambda server: int(server.split(":")[1])), "c": [c.control]}
        self.wait_for_racks((a, second, c), three)
        self.assertRegex(a.table("racks"), rf"(?m)^a +{a.control} +this server$")
        self.assertIn(f"from etcd at {self.etcd.address}", a.table("racks"))
        c.process.send_signal(signal.SIGTERM)  # it says so: nobody waits for an hour
        self.assertEqual(c.process.wait(processes.DEADLINE), 0)
        self.wait_for_racks((a, second), {"a": three["a"]})

    def test_a_job_spans_racks_that_have_found_each_other(self):
        a, b = self.join("a", lease_s=20), self.join("b", lease_s=20)
        self.wait_for_racks((a, b), {"a": [a.control], "b": [b.control]})
        workers = [processes.worker(server, index, 2, "auto", "--racks", "a:1,b:1", "--max-steps", "20")
                   for index, server in enumerate((a, b))]
        for worker in workers:
            self.addCleanup(worker.kill)
        for worker in workers:
            _, error = worker.communicate(timeout=processes.DEADLINE)
            self.assertEqual(worker.returncode, 0, error)

    def test_what_was_known_stays_while_etcd_is_away_and_a_third_joins_afterwards(self):
        a, b = self.join("a", lease_s=20), self.join("b", lease_s=20)
        both = {"a": [a.control], "b": [b.control]}
        self.wait_for_racks((a, b), both)
        self.wait_until_reached(a, b)
        self.etcd.kill()
        until(lambda: "is it running" in trouble_of(a), "a says that etcd is away")
        self.assertRegex(a.table("racks"), r"(?m)^as it was [0-9.]+ m?s ago: etcd at .* is it running")
        self.assertEqual(racks_of(a), both)
        self.assertEqual(self.log_of("a").count("event=directory_away"), 1)
        self.assertGreater(metric_of(a, "phub_directory_trouble_seconds"), 0)
        self.assertEqual(metric_of(a, "phub_directory_racks"), 2)
        self.etcd.start()
        c = self.join("c")
        self.wait_for_racks((a, b, c), both | {"c": [c.control]})
        self.wait_until_reached(a, b, c)
        self.assertEqual(metric_of(a, "phub_directory_trouble_seconds"), 0)
        self.assertEqual(metric_of(a, "phub_directory_racks"), 3)
        self.assertEqual(self.log_of("a").count("event=directory_reached"), 2)

    def test_an_etcd_that_does_not_answer_costs_no_more_than_the_deadline(self):
        a = self.join("a", timeout_ms=200)
        self.wait_until_reached(a)
        self.etcd.process.send_signal(signal.SIGSTOP)
        self.addCleanup(lambda: self.etcd.process.send_signal(signal.SIGCONT))
        until(lambda: "no answer within 200 ms" in trouble_of(a), "a says that etcd does not answer")
        self.assertEqual(racks_of(a), {"a": [a.control]})
        ended = self.join("b", timeout_ms=200)  # and starts and ends all the same
        self.assertEqual(racks_of(ended), {"b": [ended.control]})
        ended.process.send_signal(signal.SIGTERM)
        self.assertEqual(ended.process.wait(processes.DEADLINE), 0)
        self.etcd.process.send_signal(signal.SIGCONT)
        self.wait_until_reached(a)
        until(lambda: self.etcd.keys() == [f"{PREFIX}/a/{a.control}"], "a is registered")

    def test_servers_register_again_with_an_etcd_that_has_forgotten_them(self):
        a, b = self.join("a"), self.join("b")
        both = {"a": [a.control], "b": [b.control]}
        self.wait_for_racks((a, b), both)
        self.wait_until_reached(a, b)
        self.etcd.kill()
        until(lambda: trouble_of(a) and trouble_of(b), "both say that etcd is away")
        shutil.rmtree(self.etcd.data)
        self.etcd.start()
        until(lambda: len(self.etcd.keys()) == 2, "both are registered")
        self.wait_until_reached(a, b)
        self.wait_for_racks((a, b), both)
        self.etcd.remove(f"{PREFIX}/a/", f"{PREFIX}/a0")  # an administrator's mistake
        until(lambda: len(self.etcd.keys()) == 2, "a is registered again")
        self.wait_for_racks((a, b), both)

    def test_a_server_starts_without_an_etcd_and_finds_it_later(self):
        self.etcd.kill()
        a = self.join("a")
        until(lambda: "event=directory_away" in self.log_of("a"), "a says that etcd is away")
        self.assertEqual(racks_of(a), {"a": [a.control]})
        self.etcd.start()
        self.wait_until_reached(a)
        self.assertEqual(self.etcd.keys(), [f"{PREFIX}/a/{a.control}"])

    def test_a_member_that_is_gone_gives_way_to_the_next(self):
        a = self.serve("a", f"""rack: "a" directory {{ etcd {{ endpoints: "127.0.0.1:1"
            endpoints: "{self.etcd.address}" }} }}""")
        self.wait_until_reached(a)
        self.assertEqual(a.ctl("racks")["source"], f"etcd at {self.etcd.address}")

    def test_a_prefix_full_of_strangers_keys_is_bounded_and_counted(self):
        a = self.join("a")
        self.wait_until_reached(a)
        before = a.resident()
        strangers = [f"{PREFIX}/a", f"{PREFIX}/{'r' * 65}/h:1", f"{PREFIX}/a/h:0", f"{PREFIX}/a/\x1b[2J:1"]
        self.etcd.put(*strangers, value="v" * 100_000)
        until(lambda: int(a.ctl("racks")["keys_left_out"]) == len(strangers), "they are counted")
        self.assertEqual(racks_of(a), {"a": [a.control]})
        self.etcd.put(*(f"{PREFIX}/full/h{i:05}:1" for i in range(9000)))
        b = self.join("b")
        for server in (a, b):
            until(lambda server=server: int(server.ctl("racks")["keys_left_out"]) > 4000,
                  "most are left out")
            racks = racks_of(server)
            self.assertLessEqual(sum(len(servers) for servers in racks.values()), SERVERS_MAX + 1)
            self.assertIn(server.control, racks[server.ctl("racks")["own_rack"]])
        self.assertIn("keys under the prefix name no server", a.table("racks"))
        self.assertLess(a.resident() - before, 64 << 20)
        self.etcd.remove(f"{PREFIX}/full/", f"{PREFIX}/full0")
        self.wait_for_racks((a, b), {"a": [a.control], "b": [b.control]})
        for key in strangers:
            self.etcd.remove(key, key + "\0")
        until(lambda: int(a.ctl("racks")["keys_left_out"]) == 0, "none is left out any more")

    def test_keys_that_are_too_long_to_read_are_named_and_what_was_known_stays(self):
        a, b = self.join("a", lease_s=20), self.join("b", lease_s=20)
        both = {"a": [a.control], "b": [b.control]}
        self.wait_for_racks((a, b), both)
        begin = f"{PREFIX}/long"
        for i in range(5):
            self.etcd.put(begin + str(i) * 1_000_000)
        for server in (a, b):
            until(lambda server=server: "keys are too long" in trouble_of(server), "they are named")
            self.assertEqual(racks_of(server), both)
        self.etcd.remove(begin, begin + "~")
        self.wait_until_reached(a, b)
        self.wait_for_racks((a, b), both)


class SecuredEtcdTest(RackTest):
    def setUp(self):
        super().setUp()
        self.pki = self.folder / "pki"
        made = run(processes.BIN / "phubctl", "pki", "init", self.pki, "--host", "127.0.0.1")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.etcd = Etcd(self.folder, self.pki)
        self.addCleanup(self.etcd.kill)
        for name, password in (("root", "over all"), ("phub", "of the racks")):
            self.etcd.call("auth/user/add", name=name, password=password)
        self.etcd.call("auth/role/add", name="racks")
        self.etcd.call("auth/role/grant", name="racks", perm={
            "permType": "READWRITE", "key": coded(f"{PREFIX}/"), "range_end": coded(f"{PREFIX}0")})
        self.etcd.call("auth/user/grant", user="root", role="root")
        self.etcd.call("auth/user/grant", user="phub", role="racks")
        self.etcd.call("auth/enable")

    def join(self, rack, password):
        secret = self.folder / f"{rack}.password"
        secret.write_text(password + "\n")
        return self.serve(rack, f"""rack: "{rack}" directory {{ etcd {{
            endpoints: "{self.etcd.address}" ca: "pki/worker/ca.pem"
            user: "phub" password_file: "{secret.name}" }} }}""")

    def test_servers_find_each_other_over_tls_with_a_user_of_etcds(self):
        a, b = self.join("a", "of the racks"), self.join("b", "a wrong one")
        until(lambda: not trouble_of(a), "a has reached etcd")
        until(lambda: "user and password" in trouble_of(b), "b says that the password is wrong")
        self.assertEqual(racks_of(a), {"a": [a.control]})
        (self.folder / "b.password").write_text("of the racks\n")  # which is read again
        until(lambda: racks_of(a) == {"a": [a.control], "b": [b.control]}, "b has joined")

    def test_files_that_are_not_there_are_named_at_the_start(self):
        config = self.folder / "s.textproto"
        etcd = f'rack: "a" directory {{ etcd {{ endpoints: "{self.etcd.address}" FIELDS }} }}'
        for fields, named in (('ca: "none.pem"', "none.pem"),
                              ('user: "u" password_file: "none"', "directory.etcd.password_file")):
            config.write_text(etcd.replace("FIELDS", fields))
            for more in ((), ("--check",)):
                done = run(processes.BIN / "phub-server", "--config", config, *more)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("directory.etcd", done.stderr)
                self.assertIn(named, done.stderr)


if __name__ == "__main__":
    if not shutil.which("etcd"):
        print("skipped: needs the package etcd-server (deploy/packages.sh)")
        sys.exit(77)
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

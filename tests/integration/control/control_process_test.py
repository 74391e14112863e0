"""phub-server and phubctl as processes: ready line, exit codes, messages, drain.

Usage: control_process_test.py PHUB_SERVER PHUBCTL
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

SERVER, PHUBCTL = "", ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)


class Daemon:
    """A phub-server on a free port; killed at the end if it still runs."""

    def __init__(self, control="127.0.0.1:0", *options):
        self.process = subprocess.Popen(
            [SERVER, "--control", control, "--data", "127.0.0.1:0", "--cores", "1", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ready = self.process.stdout.readline()
        match = re.fullmatch(r"phub-server ready control=(\S+) data=(\d+) pid=(\d+)"
                             r"(?: http=(\S+))?\n", self.ready)
        if not match:
            raise AssertionError(f"no ready line: {self.ready!r} {self.process.communicate()[1]}")
        self.control, self.pid, self.http = match[1], int(match[3]), match[4]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def ctl(self, *arguments):
        return run(PHUBCTL, "--server", self.control, *arguments)

    def stop(self, *signals):
        for number in signals:
            self.process.send_signal(number)
        self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode


class ServerTest(unittest.TestCase):
    def refused(self, code, *options):
        done = run(SERVER, *options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_ready_line_names_the_process_and_sigterm_ends_it_with_0(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.pid, daemon.process.pid)
            self.assertEqual(daemon.stop(signal.SIGTERM), 0)

    def test_sigint_and_a_second_signal_end_it_with_0(self):
        with Daemon() as daemon:
            daemon.ctl("job", "create", "waiting")
            self.assertEqual(daemon.stop(signal.SIGINT, signal.SIGTERM), 0)

    def test_port_in_use_is_a_failure_with_address_field_and_cure(self):
        with Daemon() as daemon:
            error = self.refused(1, "--control", daemon.control, "--data", "127.0.0.1:0",
                                 "--cores", "1")
            for part in ("control_address", daemon.control, "in use", "--control"):
                self.assertIn(part, error)

    def test_a_data_address_that_cannot_be_is_told_with_its_cure(self):
        with Daemon() as daemon:
            error = self.refused(1, "--control", "127.0.0.1:0", "--data", daemon.control, "--cores", "1")
            self.assertIn(f"data_address: cannot listen on {daemon.control}: the port is in use", error)
        error = self.refused(1, "--control", "127.0.0.1:0", "--data", "192.0.2.1:0", "--cores", "1")
        self.assertIn("data_address: cannot listen on 192.0.2.1:0: this machine has no such address", error)

    def test_bad_usage_and_configuration_exit_with_2(self):
        self.assertIn("--foo", self.refused(2, "--foo"))
        self.assertIn("did you mean \"tcp\"", self.refused(2, "--transports", "tpc"))
        self.assertIn("no/such.textproto", self.refused(2, "--config", "no/such.textproto"))
        self.assertIn("has no port", self.refused(2, "--control", "localhost"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "server.textproto")
            with open(path, "w", encoding="utf-8") as file:
                file.write("cores: 1\n  coers: 2\n")
            self.assertIn(f"{path}:2:3: unknown field \"coers\"", self.refused(2, "--config", path))
            # What is wrong with an option is said before the file is read.
            for option, value, wrong in (("--control", "localhost", "control_address"),
                                         ("--http", "localhost", "http_address"),
                                         ("--tokens", "maybe", "tokens"),
                                         ("--transports", "tpc", "transports"),
                                         ("--log-level", "loud", "log_level"),
                                         ("--cores", "5000", "cores"),
                                         ("--credentials", folder, "has none of ca.pem")):
                error = self.refused(2, "--check", "--config", path, option, value)
                self.assertIn(wrong, error)
                self.assertNotIn("coers", error)

    def test_help_teaches_with_an_example(self):
        done = run(SERVER, "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("phub-server --config configs/server.textproto", done.stdout)

    def test_check_reads_the_configuration_and_ends(self):
        done = run(SERVER, "--check", "--control", "127.0.0.1:0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("the configuration is good", done.stdout)
        # An empty number, as of a variable that is not set, is none.
        self.assertEqual(
            run(SERVER, "--check", "--control", "127.0.0.1:0", "--cores", "").returncode, 0)
        self.assertIn("has no port", self.refused(2, "--check", "--control", "localhost"))
        with tempfile.TemporaryDirectory() as folder:
            made = run(PHUBCTL, "pki", "init", f"{folder}/pki", "--host", "localhost")
            self.assertEqual(made.returncode, 0, made.stderr)
            os.rename(f"{folder}/pki/admin/key.pem", f"{folder}/pki/server/key.pem")
            self.assertIn("is not the key of", self.refused(
                2, "--check", "--credentials", f"{folder}/pki/server", "--state", folder))
            os.mkfifo(f"{folder}/fifo")
            self.assertIn("may never end", self.refused(2, "--check", "--config", f"{folder}/fifo"))

    def test_racks_are_named_by_options(self):
        racks = ("--rack", "a", "--directory", "a=127.0.0.1:7077,127.0.0.1:7078", "--directory", "b=127.0.0.1:7079")
        self.assertEqual(run(SERVER, "--check", *racks).returncode, 0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "server.textproto")
            with open(path, "w", encoding="utf-8") as file:
                file.write('rack: "c" directory { racks { name: "c" servers: "127.0.0.1:7077" } }')
            done = run(SERVER, "--check", "--config", path, *racks)  # over what the file says
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for options, wrong in ((("--rack", "a", "--directory", "a"), '"a" is not RACK=HOST:PORT,...'),
                                   (("--rack", "a", "--directory", "b=127.0.0.1:1"), '"a" is not in directory.racks'),
                                   (("--advertise", "127.0.0.1:1"), "advertise_address: has no effect without rack"),
                                   (("--rack-credentials", folder, *racks), "has none of ca.pem"),
                                   ((*racks, "--advertise", "127.0.0.1:7079"), "not among the servers of rack")):
                self.assertIn(wrong, self.refused(2, "--check", *options))

    def test_every_program_says_its_version_and_commit(self):
        for program in (SERVER, PHUBCTL, os.path.join(os.path.dirname(SERVER), "phub-worker")):
            if not os.path.exists(program):
                continue
            done = run(program, "--version")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^phub\S+ \d+\.\d+\.\d+ \(commit (\w+(-dirty)?)\)\n$")

    def test_supervisors_learn_whether_it_answers_and_takes_jobs(self):
        with Daemon("127.0.0.1:0", "--http", "127.0.0.1:0") as daemon:
            def status(path, **headers):
                request = urllib.request.Request(f"http://{daemon.http}{path}", headers=headers)
                try:
                    with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as reply:
                        return reply.status
                except urllib.error.HTTPError as error:
                    with error:
                        return error.code
            self.assertEqual((status("/healthz"), status("/readyz")), (200, 200))
            self.assertEqual(status("/metrics", Host="evil.example"), 421)
            self.assertEqual(daemon.ctl("job", "create", "stays").returncode, 0)
            self.assertEqual(daemon.ctl("drain").returncode, 0)
            self.assertEqual((status("/healthz"), status("/readyz")), (200, 503))

    def test_ipv6_control_address(self):
        with Daemon("[::1]:0") as daemon:
            self.assertTrue(daemon.control.startswith("[::1]:"))
            self.assertEqual(daemon.ctl("job", "list").returncode, 0)


    def test_page_and_metrics_are_served_where_they_are_asked_for_and_nowhere_else(self):
        with Daemon() as daemon:
            self.assertIsNone(daemon.http)
        with Daemon("127.0.0.1:0", "--http", "127.0.0.1:0") as daemon:
            self.assertEqual(daemon.ctl("job", "create", "vision", "--workers", "3").returncode, 0)
            url = f"http://{daemon.http}/metrics"
            with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as reply:
                self.assertIn("text/plain", reply.headers["Content-Type"])
                text = reply.read().decode()
            self.assertIn('phub_job_workers{phub_job="vision",tenant="default"} 3\n', text)
            self.assertIn('phub_core_connections{core="0"} 0\n', text)
            with urllib.request.urlopen(f"http://{daemon.http}/", timeout=DEADLINE_SECONDS) as reply:
                self.assertIn("default-src 'self'", reply.headers["Content-Security-Policy"])
                self.assertIn("<title>PHub</title>", reply.read().decode())
            error = self.refused(1, "--control", "127.0.0.1:0", "--data", "127.0.0.1:0",
                                 "--cores", "1", "--http", daemon.http)
            self.assertIn("http_address", error)
        self.assertIn("http_address", self.refused(2, "--http", "9107"))
        self.assertIn("http_allow_plaintext", self.refused(
            2, "--control", "127.0.0.1:0", "--data", "127.0.0.1:0", "--cores", "1", "--http", "0.0.0.0:0"))

    def test_readers_that_stay_connected_do_not_hold_up_the_end(self):
        with Daemon("127.0.0.1:0", "--http", "127.0.0.1:0") as daemon:
            host, port = daemon.http.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as reader, \
                    socket.create_connection((host, int(port))):
                reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b"200", reader.recv(64))
                self.assertEqual(daemon.stop(signal.SIGTERM), 0)


class PhubctlTest(unittest.TestCase):
    def test_a_job_is_created_listed_inspected_planned_and_closed(self):
        with Daemon() as daemon:
            self.assertIn("no jobs yet", daemon.ctl("job", "list").stdout)
            created = daemon.ctl("--json", "job", "create", "demo", "--workers", "2", "--rule",
                                 "mean", "--key", "w:100000")
            job_id = json.loads(created.stdout)["job_id"]
            jobs = json.loads(daemon.ctl("job", "list", "--json").stdout)["jobs"]
            self.assertEqual([(j["job_id"], j["spec"]["name"], j["state"]) for j in jobs],
                             [(job_id, "demo", "waiting")])
            self.assertIn("100,000", daemon.ctl("job", "inspect", "demo").stdout)
            plan = json.loads(daemon.ctl("--json", "job", "plan", "demo").stdout)
            self.assertEqual(sum(load["chunks"] for load in plan["loads"]), len(plan["chunks"]))
            self.assertEqual(daemon.ctl("job", "close", "demo").returncode, 0)
            self.assertIn("ended", daemon.ctl("job", "inspect", "--id", str(job_id)).stdout)

    def test_the_encoding_of_a_jobs_pushes_is_chosen_and_shown(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.ctl("job", "create", "few", "--encoding", "int4").returncode, 0)
            self.assertRegex(daemon.ctl("job", "inspect", "few").stdout, r"encoding +int4\n")
            daemon.ctl("job", "create", "all")
            self.assertNotIn("encoding", daemon.ctl("job", "inspect", "all").stdout)
            self.assertEqual(daemon.ctl("job", "create", "x", "--encoding", "int3").returncode, 2)
            lars = daemon.ctl("job", "create", "x", "--encoding", "sparse", "--rule", "lars")
            self.assertEqual(lars.returncode, 2)
            self.assertIn("encoding: sparse contradicts rule: lars", lars.stderr)

    def test_the_rounds_of_a_job_are_chosen_and_shown(self):
        with Daemon() as daemon:
            def create(*words):
                return daemon.ctl("job", "create", "late", "--workers", "4", "--rule", "sgd", *words)

            made = create("--order", "arrival", "--quorum", "3", "--grace-ms", "20", "--patience-ms", "700",
                          "--staleness", "0")
            self.assertEqual(made.returncode, 0, made.stderr)
            shown = daemon.ctl("job", "inspect", "late").stdout
            for line in (r"rounds\.quorum +3\n", r"rounds\.grace_ms +20\n", r"rounds\.patience_ms +700\n",
                         r"rounds\.staleness +0\n", r"chunks' rounds +0, 0 not of everybody"):
                self.assertRegex(shown, line)
            for words, says in ((("--quorum", "3"), "set order to arrival"),
                                (("--quorum", "4", "--order", "arrival"), "rounds.quorum: 4 is not below workers"),
                                (("--quorum", "1", "--order", "arrival", "--late", "keep"), "--late"),
                                (("--quorum", "1", "--order", "arrival", "--late", "add", "--grace-ms", "1"),
                                 "rounds.grace_ms: 1 contradicts rounds.late: add"),
                                (("--grace-ms", "5"), "rounds.quorum: 0"), (("--patience-ms", "5"), "rounds.quorum: 0"),
                                (("--staleness", "5"), "rounds.quorum: 0"), (("--late", "add"), "rounds.quorum: 0"),
                                (("--push-weight", "staleness"), "rounds.quorum: 0"),
                                (("--set", "checksum=true"), "did you mean checksums?"), (("--set", "checksums"), "FIELD=VALUE")):
                refused = create(*words)
                self.assertEqual(refused.returncode, 2, words)
                self.assertIn(says, refused.stderr)
            help_text = daemon.ctl("job", "create", "--help").stdout
            for word in ("backup workers", "asynchronous", "stale", "proto/config.proto"):
                self.assertIn(word, help_text)

    def test_the_fields_of_a_job_are_listed_without_a_server(self):
        def fields(*words):
            done = run(PHUBCTL, *words, "job", "fields")
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        shown = fields()
        self.assertRegex(shown, r"\nrounds\.quorum +a whole number")
        self.assertRegex(shown, r"\nclip_norm +racks without rack_local_steps +which do not know the norm of all keys +leave one out")
        listed = json.loads(fields("--json"))
        self.assertIn({"name": "checksums", "takes": "true or false"}, listed["fields"])
        with Daemon() as daemon:  # each can be set, to what it is anyway
            spec = daemon.ctl("job", "create", "plain", "--set", "checksums=false", "--set", "rule=mean")
            self.assertEqual(spec.returncode, 0, spec.stderr)
            self.assertRegex(daemon.ctl("job", "inspect", "plain").stdout, r"rule +mean\n")

    def test_columns_of_a_table_line_up(self):
        with Daemon() as daemon:
            for name in ("a", "a-longer-name"):
                daemon.ctl("job", "create", name)
            header, *rows = daemon.ctl("job", "list").stdout.splitlines()
            column = header.index("STATE")
            self.assertEqual([row[column:column + 7] for row in rows], ["waiting", "waiting"])

    def test_statistics_show_the_cores(self):
        with Daemon() as daemon:
            server = json.loads(daemon.ctl("--json", "server", "stats").stdout)["server"]
            self.assertEqual(len(server["cores"]), 1)
            self.assertGreater(server["resident_bytes"], 0)
            self.assertIn("adaptive", daemon.ctl("server", "stats").stdout)

    def test_errors_are_json_where_it_is_asked_for(self):
        with Daemon() as daemon:
            unknown = daemon.ctl("--json", "job", "close", "x")
            self.assertEqual((unknown.returncode, unknown.stdout), (1, ""))
            error = json.loads(unknown.stderr)["error"]
            self.assertEqual(error["code"], "NOT_FOUND")
            self.assertIn("no live job is named \"x\"", error["message"])
        usage = run(PHUBCTL, "--json", "job", "nonsense")
        self.assertEqual(usage.returncode, 2)
        self.assertEqual(json.loads(usage.stderr)["error"]["code"], "INVALID_ARGUMENT")

    def test_names_that_would_turn_a_terminal_or_forge_a_log_are_refused(self):
        with Daemon() as daemon:
            for name in ("a\u202eb", "a\u009bb", 'x" outcome="done', "a\u2066b"):
                refused = daemon.ctl("job", "create", name)
                self.assertEqual(refused.returncode, 2, name)
                self.assertIn("name", refused.stderr)
                self.assertNotIn("\u202e", refused.stderr)
            self.assertEqual(daemon.ctl("job", "create", "Größe").returncode, 0)

    def test_a_draining_server_refuses_jobs_and_says_so(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.ctl("drain").returncode, 0)
            refused = daemon.ctl("job", "create", "late")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("draining", refused.stderr)
            self.assertIn("draining", daemon.ctl("server", "stats").stdout)

    def test_no_server_is_named_with_the_cure(self):
        with Daemon() as daemon:
            daemon.stop(signal.SIGTERM)
            done = daemon.ctl("job", "list")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"no phub-server answers at {daemon.control}: is it running?", done.stderr)

    def test_bad_usage_exits_with_2_and_unknown_jobs_with_1(self):
        self.assertEqual(run(PHUBCTL).returncode, 2)
        self.assertEqual(run(PHUBCTL, "--server", "nowhere", "job", "list").returncode, 2)
        with Daemon() as daemon:
            self.assertEqual(daemon.ctl("job", "create", "x", "--rule", "rmsprop").returncode, 2)
            unknown = daemon.ctl("job", "close", "x")
            self.assertEqual(unknown.returncode, 1)
            self.assertIn("no live job is named \"x\"", unknown.stderr)

    def test_the_doctor_asks_no_server_and_exits_with_1_if_a_check_fails(self):
        done = run(PHUBCTL, "--server", "nowhere", "doctor", "--json")
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if report["status"] == "fail" else 0, done.stderr)
        missing = run(PHUBCTL, "doctor", "--verbs-devices", "no_such_card")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("no port can be used", missing.stdout)
        self.assertIn("failed", missing.stderr)

    def test_the_doctor_reads_what_the_kernel_counts(self):
        with tempfile.TemporaryDirectory() as sysfs:
            port = os.path.join(sysfs, "class/infiniband/invented0/ports/1/counters")
            os.makedirs(port)
            with open(os.path.join(port, "symbol_error"), "w", encoding="utf-8") as file:
                file.write("3\n")
            table = run(PHUBCTL, "doctor", "--sysfs-root", sysfs).stdout
        self.assertIn("invented0    the kernel has it, libibverbs does not", table)
        self.assertIn("symbol_error 3", table)

    def test_two_doctors_measure_tcp_until_ctrl_c(self):
        listener = subprocess.Popen([PHUBCTL, "doctor", "--listen", "127.0.0.1:0"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            address = re.match(r"listening on (\S+),", listener.stdout.readline())[1]
            done = run(PHUBCTL, "--json", "doctor", "--peer", address, "--seconds", "0.05")
            tcp = json.loads(done.stdout)["peer"]["tcp"]
            self.assertTrue(tcp["verified"], done.stdout)
            self.assertEqual(done.stderr, "")
            listener.send_signal(signal.SIGINT)
            said = listener.communicate(timeout=DEADLINE_SECONDS)[1]
            self.assertEqual(listener.returncode, 0, said)
            gone = run(PHUBCTL, "doctor", "--peer", address)
            self.assertEqual(gone.returncode, 1)
            self.assertIn("is `phubctl doctor --listen` running there", gone.stdout)
        finally:
            listener.kill()
            listener.communicate()

    def test_a_wrong_use_of_the_doctor_exits_with_2(self):
        for options in (["--once"], ["--seconds", "2"], ["--peer", "::1"], ["--listen", "nonsense:x"],
                        ["--listen", "127.0.0.1:0", "--peer", "x"], ["--peer", "x", "--seconds", "0"]):
            done = run(PHUBCTL, "doctor", *options)
            self.assertEqual(done.returncode, 2, (options, done.stdout, done.stderr))


if __name__ == "__main__":
    SERVER, PHUBCTL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])

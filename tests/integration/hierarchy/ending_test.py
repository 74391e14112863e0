"""Jobs that span racks end in all racks and leave nothing; their snapshots; who may join as a rack.

Usage: ending_test.py BIN
"""
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, run, until  # noqa: E402
from racks import RacksTest, rounds_of  # noqa: E402

JOBS = 50
NETWORK = """
image { channels: 1 height: 8 }
layer { name: "fc" inner_product { outputs: 10 } }
"""
SMALL = """
model { file: "net.textproto" }
data { format: "synthetic" synthetic_images: 32 }
optimizer { rule: "nesterov" learning_rate: 0.01 }
train { batch: 4 seed: 5 max_steps: 2 evaluate: false }
"""
STEPS_MORE = 15


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def name_of(task):
    try:
        return (task / "comm").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return ""


def threads(server):
    """Of its own: gRPC's have names of theirs, and come and go."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
    return sum(name_of(task) == "phub-server\n" for task in tasks.iterdir())


class Ending(RacksTest):
    def small(self):
        (self.folder / "net.textproto").write_text(NETWORK, encoding="utf-8")
        path = self.folder / "small.textproto"
        path.write_text(SMALL, encoding="utf-8")
        return path

    def test_jobs_one_after_another_leave_nothing(self):
        self.start_racks()
        config = self.small()
        servers = [self.servers[rack][0] for rack in "ab"]

        def train():
            self.finish(self.start_job("a:1,b:1", "--job", "again", config=config))

        for _ in range(3):
            train()
        until(lambda: all("running" not in server.table("job", "list") for server in servers), "it ends")
        before = [(descriptors(server), threads(server)) for server in servers]
        for _ in range(JOBS):
            train()
        for server, (open_before, threads_before) in zip(servers, before):
            until(lambda s=server: "running" not in s.table("job", "list"), "the last job ends")
            until(lambda s=server, n=open_before: descriptors(s) <= n, "descriptors are closed")
            until(lambda s=server, n=threads_before: threads(s) <= n, "threads end")
            jobs = server.table("job", "list")
            self.assertNotIn("failed", jobs)
            self.assertEqual(server.ctl("job", "inspect", "again")["job"].get("memoryBytes", "0"), "0")
        for server in servers:
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=DEADLINE), 0)

    def test_a_server_that_stops_while_another_rack_stands_still(self):
        self.start_racks(more="heartbeat_deadline_ms: 30000\n")
        started = self.start_job("a:1,b:1", "--job", "held")
        self.wait_until_it_trains("held")
        stopped = self.servers["b"][0].process
        stopped.send_signal(signal.SIGSTOP)
        self.servers["a"][0].table("job", "close", "held")
        self.all_say(started["a"], "closed by an administrator")
        leaving = self.servers["a"][0].process
        leaving.send_signal(signal.SIGTERM)
        self.assertEqual(leaving.wait(timeout=DEADLINE), 0)
        stopped.send_signal(signal.SIGCONT)
        self.all_say(started["b"], "rack a")


    def test_a_server_that_stops_while_it_waits_for_a_rack(self):
        for stands_still in (False, True):
            self.lay_out(more="drain_timeout_ms: 300\n")
            self.start_server("a")
            if stands_still:
                self.start_server("b").process.send_signal(signal.SIGSTOP)
            waiting = self.start_worker("a", 0, "a:1,b:1")
            until(lambda: "event=job_planned" in self.log("a"), "it waits for rack b")
            stopping = self.servers["a"][0]
            stopping.process.send_signal(signal.SIGTERM)
            self.assertEqual(stopping.process.wait(timeout=DEADLINE), 0)
            self.all_say([waiting], "the server was drained")
            self.end()


class Snapshots(RacksTest):
    RACKS = "a:2,b:1"

    def setUp(self):
        super().setUp()
        self.lay_out()
        for rack in "ab":
            self.start_stateful(rack)

    def start_stateful(self, rack):
        self.start_server(rack, 0, "--state", self.folder / f"state-{rack}")

    def both(self):
        return [self.servers[rack][0] for rack in "ab"]

    def snapshot(self, job):
        """The round, and the file of each rack's server."""
        first, second = self.both()
        done = run(processes.BIN / "phubctl", "--server", first.control, "--json", "snapshot", job,
                   "--also", second.control)
        self.assertEqual(done.returncode, 0, done.stderr)
        decoder, text, taken = processes.json.JSONDecoder(), done.stdout.strip(), []
        while text:
            reply, end = decoder.raw_decode(text)
            taken.append(reply["snapshot"])
            text = text[end:].lstrip()
        self.assertEqual(len({reply["round"] for reply in taken}), 1, taken)
        return int(taken[0]["round"]), [reply["file"] for reply in taken]

    def test_it_goes_on_from_the_snapshots_of_one_round_after_a_restart(self):
        self.go_on()

    def start_with_snapshot(self, *more):
        """Worker 0 writes half.safetensors, with a snapshot."""
        first = ("--checkpoint", self.folder / "half.safetensors", "--snapshot")
        return [self.start_worker(rack, index, self.RACKS, "--job", "half", *more, *(() if index else first))
                for index, rack in enumerate("aab")]

    def test_a_workers_snapshot_is_of_all_racks_and_goes_on_bit_by_bit(self):
        whole, _ = self.train(self.RACKS, "--max-steps", "12", name="whole")
        self.finish(self.start_with_snapshot("--max-steps", "7"))
        half = (self.folder / "half.safetensors").read_bytes()
        header = processes.json.loads(half[8:8 + int.from_bytes(half[:8], "little")])
        words = header["__metadata__"]["snapshots"].replace(",", "").split()
        kept = dict(zip(words[2::3], words[0::3]))
        self.assertEqual(list(kept), [server.control for server in self.both()])
        for server in self.both():
            server.table("restore", kept[server.control], "--as", "on")
        on, _ = self.train(self.RACKS, "--max-steps", "12", "--resume", self.folder / "half.safetensors",
                           name="on")
        self.assertEqual(on, whole)

    def test_a_workers_snapshot_fails_by_name_where_another_rack_keeps_no_state(self):
        self.servers["b"][0].close()
        self.start_server("b")
        first, *others = self.start_with_snapshot("--max-steps", "2")
        said = [process.communicate(timeout=DEADLINE)[1] for process in (first, *others)]
        self.assertRegex(said[0], "train.snapshot: .*rack b .*state_folder.*training goes on, and the model of step 2")
        self.assertEqual([process.returncode for process in (first, *others)], [0, 0, 0], said)

    def test_so_does_one_whose_racks_keep_back_parts_of_their_sums(self):
        self.go_on("--rack-density", "0.01")

    def go_on(self, *more):
        self.start_job(self.RACKS, "--job", "demo", *more)
        self.wait_until_it_trains("demo")
        taken, files = self.snapshot("demo")
        for process in self.workers:
            process.kill()
        for process in self.workers:
            process.communicate()
        for rack in "ab":
            process = self.servers[rack][0].process
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=DEADLINE), 0)
            self.servers[rack][0].close()
            self.start_stateful(rack)
        for server, file in zip(self.both(), files):
            server.table("restore", file, "--as", "again")
        steps = (*more, "--max-steps", str(taken - 1 + STEPS_MORE))
        again, _ = self.train(self.RACKS, *steps, name="again")
        whole, _ = self.train(self.RACKS, *steps, name="whole")
        self.assertEqual(again, whole)


class Secured(RacksTest):
    """TLS, tokens, tenants and encrypted data."""

    def setUp(self):
        super().setUp()
        self.pki = self.folder / "pki"
        made = run(processes.BIN / "phubctl", "pki", "init", self.pki, "--host", "localhost")
        self.assertEqual(made.returncode, 0, made.stderr)

        self.issue("rack", "rack")

    def issue(self, name, role):
        issued = run(processes.BIN / "phubctl", "pki", "issue", self.pki, name, "--role", role)
        self.assertEqual(issued.returncode, 0, issued.stderr)

    def files(self, who):
        return (f'ca: "{self.pki / who / "ca.pem"}" certificate: "{self.pki / who / "cert.pem"}" '
                f'key: "{self.pki / who / "key.pem"}"')

    def start_secured(self, proof):
        self.lay_out(more=f"security {{ {self.files('server')} encrypt_data: true }}\n"
                          f"rack_security {{ {proof} }}\n")
        for rack in "ab":
            self.start_server(rack, more=f'state_folder: "{self.folder / f"state-{rack}"}"\n')

    def admin(self, rack, *words):
        done = run(processes.BIN / "phubctl", "--server", self.addresses[rack][0], "--credentials",
                   self.pki / "admin", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def tenant(self, name, rack, *more):
        """Of a worker of this rack."""
        folder = self.pki / f"{name}-{rack}"
        self.issue(folder.name, "worker")
        self.admin(rack, "tenant", "create", name, *more)
        self.admin(rack, "tenant", "token", "create", name, "--save", folder / "token")
        return folder

    def start_tenants_job(self, folders, *more):
        return [self.start_worker(rack, index, "a:1,b:1", "--credentials", folders[rack], *more)
                for index, rack in enumerate("ab")]

    def test_a_tenants_job_spans_racks_over_encrypted_connections(self):
        self.start_secured(self.files("rack"))
        folders = {rack: self.tenant("red", rack, "--shared-id", "red-of-both") for rack in "ab"}
        self.finish(self.start_tenants_job(folders, "--max-steps", "6", "--job", "demo"))
        for rack in "ab":
            self.assertRegex(self.admin(rack, "job", "inspect", "demo", "--tenant", "red"), r"tenant +red\n")
            audit = self.admin(rack, "audit")
            self.assertRegex(audit, r"certificate rack +join as rack +[ab] for red/demo +done")

    def test_tenants_of_one_name_that_nobody_has_said_are_one_do_not_meet(self):
        self.start_secured(self.files("rack"))
        folders = {"a": self.tenant("red", "a", "--shared-id", "one"), "b": self.tenant("red", "b")}
        for error in self.errors(self.start_tenants_job(folders, "--job", "demo")):
            self.assertRegex(error, "rack [ab]")
            self.assertIn("--shared-id", error)
        audits = self.admin("a", "audit") + self.admin("b", "audit")
        self.assertRegex(audits, r"join as rack +[ab] for red/demo +.*nobody has said")

    def test_a_server_that_may_not_join_is_refused_by_name(self):
        self.start_secured(self.files("worker"))
        folders = {rack: self.tenant("red", rack) for rack in "ab"}
        self.all_say(self.start_tenants_job(folders), "rack [ab]")


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

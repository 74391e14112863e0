"""A job over two racks as people and programs see it at each rack's server.

Usage: rack_view_test.py BIN
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import until  # noqa: E402
from racks import free_ports  # noqa: E402

RACKS = "a:2,b:2"


class RackViewTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        racks = " ".join(f'racks {{ name: "{name}" servers: "{address}" }}'
                         for name, address in zip("ab", addresses))
        self.servers = []
        for name, address in zip("ab", addresses):
            config = pathlib.Path(folder.name) / f"{name}.textproto"
            config.write_text(f'control_address: "{address}" rack: "{name}" allow_oversubscription: true directory {{ {racks} }}')
            self.servers.append(processes.Server("--config", config, "--http", "127.0.0.1:0",
                                                 control=address))
            self.addCleanup(self.servers[-1].close)
        self.workers = []
        self.addCleanup(self.end_workers)

    def end_workers(self):
        for process in self.workers:
            process.kill()
            process.communicate()

    def start(self, *more):
        for index in range(4):
            self.workers.append(subprocess.Popen(
                [processes.BIN / "phub-worker", "train", processes.CONFIG, "--racks", RACKS,
                 "--server", self.servers[index // 2].control, "--index", str(index),
                 "--transport", "tcp", "--epochs", "1000", "--batch", "8", *more],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def job(self, rack):
        return self.servers[rack].ctl("job", "inspect", "mnist")["job"]

    def timed(self, rack, rounds=20):
        job = self.job(rack)
        return job if job.get("timing", {}).get("rounds", 0) >= rounds else None

    def test_a_running_job_is_seen_with_its_rack_and_its_links(self):
        self.start()
        until(lambda: all(server.running() for server in self.servers), "the job runs in both racks")
        a, b = (until(lambda rack=rack: self.timed(rack), "rounds are timed") for rack in (0, 1))
        for job, own, other, first in ((a, "a", "b", 0), (b, "b", "a", 2)):
            self.assertEqual(job["rack"], own)
            self.assertEqual([m["worker_index"] for m in job["members"] if not m["rack"]], [first, first + 1])
            self.assertEqual([m["rack"] for m in job["members"] if m["rack"]], [other])
            timing = job["timing"]
            self.assertEqual([w["worker_index"] for w in timing["workers"]], [first, first + 1])
            self.assertEqual([(r["rack"], r["last_share"]) for r in timing["racks"]], [(other, 1.0)])
            self.assertGreater(timing["racks"][0]["arrival_seconds"], 0)
            parts = ("compute", "push", "wait", "racks", "aggregate", "reply")
            self.assertAlmostEqual(sum(timing[f"{part}_seconds"] for part in parts), timing["round_seconds"])
            link, = job["rack_links"]
            self.assertEqual((link["rack"], link["workers"]), (other, 2))
            for way in ("up_sent", "up_received", "down_received", "down_sent"):
                self.assertGreater(link[f"bytes_{way}"], 0)
        self.check_tables()
        self.check_page_and_metrics()

    def check_tables(self):
        for server, own, first in ((self.servers[0], "a", 0), (self.servers[1], "b", 2)):
            shown = server.table("job", "inspect", "mnist")
            for words in (f"2/2 of rack {own}", f"{own} (here)", "tree 2 of 2", "LINK TO RACK", "MiB/s"):
                self.assertIn(words, shown)
            self.assertRegex(server.table("job", "list"), rf"2/2\s+{own} of 2 ")
            self.assertRegex(server.table("top", "--once", "--interval-ms", "200"), rf"2/2\s+{own} ")
            self.assertIn("wait for other racks", server.table("job", "explain", "mnist"))
            other = self.servers[1] if own == "a" else self.servers[0]
            found = server.ctl("job", "explain", "mnist", "--also", other.control)
            self.assertNotIn("other racks", [finding["topic"] for finding in found["findings"]])
            plan = server.ctl("job", "plan", "mnist")
            self.assertEqual([rack["rack"] for rack in plan["racks"]], ["a", "b"])
            self.assertEqual(sum(rack["bytes"] for rack in plan["racks"]), sum(load["bytes"] for load in plan["loads"]))
            self.assertIn("ROOT IN RACK", server.table("job", "plan", "mnist"))
            names = {event["args"]["name"].split(" (")[0] for event in server.ctl("trace", "mnist")["traceEvents"]
                     if event["name"] == "process_name"}
            self.assertEqual(names, {"core 0", "core 1", f"worker {first}", f"worker {first + 1}", f"rack {'b' if own == 'a' else 'a'}"})

    def check_page_and_metrics(self):
        def get(server, path):
            with urllib.request.urlopen(f"http://{server.http}{path}", timeout=processes.DEADLINE) as reply:
                return reply.read().decode()
        job, = json.loads(get(self.servers[1], "/api/state"))["jobs"]
        self.assertEqual((job["rack"], [link["rack"] for link in job["rack_links"]]), ("b", ["a"]))
        metrics = get(self.servers[1], "/metrics")
        labels = 'phub_job="mnist",tenant="default"'
        for line in (f"phub_job_workers{{{labels}}} 2\n", f"phub_job_members{{{labels}}} 2\n",
                     f'phub_member_pushes_total{{{labels},worker="3"', f'phub_job_round_part_seconds{{{labels},part="racks"}}',
                     f'phub_job_rack_sums_up_bytes_total{{{labels},rack="a"}}'):
            self.assertIn(line, metrics)

    def test_all_that_goes_up_to_a_rack_is_what_it_counts_from_below(self):
        self.start("--max-steps", "30")
        for process in self.workers:
            self.assertEqual(process.wait(timeout=processes.DEADLINE), 0)
        a, b = (until(lambda rack=rack: self.job(rack)["state"] == "ended" and self.job(rack), "the job ends")
                for rack in (0, 1))
        (from_a,), (from_b,) = a["rack_links"], b["rack_links"]
        for one, other in ((from_a, from_b), (from_b, from_a)):
            self.assertGreater(one["bytes_up_sent"], 0)
            # Words of worker 0 go up as well, and are no sums where they arrive.
            self.assertGreaterEqual(one["bytes_up_sent"], other["bytes_down_received"])
            self.assertEqual(one["bytes_down_sent"], other["bytes_up_received"])
            self.assertEqual(one["bytes_up_received"] % a["statistics"]["rounds"], 0)

    def test_a_job_is_made_before_its_workers_with_its_racks(self):
        self.servers[1].ctl("job", "create", "wide", "--racks", "a:4,b:3", "--rack-shape", "chain", "--key", "w:100000")
        job = self.servers[1].ctl("job", "inspect", "wide")["job"]
        self.assertEqual((job["rack"], job["spec"]["workers"], job["spec"]["rack_shape"]), ("b", 7, "chain"))
        self.assertRegex(self.servers[1].table("job", "list"), r"0/3\s+b of 2 ")
        self.assertIn("0/3 workers of rack b", self.servers[1].table("job", "explain", "wide"))
        wrong = processes.run(processes.BIN / "phubctl", "--server", self.servers[1].control, "job", "create", "x",
                              "--rack-shape", "chain")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("rack_shape: chain contradicts racks: nothing", wrong.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

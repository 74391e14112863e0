"""Runs small racks with phub-bench rack; whatever ends a run, nothing of it stays.

Usage: rack_process_test.py PATH_OF_PHUB_BENCH; exit code 77 where racks cannot be built
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from processes import until  # noqa: E402

BENCH = ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs
SPACES = "/run/netns"
ONE_RACK = """
racks { workers: 2 servers: 1 }
links { worker_mbit: 400 server_factor: 2 }
exchange { elements: 100000 rounds: 2 blocks: 2 }
"""
TWO_RACKS = """
racks { workers: 2 servers: 1 }
racks { workers: 1 servers: 1 uplink_mbit: 300 }
links { worker_mbit: 400 server_factor: 2 oversubscription: 2 }
exchange { elements: 100000 rounds: 2 blocks: 1 rule: "nesterov" dtype: "bf16" }
"""
ENDLESS = "racks { workers: 2 servers: 1 } exchange { rounds: 1000000 timeout_s: 86400 }"
# Equal bits from run to run: nothing is measured to choose a kernel.
TRAINING = """
links { worker_mbit: 400 server_factor: 2 }
training {
  kernels: "onednn"
  config: "CONFIG"
  worker { train { epochs: 1 max_steps: 30 batch: 32 } }
}
"""
RACKS_OF_TWO = "racks { workers: 2 servers: 1 } racks { workers: 2 servers: 1 } links { worker_mbit: 400 }"
ENDLESS_TRAINING = """training { kernels: "onednn" worker {
  data { format: "synthetic" } train { epochs: 1000000 batch: 8 evaluate: false } } }"""
PEERS = {"gloo-ring": "phub-bench-gloo", "gloo-halving-doubling": "phub-bench-gloo",
         "openmpi": "phub-bench-openmpi"}
CONFIG = pathlib.Path(__file__).parents[3] / "configs" / "mnist.textproto"


def rack(*words, **more):
    return subprocess.run([BENCH, "rack", *words], capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS, **more)


def spaces_of(pid):
    names = os.listdir(SPACES) if os.path.isdir(SPACES) else []
    return sorted(name for name in names if name.startswith(f"phub-rack-{pid}-"))


def pids_in(space):
    done = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# Open MPI's own daemons lose each other now and then on a busy machine, also by direct routes, and mpirun says so.
OPEN_MPI_GAVE_UP = "ended with exit code 213"


class RackProcessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.scratch = os.path.join(self.folder, "scratch")
        os.mkdir(self.scratch)

    def scenario(self, text):
        path = os.path.join(self.folder, "s.textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def report(self, text):
        for _ in range(6):
            done = rack("run", self.scenario(text), "--json", env={**os.environ, "TMPDIR": self.scratch})
            if OPEN_MPI_GAVE_UP not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.scratch), [])
        self.said = done.stderr
        return json.loads(done.stdout)

    def start_endless(self):
        """A run with its workers at work, and the processes in its namespaces."""
        process = subprocess.Popen(
            [BENCH, "rack", "run", self.scenario(ENDLESS)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": self.scratch})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        until(lambda: process.poll() is not None or
              sum(len(pids_in(space)) for space in spaces_of(process.pid)) == 3,
              "three processes in the racks")
        self.assertIsNone(process.poll())
        self.assertEqual(len(spaces_of(process.pid)), 4)
        return process, [pid for space in spaces_of(process.pid) for pid in pids_in(space)]

    def test_one_rack_moves_the_payload_over_each_link_once_each_way(self):
        report = self.report(ONE_RACK)
        self.assertRegex(self.said, r"^phub-bench: \[-{20}\]   0 %  verifying phub\n")
        self.assertRegex(self.said, r"\nphub-bench: \[#{10}-{10}\]  50 %  block 2 of 2: phub, about \d+:\d\d left\n")
        self.assertTrue(report["verified"])
        self.assertEqual(len(report["seconds_of_blocks"]), 2)
        self.assertEqual(report["bounding_link"], "r0s0")
        links = {link["link"]: link for link in report["links"]}
        self.assertEqual(sorted(links), ["r0s0", "r0w0", "r0w1"])
        for name, payload in (("r0s0", 800000), ("r0w0", 400000), ("r0w1", 400000)):
            for way in ("up", "down"):
                self.assertEqual(links[name][f"payload_{way}_bytes"], payload)
                self.assertGreater(links[name][f"counted_{way}_bytes"], payload)
                self.assertLess(links[name][f"counted_{way}_bytes"], payload * 1.9)
        # What is counted beside the timed rounds and the wait for replies only makes it longer.
        self.assertGreater(links["r0s0"]["busy_up"], 0)
        self.assertLess(links["r0s0"]["busy_up"], 1.05)

    def test_two_racks_exchange_over_their_uplinks(self):
        report = self.report(TWO_RACKS)
        self.assertTrue(report["verified"])
        links = {link["link"]: link for link in report["links"]}
        self.assertEqual(links["r0 uplink"]["mbit"], 400)
        self.assertEqual(links["r1 uplink"]["mbit"], 300)
        for link in ("r0 uplink", "r1 uplink"):
            # Two workers of one rack and one of the other, each with half of its 200 kB.
            self.assertEqual(links[link]["payload_up_bytes"], 300000)
            self.assertGreater(links[link]["counted_up_bytes"], 300000)

    def test_a_round_takes_as_long_as_its_messages_in_a_row(self):
        flat = self.report("""racks { workers: 2 servers: 1 } links { worker_mbit: 400 latency_us: 30000 }
            exchange { elements: 1000 rounds: 2 blocks: 2 }""")
        self.assertEqual((flat["latency_us"], flat["least_latency_seconds"]), (30000, 0.06))
        # From a worker two racks up, and two down to a worker.
        joined = self.report("racks { workers: 1 servers: 1 } " * 3 + """shape: "chain"
            links { worker_mbit: 400 latency_us: 15000 } exchange { elements: 30000 rounds: 2 blocks: 2 }""")
        self.assertEqual(joined["least_latency_seconds"], 0.09)
        for report in (flat, joined):
            self.assertTrue(report["verified"])
            # Who is told first begins a little before the others.
            self.assertGreater(min(report["seconds_of_blocks"]), 0.9 * report["least_latency_seconds"])

    def test_a_worker_exchanges_with_its_own_host_s_server_through_memory(self):
        exchange = "links { worker_mbit: 400 } exchange { elements: 100000 rounds: 4 blocks: 2 }"
        flat = self.report("racks { workers: 2 servers: 2 colocated: true }" + exchange)
        joined = self.report("racks { workers: 1 servers: 1 colocated: true } " * 2 +
                             'shape: "multicolour" peers: "phub-chain" ' + exchange)
        self.assertEqual([peer["system"] for peer in joined["peers"]], ["phub-chain"])
        self.assertEqual(len(joined["peers"][0]["seconds_of_blocks"]), 2)
        for report in (flat, joined):
            self.assertTrue(report["verified"])
            self.assertTrue(report["colocated"])
            hosts = [link for link in report["links"] if not link["link"].endswith("uplink")]
            self.assertEqual(len(hosts), 2)
            for link in hosts:
                # Of 400 kB pushed and as much pulled, the half that is the other host's.
                self.assertEqual(link["payload_up_bytes"], 400000)
                self.assertGreater(link["counted_up_bytes"], 400000)
                self.assertLess(link["counted_up_bytes"], 600000)

    def test_all_workers_on_their_server_s_host_need_no_link(self):
        report = self.report("""racks { workers: 2 servers: 1 colocated: true }
            exchange { elements: 100000 rounds: 4 blocks: 2 }""")
        self.assertTrue(report["verified"])
        link, = report["links"]
        self.assertEqual(link["payload_up_bytes"], 0)
        self.assertLess(link["counted_up_bytes"], 4000)

    def test_what_a_short_queue_drops_is_counted_and_sent_again(self):
        # Four workers push at once into a port that is as fast as one of them.
        report = self.report("""racks { workers: 4 servers: 1 }
            links { worker_mbit: 200 queue_kib: 40 burst_kib: 32 }
            exchange { elements: 500000 rounds: 3 blocks: 1 }""")
        links = {link["link"]: link for link in report["links"]}
        self.assertGreater(links["r0s0"]["dropped_down"], 0)
        self.assertGreater(sum(links[f"r0w{i}"]["resent"] for i in range(4)), 0)

    def test_a_terminal_has_a_bar_that_is_drawn_over_itself(self):
        reader, writer = os.openpty()
        self.addCleanup(os.close, reader)
        done = subprocess.run([BENCH, "rack", "run", self.scenario(ONE_RACK), "--json"], stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        said = os.read(reader, 65536).decode()
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("\r\033[K[##########----------]  50 %  block 2 of 2: phub, about ", said)
        self.assertNotIn("\n", said)

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is missing")
    def test_peers_exchange_in_turn_over_the_same_links(self):
        peers = [peer for peer, program in PEERS.items()
                 if os.access(os.path.join(os.path.dirname(BENCH), program), os.X_OK)]
        if not peers:
            self.skipTest("no peer was built")
        report = self.report(f"""racks {{ workers: 2 servers: 1 }} racks {{ workers: 2 }}
            links {{ worker_mbit: 400 }} servers {{ tcp_congestion_control: "reno" }}
            exchange {{ elements: 100000 rounds: 2 blocks: 2 }} peers: {json.dumps(peers)}""")
        self.assertTrue(report["verified"])
        self.assertEqual([peer["system"] for peer in report["peers"]], peers)
        for peer in report["peers"]:
            self.assertEqual(len(peer["seconds_of_blocks"]), 2)
            links = {link["link"]: link for link in peer["links"]}
            # Servers have no part in it. Half of all bytes, at the least, cross from rack to rack.
            self.assertLess(links["r0s0"]["counted_up_bytes"], 100000)
            self.assertGreater(links["r0 uplink"]["counted_up_bytes"], 400000)
            self.assertGreater(links["r1w1"]["counted_up_bytes"], 400000)

    def test_two_racks_train_to_the_bits_of_one(self):
        training = TRAINING.replace("CONFIG", str(CONFIG))
        one = self.report("racks { workers: 4 servers: 2 }" + training)
        two = self.report("racks { workers: 2 servers: 1 } " * 2 + training)
        for report in (one, two):
            self.assertEqual((report["workers"], report["steps"], report["epochs"]), (4, 30, 1))
            self.assertGreater(report["images_per_second_p50"], 0)
            self.assertRegex(self.said, r"^phub-bench: the workers begin\nphub-bench: \[#*-*\] +\d+ %  training, epoch 1 of 1, about ")
            self.assertGreater(report["own_busy"], 0)
        # Ten classes: guessing has an accuracy of 10 %.
        self.assertGreater(one["test_accuracy"], 0.3)
        for field in ("loss", "train_accuracy", "test_accuracy"):
            self.assertEqual(one[field], two[field])
        # LeNet has 431,080 parameters: each worker's half for the server that is in the other rack.
        uplinks = [link for link in two["links"] if link["link"].endswith("uplink")]
        self.assertEqual(len(uplinks), 2)
        for link in uplinks:
            for way in ("up", "down"):
                # A step or two may be over before anybody looks.
                self.assertGreater(link[f"counted_{way}_bytes"], 4 * 431080 * 2 * 0.8)
                self.assertLess(link[f"counted_{way}_bytes"], 4 * 431080 * 2 * 1.5)

    def test_a_training_that_cannot_begin_says_why(self):
        done = rack("run", self.scenario("""racks { workers: 2 servers: 1 }
            training { worker { data { format: "idx" path: "none" } } }"""))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none", done.stderr)

    def fault(self, fault, work="exchange { elements: 100000 wait_s: 20 }", code=0, more=""):
        """The report of two racks, where this has gone wrong."""
        done = rack("run", self.scenario(f"{RACKS_OF_TWO} {work} faults {{ {fault} }} {more}"), "--json",
                    env={**os.environ, "TMPDIR": self.scratch})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.scratch), [])
        return {end["worker"]: end for end in json.loads(done.stdout)["ends"]}, done.stderr

    def test_a_killed_server_is_named_by_every_worker(self):
        for work in ("exchange { elements: 100000 }", ENDLESS_TRAINING):
            ends, _ = self.fault("kind: KILL_SERVER rack: 1 server: 0 at_s: 0.1", work)
            self.assertEqual(sorted(ends), ["r0w0", "r0w1", "r1w0", "r1w1"])
            for end in ends.values():
                self.assertEqual(end["end"], "error")
                self.assertIn("10.77.1.1", end["error"])

    def test_a_killed_worker_is_named_by_the_others(self):
        ends, _ = self.fault("kind: KILL_WORKER rack: 1 worker: 1 at_round: 2")
        self.assertEqual(ends.pop("r1w1")["end"], "killed")
        self.assertEqual(len(ends), 3)
        for end in ends.values():
            self.assertIn("worker 3 (", end["error"])

    def test_a_cut_link_is_noticed_at_both_ends(self):
        ends, _ = self.fault("kind: LINK_DOWN rack: 0 worker: 1")
        self.assertRegex(ends["r0w1"]["error"], r"10\.77\.[01]\.1:")
        self.assertIn("worker 1 (", ends["r1w0"]["error"])

    def test_a_cut_uplink_is_noticed_in_both_racks(self):
        for work in ("exchange { elements: 100000 }", ENDLESS_TRAINING):
            ends, _ = self.fault("kind: UPLINK_DOWN rack: 1", work)
            self.assertEqual({end["end"] for end in ends.values()}, {"error"})

    def test_a_rack_that_starts_late_is_waited_for_or_named(self):
        ends, _ = self.fault("kind: SLOW_START rack: 1 for_s: 1")
        self.assertEqual({end["end"] for end in ends.values()}, {"done"})
        ends, _ = self.fault("kind: SLOW_START rack: 1 for_s: 6", "exchange { wait_s: 2 }")
        self.assertEqual({end["end"] for end in ends.values()}, {"error"})

    def test_a_worker_that_hangs_fails_the_run(self):
        # A cut link is noticed by heartbeats, and not in one second.
        ends, said = self.fault("kind: LINK_DOWN rack: 0 worker: 1", code=1, more="fault_deadline_s: 1")
        self.assertEqual({end["end"] for end in ends.values()}, {"hung"})
        self.assertIn("r0w0 has not ended 1 s after the fault", said)

    def test_an_interrupt_removes_all(self):
        process, pids = self.start_endless()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_SECONDS)
        self.assertEqual(process.returncode, 1)
        self.assertIn("interrupted", said)
        self.assertEqual(spaces_of(process.pid), [])
        self.assertEqual([pid for pid in pids if runs(pid)], [])
        self.assertEqual(os.listdir(self.scratch), [])

    def test_what_a_killed_run_leaves_is_removed_later(self):
        process, pids = self.start_endless()
        process.kill()
        process.communicate(timeout=DEADLINE_SECONDS)
        self.assertEqual(len(spaces_of(process.pid)), 4)
        self.assertEqual(len(os.listdir(self.scratch)), 1)
        done = rack("clean", "--json", env={**os.environ, "TMPDIR": self.scratch})
        self.assertEqual(done.returncode, 0, done.stderr)
        removed = json.loads(done.stdout)["removed"]
        self.assertEqual(len([name for name in removed if f"phub-rack-{process.pid}-" in name]), 4)
        self.assertEqual(spaces_of(process.pid), [])
        self.assertEqual(os.listdir(self.scratch), [])
        until(lambda: not any(runs(pid) for pid in pids), "no process of the run is left")

    def test_a_living_run_is_left_alone(self):
        process, _ = self.start_endless()
        self.assertEqual(rack("clean").returncode, 0)
        self.assertEqual(len(spaces_of(process.pid)), 4)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_SECONDS)
        self.assertEqual(spaces_of(process.pid), [])

    def test_a_wrong_scenario_is_refused_with_its_place(self):
        done = rack("run", self.scenario("racks { workers: 1 servers: 1 }\nlinks { mtu: 9 }"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("s.textproto:2:9: links.mtu: 9 is outside", done.stderr)
        self.assertEqual(rack("run", os.path.join(self.folder, "none")).returncode, 2)

    @unittest.skipUnless(shutil.which("setpriv"), "setpriv is missing")
    def test_without_rights_it_says_which(self):
        done = subprocess.run(["setpriv", "--bounding-set=-all", BENCH, "rack", "run",
                               self.scenario(ONE_RACK)], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS)
        self.assertEqual(done.returncode, 1)
        self.assertIn("CAP_NET_ADMIN: run as root", done.stderr)


if __name__ == "__main__":
    BENCH = sys.argv.pop(1)
    able = rack("check")
    if able.returncode != 0:
        print("SKIPPED:", able.stderr.strip())
        sys.exit(77)
    unittest.main(verbosity=2)

"""Runs every subcommand of phub-bench with tiny sizes and checks what it prints.

Usage: bench_test.py PATH_OF_PHUB_BENCH
"""
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
from processes import until  # noqa: E402

BENCH = ""
DEADLINE_SECONDS = 120  # only bounds a test that hangs
FIELDS = [
    "bench", "system", "transport", "workers", "server_cores", "elements", "dtype", "rule",
    "iterations", "seconds_p50", "seconds_p99", "gigabytes_per_second", "verified", "checksum",
]


def run(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True,
                          timeout=DEADLINE_SECONDS)


def built(peer):
    return os.access(os.path.join(os.path.dirname(BENCH), "phub-bench-" + peer), os.X_OK)


def peers():
    return [peer for peer in ("gloo", "openmpi") if built(peer)]


def processes_of(scratch):
    """Processes whose environment says that they belong to one test."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as environment:
                if ("TMPDIR=" + scratch).encode() in environment.read().split(b"\0"):
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass  # it ended, or is not ours
    return found


class BenchTest(unittest.TestCase):
    def lines(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        objects = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertTrue(objects)
        for line in objects:
            for field in FIELDS:
                self.assertIn(field, line)
            self.assertTrue(line["verified"], line)
            self.assertGreater(line["seconds_p50"], 0)
            self.assertGreaterEqual(line["seconds_p99"], line["seconds_p50"])
            self.assertGreater(line["gigabytes_per_second"], 0)
        return objects

    def test_all_systems_agree_on_the_sum(self):
        arguments = ["exchange", "--transport", "shm,tcp", "--workers", "3", "--elements", "5003",
                     "--iterations", "6", "--blocks", "3", "--roof"]
        if peers():
            arguments += ["--peers", ",".join(peers())]
        objects = self.lines(*arguments)
        self.assertEqual(len({line["checksum"] for line in objects}), 1, objects)
        systems = {(line["system"], line["transport"]) for line in objects}
        self.assertIn(("phub", "shm"), systems)
        self.assertIn(("phub", "tcp"), systems)
        self.assertIn(("roof", "memory"), systems)
        if "gloo" in peers():
            self.assertIn(("gloo-ring", "tcp"), systems)
            self.assertIn(("gloo-halving-doubling", "tcp"), systems)
        if "openmpi" in peers():
            self.assertIn(("openmpi", "shm"), systems)
            self.assertIn(("openmpi", "tcp"), systems)
        for line in objects:
            self.assertEqual(line["iterations"], 6)
            self.assertEqual(line["workers"], 3)
            self.assertLessEqual(line["ratio_to_phub_min"], line["ratio_to_phub_p50"])
            self.assertLessEqual(line["ratio_to_phub_p50"], line["ratio_to_phub_max"])
            if line["system"] == "phub":
                self.assertEqual(line["ratio_to_phub_p50"], 1)
                self.assertGreaterEqual(line["server_job_bytes"], 4 * 5003)

    def test_every_rule_is_verified_over_every_wire_type(self):
        for dtype in ("fp32", "fp16", "bf16"):
            objects = self.lines("exchange", "--workers", "2", "--elements", "20000", "--keys", "7",
                                 "--dtype", dtype, "--rule", "sum,mean,sgd,momentum,nesterov",
                                 "--iterations", "4", "--blocks", "2")
            self.assertEqual([line["rule"] for line in objects],
                             ["sum", "mean", "sgd", "momentum", "nesterov"])

    def test_arrival_order_and_resnet50_proportions_are_verified(self):
        objects = self.lines("exchange", "--transport", "tcp", "--workers", "2", "--order",
                             "arrival", "--elements", "100000", "--keys", "resnet50",
                             "--iterations", "4", "--blocks", "2")
        self.assertEqual(objects[0]["order"], "arrival")

    def test_encrypted_tcp_takes_turns_with_plain_tcp(self):
        objects = self.lines("exchange", "--transport", "tcp,shm", "--encrypt", "--workers", "2",
                             "--elements", "50000", "--iterations", "4", "--blocks", "2")
        self.assertEqual([(line["transport"], line["encrypted"]) for line in objects],
                         [("tcp", False), ("tcp", True), ("shm", False)])
        self.assertEqual(len({line["checksum"] for line in objects}), 1)
        refused = run("exchange", "--encrypt")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--transport", refused.stderr)

    def test_over_long_links_a_round_takes_their_way_there_and_back(self):
        there = 0.02
        objects = self.lines("exchange", "--transport", "tcp", "--tcp-delay-us", "20000", "--workers", "2",
                             "--servers", "2", "--elements", "20000", "--iterations", "4", "--blocks", "2")
        self.assertGreater(objects[0]["seconds_p50"], 0.9 * 2 * there)  # who is told first begins before the others
        refused = run("exchange", "--transport", "shm", "--tcp-delay-us", "20000")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--tcp-delay-us", refused.stderr)

    def test_rounds_with_votes_take_turns_with_rounds_without(self):
        objects = self.lines("exchange", "--transport", "shm,tcp", "--vote", "--workers", "2",
                             "--dtype", "fp16", "--rule", "momentum", "--elements", "50000",
                             "--iterations", "4", "--blocks", "2")
        self.assertEqual([(line["transport"], line["votes"]) for line in objects],
                         [("shm", False), ("shm", True), ("tcp", False), ("tcp", True)])
        self.assertEqual(len({line["checksum"] for line in objects}), 1)  # the same bits
        refused = run("exchange", "--vote")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--vote", refused.stderr)

    def test_a_slow_worker_is_waited_for_by_every_policy_of_rounds(self):
        words = ["stragglers", "--workers", "3", "--elements", "1000", "--compute-ms", "1",
                 "--seconds", "0.2", "--blocks", "1", "--sleep-ms", "5"]
        for transport in ("shm", "tcp"):
            done = run(*words, "--transport", transport, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([(line["policy"], line["quorum"]) for line in lines],
                             [("all, nobody slow", 3), ("all", 3), ("backup", 2), ("ssp", 1),
                              ("async", 1)])
            for line in lines:
                self.assertGreaterEqual(line["round_seconds"], 0.001)
                self.assertGreater(line["updates_per_second"], 0)
        refused = run(*words, "--backups", "3")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--backups: 3 of 3 workers", refused.stderr)

    def test_two_servers_share_the_keys(self):
        objects = self.lines("exchange", "--workers", "2", "--servers", "2", "--server-cores", "1",
                             "--elements", "50000", "--iterations", "2", "--blocks", "2")
        self.assertEqual(objects[0]["servers"], 2)

    def test_the_roof_prints_each_pass(self):
        objects = self.lines("roof", "--workers", "2", "--elements", "10007", "--threads", "1",
                             "--state", "1", "--iterations", "4", "--blocks", "2")
        self.assertEqual([line["rule"] for line in objects], ["sum", "nesterov", "copy", "triad"])
        self.assertEqual([line["streams"] for line in objects], [4, 6, 3, 4])
        objects = self.lines("roof", "--workers", "2", "--elements", "10007", "--threads", "1",
                             "--state", "2", "--iterations", "4", "--blocks", "2")
        self.assertEqual([line["rule"] for line in objects],
                         ["sum", "nesterov", "adam", "copy", "triad"])
        self.assertEqual(objects[2]["streams"], 8)

    def test_chunks_sweeps_the_sizes(self):
        objects = self.lines("chunks", "--workers", "2", "--elements", "30000", "--sizes",
                             "4,32,64", "--iterations", "2", "--blocks", "2")
        self.assertEqual([line["chunk_kib"] for line in objects], [4, 32, 64])
        self.assertEqual(len({line["checksum"] for line in objects}), 1)

    def test_tall_and_wide_fused_and_unfused_give_the_same_bits(self):
        for rule in ("sgd", "nesterov", "adam", "adamw", "adagrad"):
            objects = self.lines("aggregate", "--workers", "3", "--elements", "100003", "--keys",
                                 "resnet50", "--threads", "1", "--iterations", "4", "--blocks", "2",
                                 "--rule", rule)
            self.assertEqual([line["system"] for line in objects],
                             ["tall-fused", "tall-unfused", "wide-fused", "wide-unfused", "roof"])
            self.assertEqual(len({line["checksum"] for line in objects[:-1]}), 1)

    def test_selectors_select_so_many_and_all_but_the_same(self):
        objects = self.lines("select", "--elements", "100003", "--density", "0.01",
                             "--iterations", "4", "--blocks", "2")
        self.assertEqual([line["system"] for line in objects], ["exact", "histogram", "mstopk"])
        self.assertEqual({line["selected"] for line in objects}, {1000})
        self.assertEqual(objects[0]["checksum"], objects[1]["checksum"])
        self.assertGreater(objects[2]["energy_of_exact"], 0.999)

    def test_the_end_of_a_connection_is_no_failure_of_it(self):
        for _ in range(40):  # one in ten failed while the other end left with its last write
            done = run("transport", "--transport", "tcp", "--writes", "128", "--round-trips", "128",
                       "--batches", "64", "--blocks", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([line["measure"] for line in lines],
                             ["bandwidth, batches of 64", "half a round trip"])
            self.assertTrue(all(line["verified"] for line in lines), lines)

    def test_the_bars_are_printed_with_their_measures(self):
        if len(peers()) < 2:
            self.skipTest("needs both peers")
        done = run("bars", "--elements", "20000", "--iterations", "4", "--blocks", "2",
                   "--small-iterations", "4", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        objects = [json.loads(line) for line in done.stdout.splitlines()]
        bars = [line for line in objects if line["bench"] == "bars"]
        self.assertEqual(len(bars), 11)
        for bar in bars:
            self.assertEqual(bar["met"], bar["value"] <= bar["limit"] if bar["at_most"]
                             else bar["value"] >= bar["limit"])
        small = [line for line in objects if line.get("elements") == 8192]
        self.assertEqual({line["transport"] for line in small}, {"shm", "tcp"})

    def test_tables_are_for_people(self):
        done = run("exchange", "--workers", "2", "--elements", "1000", "--iterations", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("server memory:", done.stdout)
        self.assertIn("time / phub", done.stdout)
        self.assertEqual(done.stderr, "")  # no progress where there is no terminal

    def test_bad_input_ends_with_code_2_and_names_the_option(self):
        for arguments, word in [
                ([], "wants a command"),
                (["exchange", "--workers", "0"], "--workers"),
                (["exchange", "--transport", "pigeon"], "--transport"),
                (["exchange", "--keys", "many"], "--keys"),
                (["exchange", "--elements", "0"], "--elements"),
                (["exchange", "--rule", "nesterov", "--systems", "openmpi"], "openmpi"),
                (["exchange", "--dtype", "fp16", "--roof"], "--no-roof"),
                (["chunks", "--sizes", "0"], "--sizes"),
                (["roof", "--threads", "4096"], "--threads"),
                (["select", "--density", "2"], "--density"),
                (["aggregate", "--rule", "rmsprop"], "--rule")]:
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")
            error = json.loads(run(*arguments, "--json").stderr)["error"]
            self.assertEqual(error["code"], "INVALID_ARGUMENT")
            self.assertIn(word, error["message"])

    def start_endless(self, scratch):
        systems = "phub"
        if "gloo" in peers():
            systems += ",gloo-ring"
        if "openmpi" in peers():
            systems += ",openmpi"
        bench = subprocess.Popen(
            [BENCH, "exchange", "--systems", systems, "--workers", "2", "--elements", "8192",
             "--iterations", "10000000", "--blocks", "1000"], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=scratch))
        until(lambda: len(processes_of(scratch)) >= 4, "four processes")
        return bench

    def test_an_interrupted_bench_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as scratch:
            bench = self.start_endless(scratch)
            bench.send_signal(signal.SIGINT)
            _, errors = bench.communicate(timeout=DEADLINE_SECONDS)
            self.assertEqual(bench.returncode, 1)
            self.assertIn("interrupted", errors)
            until(lambda: not processes_of(scratch), "no process is left")
            self.assertEqual(os.listdir(scratch), [])

    def test_a_killed_bench_takes_its_processes_along(self):
        with tempfile.TemporaryDirectory() as scratch:
            bench = self.start_endless(scratch)
            bench.kill()
            bench.communicate(timeout=DEADLINE_SECONDS)
            until(lambda: not processes_of(scratch), "no process is left")

    def test_a_killed_worker_ends_the_run_and_is_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            bench = self.start_endless(scratch)

            def workers():
                found = []
                for pid in processes_of(scratch):
                    try:
                        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as command:
                            if "exchange-worker" in command.read():
                                found.append(pid)
                    except OSError:
                        pass
                return found

            until(lambda: len(workers()) == 2, "two workers")
            os.kill(workers()[0], signal.SIGKILL)
            _, errors = bench.communicate(timeout=DEADLINE_SECONDS)
            self.assertEqual(bench.returncode, 1)
            self.assertIn("was ended by signal 9", errors)
            until(lambda: not processes_of(scratch), "no process is left")


if __name__ == "__main__":
    BENCH = os.path.abspath(sys.argv.pop(1))
    unittest.main()

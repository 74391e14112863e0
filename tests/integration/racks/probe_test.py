"""The links between the servers of two racks, measured by real servers; the shapes that jobs take by
that, and by probes that say something else.

Usage: probe_test.py BIN
"""

import json
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import processes  # noqa: E402
from processes import Server, free_port, run  # noqa: E402

QUICK = ("--seconds", "0.01", "--mib", "8")


def probe_of(racks, address, slow=()):
    """Links of 8 Gb/s and 50 us between one server of each rack; `slow`: pairs a hundred times as slow."""
    text = "unix_seconds: 1790000000\n"
    for rack in racks:
        text += f'servers {{ rack: "{rack}" address: "{address[rack]}" }}\n'
    for i, a in enumerate(racks):
        for j, b in enumerate(racks):
            if i != j:
                byte = 1e-7 if (a, b) in slow else 1e-9
                text += (f"links {{ from: {i} to: {j} alpha_seconds: 5e-5 seconds_per_byte: {byte} "
                         "message_seconds: 1e-6 }\n")
    return text


class ProbeTest(unittest.TestCase):
    """Everything that is started ends with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def addresses(self, *racks):
        self.address = {rack: f"127.0.0.1:{free_port()}" for rack in racks}

    def serve(self, rack, more=""):
        listed = "".join(f'racks {{ name: "{name}" servers: "{address}" }} '
                         for name, address in self.address.items())
        config = self.folder / f"{rack}.textproto"
        config.write_text(f'rack: "{rack}" control_address: "{self.address[rack]}" '
                          f'state_folder: "state-{rack}" {more} directory {{ {listed} }}')
        server = Server("--config", config, control=self.address[rack])
        self.addCleanup(server.close)
        return server

    def stop(self, server):
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(processes.DEADLINE), 0)

    def ctl(self, server, *words):
        return run(processes.BIN / "phubctl", "--server", server.control, *words)


class MeasuredTest(ProbeTest):
    def test_two_servers_are_measured_kept_and_planned_by(self):
        self.addresses("a", "b")
        a, b = self.serve("a"), self.serve("b")
        missing = self.ctl(a, "job", "shapes", "--racks", "a:4,b:4", "--bytes", "1e6")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("phubctl probe", missing.stderr)
        measured = a.ctl("probe", *QUICK)
        self.assertEqual([s["rack"] for s in measured["probe"]["servers"]], ["a", "b"])
        ends = [(link.get("from", 0), link.get("to", 0)) for link in measured["probe"]["links"]]
        self.assertEqual(sorted(ends), [(0, 1), (1, 0)])
        for link in measured["probe"]["links"]:
            for field in ("alpha_seconds", "seconds_per_byte", "message_seconds"):
                self.assertGreater(link[field], 0)
        self.assertEqual((measured["failures"], measured["jobs"]), ([], []))
        table = a.table("probe", "--last")
        self.assertRegex(table, r"(?m)^LATENCY +RACK +SERVER +TO 0 +TO 1$")
        self.assertRegex(table, rf"(?m)^from 0 +a +{self.address['a']} +[\d.]+ (us|ms)$")
        self.assertRegex(table, rf"(?m)^from 1 +b +{self.address['b']} +[\d.e+]+ Gb/s$")
        # b was not asked, and keeps none; a keeps it when it starts anew.
        self.assertEqual(self.ctl(b, "probe", "--last").returncode, 1)
        self.stop(a)
        a = self.serve("a")
        self.assertEqual(a.ctl("probe", "--last")["probe"], measured["probe"])
        shapes = a.ctl("job", "shapes", "--racks", "a:4,b:4", "--bytes", "1e6")
        self.assertEqual([one["shape"] for one in shapes["alternatives"]],
                          ["spread", "chain", "multicolour", "hybrid", "tree", "nested",
                           "flat"])
        self.assertEqual(shapes["probe_unix_seconds"], measured["probe"]["unix_seconds"])
        self.assertEqual(shapes["shape"], "spread")  # of two racks all are the same
        a.ctl("job", "create", "auto", "--racks", "a:1,b:1", "--rack-shape", "auto", "--key", "w:1000")
        self.assertEqual(a.ctl("job", "plan", "auto", "--explain")["has_shape"], "spread")
        again = a.ctl("job", "shapes", "--racks", "a:1,b:1", "--key", "w:1000")
        self.assertEqual(again["bytes"], 4000)

    def test_a_server_that_is_gone_is_named_and_the_others_are_measured(self):
        self.addresses("a", "b", "c")
        a, _ = self.serve("a"), self.serve("b")
        done = self.ctl(a, "--json", "probe", *QUICK)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 of 3 pairs could not be measured", done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual([(f["from"], f["to"]) for f in told["failures"]], [(0, 2), (1, 2)])
        for failure in told["failures"]:
            self.assertIn(self.address["c"], failure["why"])
        self.assertIn("failed", a.table("probe", "--last"))
        self.assertEqual(self.ctl(a, "job", "shapes", "--racks", "a:1,b:1", "--bytes", "1e6").returncode, 0)
        planned = self.ctl(a, "job", "shapes", "--racks", "a:1,c:1", "--bytes", "1e6")
        self.assertEqual(planned.returncode, 1)
        self.assertIn("could not measure", planned.stderr)

    def test_a_server_without_racks_has_nothing_to_measure(self):
        server = Server()
        self.addCleanup(server.close)
        done = self.ctl(server, "probe")
        self.assertEqual(done.returncode, 1)
        self.assertIn("knows no other server", done.stderr)

    def test_only_an_administrator_makes_servers_measure_and_it_is_audited(self):
        self.addresses("a", "b")
        tokens = 'security { tokens: "required" }'
        a = self.serve("a", tokens)
        admin, observer = self.folder / "admin", self.folder / "observer"
        for folder in (admin, observer):
            folder.mkdir()
        (admin / "token").write_text((self.folder / "state-a" / "admin.token").read_text())
        made = self.ctl(a, "--credentials", admin, "tenant", "token", "create", "--role", "observer",
                        "--save", observer / "token")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.stop(a)
        shutil.copytree(self.folder / "state-a", self.folder / "state-b")  # the same tokens
        a, b = self.serve("a", tokens), self.serve("b", tokens)
        stranger = self.ctl(a, "probe", *QUICK)
        self.assertEqual(stranger.returncode, 1)
        refused = self.ctl(a, "--credentials", observer, "probe", *QUICK)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("which only reads", refused.stderr)
        self.assertEqual(self.ctl(a, "--credentials", admin, "audit").stdout.count("probe keep"), 0)
        done = self.ctl(a, "--credentials", admin, "probe", *QUICK)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ctl(a, "--credentials", observer, "probe", "--last").returncode, 0)
        self.assertIn("probe listen", self.ctl(b, "--credentials", admin, "audit").stdout)
        audit = self.ctl(a, "--credentials", admin, "audit").stdout
        self.assertRegex(audit, rf"probe measure +{self.address['b'].split(':')[0]}:\d+ +done")
        self.assertEqual(audit.count("probe keep"), 1)


class PlannedTest(ProbeTest):
    """By probes that are written here."""

    def setUp(self):
        super().setUp()
        self.addresses("a", "b", "c", "d")
        (self.folder / "state-a").mkdir(mode=0o700)

    def write(self, slow=()):
        path = self.folder / "state-a" / "probe.textproto"
        path.write_text(probe_of("abcd", self.address, slow))

    def test_auto_takes_another_shape_by_another_probe_and_waiting_jobs_are_told(self):
        self.write(slow=(("a", "c"),))
        a = self.serve("a")
        racks = ("--racks", "a:4,b:4,c:4,d:4", "--key", "w:100000")
        text = a.table("job", "create", "auto", *racks, "--rack-shape", "auto")
        self.assertIn("takes chain", text)
        self.assertIn("waits for 16 workers", text)
        a.ctl("job", "create", "forced", *racks, "--rack-shape", "multicolour")
        a.ctl("job", "create", "left", *racks)
        has = {job["spec"]["name"]: job["spec"].get("rack_shape", "spread")
               for job in a.ctl("job", "list")["jobs"]}
        self.assertEqual(has, {"auto": "chain", "forced": "multicolour", "left": "spread"})
        explained = a.table("job", "plan", "left", "--explain")
        self.assertIn("link from a to c", explained)
        self.assertIn("the job has spread: close it", explained)
        told = {job["job"]: job["would_be"] for job in a.ctl("probe", "--last")["jobs"]}
        self.assertEqual(told, {"forced": "chain", "left": "chain"})
        a.ctl("job", "create", "keyless", *racks[:2], "--rack-shape", "auto", "--bytes", "1e6")
        self.assertIn('job "keyless" of tenant default is not planned by this probe: the size of the '
                      "model is not known", a.table("probe", "--last"))
        self.stop(a)
        self.write()
        a = self.serve("a")
        told = {job["job"]: job.get("would_be") for job in a.ctl("probe", "--last")["jobs"]}
        self.assertEqual(told["auto"], "spread")
        self.assertNotIn("left", told)
        self.assertRegex(a.table("probe", "--last"),
                         r'job "auto" of tenant default has chain; by this probe it would have spread '
                         r"\(.* instead of .*\): close it and create it again")

    def test_hybrid_is_taken_where_small_keys_are_sooner_with_spread_and_its_groups_are_told(self):
        self.write(slow=(("a", "c"),))
        a = self.serve("a")
        racks = ("--racks", "a:4,b:4,c:4,d:4", "--rack-wire-type", "bf16")
        keys = [word for i in range(20) for word in ("--key", f"b{i}:100", "--key", f"w{i}:2000000")]
        a.ctl("job", "create", "given", *racks, *keys, "--rack-shape", "hybrid", "--rack-hybrid-bytes",
              "4096")
        explained = a.table("job", "plan", "given", "--explain")
        self.assertRegex(explained, r"(?m)^hybrid: 20 small key\(s\) \(.*\) as in spread, 20 large one\(s\) "
                                    r"\(.*\) as in chain; the job's threshold is 4.0 KiB$")
        shapes = a.ctl("job", "shapes", *racks, *keys)
        times = {one["shape"]: one for one in shapes["alternatives"]}
        self.assertEqual((shapes["hybrid"]["small_keys"], shapes["hybrid"]["large_keys"]), (20, 20))
        self.assertLess(times["chain"]["seconds"], times["spread"]["seconds"])
        self.assertLess(times["hybrid"]["seconds"], 1.01 * times["chain"]["seconds"])
        self.assertEqual(times["hybrid"]["small_key_seconds"], times["spread"]["small_key_seconds"])
        for again in (False, True):
            if again:  # it waits again, as it was made
                self.stop(a)
                a = self.serve("a")
            spec = a.ctl("job", "inspect", "given")["job"]["spec"]
            self.assertEqual((spec["rack_shape"], int(spec["rack_hybrid_bytes"]), spec["rack_wire_type"]),
                             ("hybrid", 4096, "bf16"))

    def test_what_racks_keep_back_is_set_shown_and_predicted(self):
        self.write()
        a = self.serve("a")
        racks = ("--racks", "a:4,b:4,c:4", "--bytes", "100e6")
        whole = a.ctl("job", "shapes", *racks, "--worker-gbit", "1e5", "--server-gbit", "1e5")
        some = a.ctl("job", "shapes", *racks, "--worker-gbit", "1e5", "--server-gbit", "1e5",
                     "--rack-compress", "0.01")
        self.assertEqual((whole["rack_compress"]["is_set"], some["rack_compress"]["is_set"]), (False, True))
        self.assertTrue(whole["rack_compress"]["is_faster"] and some["rack_compress"]["is_faster"])
        self.assertLess(some["rack_compress"]["seconds"], 0.2 * some["rack_compress"]["whole_seconds"])
        a.ctl("job", "create", "some", *racks, "--rack-shape", "auto", "--rack-compress", "0.01",
              "--rack-selector", "mstopk", "--rack-dense-below", "0")
        spec = a.ctl("job", "inspect", "some")["job"]["spec"]["rack_compress"]
        self.assertEqual((spec["selector"], int(spec["dense_below"]), spec["error_feedback"]),
                         ("mstopk", 0, True))
        self.assertRegex(a.table("job", "inspect", "some"),
                         r"rack_compress\.density +0\.01\nrack_compress\.dense_below +0\n"
                         r"rack_compress\.error_feedback +true\nrack_compress\.selector +mstopk\n")
        self.assertIn("rack_compress is faster: ", a.table("job", "plan", "some", "--explain", "--bytes",
                                                           "100e6"))

    def test_a_probe_that_cannot_be_read_is_none(self):
        (self.folder / "state-a" / "probe.textproto").write_text("servers { rack: ")
        a = self.serve("a")
        self.assertEqual(self.ctl(a, "probe", "--last").returncode, 1)

    def test_wrong_options_are_named(self):
        self.write()
        a = self.serve("a")
        for words, named in ((("--racks", "a:4"), "--racks"),
                             (("--racks", "a:1,b:1", "--workers", "2"), "--workers"),
                             (("--racks", "a:1,b:1", "--rack-shape", "ring"), "spread, chain"),
                             (("--rack-shape", "auto"), "--racks"),
                             (("--racks", "a:1,b:1", "--bytes", "1e6"), "--bytes"),
                             (("--racks", "a:1,b:1", "--rack-shape", "auto", "--bytes", "1e6", "--key",
                               "w:1"), "--bytes"),
                             (("--racks", "a:1,b:1", "--rack-shape", "auto"), "--bytes"),
                             (("--racks", "a:1,b:1", "--rack-wire-type", "fp8"), "fp32, fp16 or bf16"),
                             (("--rack-wire-type", "bf16"), "contradicts racks: nothing"),
                             (("--rack-compress", "0.01"), "contradicts racks: nothing"),
                             (("--racks", "a:1,b:1", "--rack-compress", "2"), "at most 1"),
                             (("--racks", "a:1,b:1", "--rack-dense-below", "9"), "rack_compress.density"),
                             (("--racks", "a:1,b:1", "--rack-no-feedback"), "rack_compress.density"),
                             (("--racks", "a:1,b:1", "--rack-compress", "0.01", "--rack-selector", "all"),
                              "histogram"),
                             (("--racks", "a:1,b:1", "--rack-compress", "0.01", "--rule", "elastic"),
                              "rule: elastic"),
                             (("--racks", "a:1,b:1", "--rack-hybrid-bytes", "9"), "contradicts rack_shape: spread")):
            done = self.ctl(a, "job", "create", "x", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(named, done.stderr, words)
        self.assertEqual(self.ctl(a, "probe", "--seconds", "60").returncode, 2)
        self.assertEqual(self.ctl(a, "probe", "--last", "--mib", "8").returncode, 2)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])

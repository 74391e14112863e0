#!/usr/bin/env python3
"""bench/gpu/run without a GPU: its steps end in time, lose nothing and are resumed; what it names is there."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "bench/gpu/run"
sys.path[:0] = [str(PROGRAM.parent), str(ROOT / "tests/support")]
import stages  # noqa: E402
import steps  # noqa: E402
from processes import until  # noqa: E402
from steps import Step  # noqa: E402

BUDGET = 600  # seconds; only bounds a test that hangs


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-B", PROGRAM, *arguments], capture_output=True, text=True,
                          timeout=BUDGET, check=False, env={**os.environ, **environment})


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()


class Steps(InFolder):
    def runner(self, budget=BUDGET, again=False):
        self.results = steps.Results(self.folder / "results", None)
        return steps.Runner(self.results, budget, again)

    def outcome(self, name):
        kept = json.loads((self.folder / "results/results.json").read_text())
        return kept["steps"][name]

    def test_what_is_said_is_kept_with_its_json_and_failures_do_not_end_the_rest(self):
        runner = self.runner()
        self.assertFalse(runner.run(Step("fails", ("sh", "-c", "echo why; exit 3"))))
        self.assertFalse(runner.run(Step("is-not-there", ("/no/such/program",))))
        self.assertTrue(runner.run(Step("works", ("echo", '{"images_per_second": 7}'))))
        self.assertEqual(self.outcome("fails")["said"], "exit status 3: why")
        self.assertIn("No such file", self.outcome("is-not-there")["said"])
        self.assertEqual(self.outcome("works")["json"], {"images_per_second": 7})
        with tarfile.open(self.folder / "results/logs.tar.gz") as logs:
            self.assertLessEqual({"fails.log", "works.log", "results.json"}, set(logs.getnames()))

    def test_a_step_that_hangs_ends_with_all_that_it_started(self):
        pid = self.folder / "pid"
        hangs = f"sleep 10000 & echo $! > {pid}; echo begun; trap '' TERM; while :; do sleep 1; done"
        self.assertFalse(self.runner().run(Step("hangs", ("bash", "-c", hangs), seconds=1)))
        self.assertEqual(self.outcome("hangs")["said"], "not done after 1 s: begun")
        until(lambda: not self.is_alive(pid), "its child has ended")

    def test_a_child_that_holds_its_output_open_keeps_nobody_waiting(self):
        pid = self.folder / "pid"
        leaves = f"sleep 10000 & echo $! > {pid}; echo done"
        self.assertTrue(self.runner().run(Step("leaves", ("bash", "-c", leaves))))
        until(lambda: not self.is_alive(pid), "its child has ended")

    def is_alive(self, pid):
        try:
            return " Z " not in pathlib.Path(f"/proc/{pid.read_text().strip()}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # between the two there may be its end
            return False

    def test_what_worked_is_not_run_again_what_failed_is(self):
        count = self.folder / "count"
        step = Step("counts", ("sh", "-c", f"echo x >> {count}; test $(wc -l < {count}) -gt 1"))
        self.assertFalse(self.runner().run(step))
        self.assertTrue(self.runner().run(step))
        self.assertTrue(self.runner().run(step))
        self.assertEqual(len(count.read_text().split()), 2)
        self.assertTrue(self.runner(again=True).run(step))
        self.assertEqual(len(count.read_text().split()), 3)

    def test_what_there_is_no_time_for_is_left_out_and_said(self):
        self.assertFalse(self.runner(budget=1).run(Step("late", ("true",))))
        self.assertEqual(self.outcome("late")["result"], steps.LEFT_OUT)

    def test_a_server_runs_beside_its_step_and_ends_with_it(self):
        pid = self.folder / "pid"
        server = ("bash", "-c", f"echo $$ > {pid}; echo ready control=here:1 data=2; sleep 10000")
        self.assertTrue(self.runner().run(Step("asks", ("echo", "{server}"), server=server)))
        self.assertEqual(self.outcome("asks")["said"], "here:1")
        until(lambda: not self.is_alive(pid), "its child has ended")
        dead = Step("alone", ("echo", "{server}"), server=("false",))
        self.assertFalse(self.runner().run(dead))
        self.assertIn("did not start", self.outcome("alone")["said"])

    def test_results_are_copied_out_after_every_step(self):
        out = self.folder / "out"
        out.mkdir()
        results = steps.Results(self.folder / "results", out)
        (results.folder / "engines.jsonl").write_text("{}\n")
        steps.Runner(results, BUDGET).run(Step("works", ("true",)))
        self.assertEqual({file.name for file in out.iterdir()},
                         {"results.json", "logs.tar.gz", "engines.jsonl"})


class Stages(InFolder):
    def place(self):
        return stages.Place(self.folder / "build", self.folder / "results", sys.executable)

    def all_steps(self):
        return [step for stage in stages.STAGES.values() for step in stage(self.place())]

    def test_names_are_different_and_the_risky_comes_late(self):
        names = [step.name for step in self.all_steps()]
        self.assertEqual(len(names), len(set(names)))
        order = ["machine", "kernels", "lenet", "network-lenet", "unfused-unrecorded", "tuned", "alone",
                 "server-fp16-4", "kernel-times"]
        self.assertEqual(order, sorted(order, key=names.index))

    def test_the_tests_and_sections_that_are_named_are_there(self):
        network = (ROOT / "tests/cuda/network_test.cc").read_text()
        executor = (ROOT / "tests/cuda/executor/device_executor_test.cc").read_text()
        for section in stages.NETWORKS.values():
            self.assertIn(f'SECTION("{section}")', network)
        cases = re.findall(r'TEST_CASE\("([^"]*)"', executor)
        named = [test.rstrip("*") for test in stages.EXECUTORS.values()]
        for case in cases:
            self.assertEqual(sum(case.startswith(name) for name in named), 1, case)
        self.assertIn('TEST_CASE("The device\'s own description"', network)

    def test_the_modes_are_those_of_torch_step(self):
        text = (ROOT / "bench/gpu/torch_step.py").read_text()
        for mode in stages.TORCH_MODES:
            self.assertIn(f'"{mode}"', text)

    def test_the_ways_are_those_of_torch_ranks(self):
        text = (ROOT / "bench/gpu/torch_ranks.py").read_text()
        for way in stages.TORCH_WAYS:
            self.assertIn(f'"{way}"', text)

    def test_options_are_those_of_our_programs(self):
        source = "".join(file.read_text() for folder in ("worker", "server")
                         for file in (ROOT / folder).rglob("*.cc"))
        for step in self.all_steps():
            words = step.words()
            if words[0].endswith("phub-worker"):
                for word in words:
                    if word.startswith("--"):
                        self.assertIn(f'"{word}', source, step.name)


class Command(InFolder):
    def test_list_shows_every_step_and_runs_nothing(self):
        done = run("--list", "--results", self.folder / "results")
        self.assertEqual(done.returncode, 0, done.stderr)
        for stage in stages.STAGES:
            self.assertIn(f"{stage}: ", done.stdout)
        self.assertEqual([file.name for file in (self.folder / "results").iterdir()], [])

    def test_wrong_words_and_missing_programs_are_said_with_the_cure(self):
        for words, says in (((), "name a stage"), (("speedy",), "speedy is no stage"),
                            (("sanity", "--build", self.folder), "bench/gpu/pack")):
            done = run(*words, "--results", self.folder / "results")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)

    def test_single_steps_are_chosen_by_name_and_an_unknown_one_is_refused(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/libphub_cuda.so").touch()
        words = ("--build", self.folder, "--results", self.folder / "results")
        done = run("--only", "tuned,nothing", "all", *words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--only: nothing is no step of sanity", done.stderr)
        done = run("--only", "tuned", "sanity", *words)
        self.assertIn("--only: tuned is no step of sanity;", done.stderr)
        self.assertIn("no GPU", run("--only", "tuned,alone", "all", *words, PATH=str(self.folder)).stderr)

    def test_without_a_gpu_it_says_so(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/libphub_cuda.so").touch()
        done = run("sanity", "--build", self.folder, "--results", self.folder / "results",
                   PATH=str(self.folder))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no GPU", done.stderr)


if __name__ == "__main__":
    unittest.main()

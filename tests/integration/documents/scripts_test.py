"""Each script of the tree and each subcommand of its programs is run by a test, from another folder than the root.

Usage: scripts_test.py BUILD [CLASS...]

A new script needs a row in TINY, HELP_ONLY or RUN_BY: without one it fails here by its name. So does a subcommand that
no test's text names.
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "deploy/manual"))
from help_text import help_of  # noqa: E402

BUILD = pathlib.Path(".")
DEADLINE = 300  # only bounds a test that hangs
PROGRAMS = ("phub-server", "phub-worker", "phubctl", "phub-bench")
COLUMNS_MAX = 80

# Scripts that make figures: words, exit statuses, and what the output has to show. {} are BUILD and an own folder.
TINY = {
    "bench/accuracy/accuracy_torch.py": (
        "--bin {build}/bin --seeds 1 --epochs 1 --max-steps 2 --json", (0,), '"training": "phub, ResNet-20, fp32"'),
    "bench/accuracy/accuracy_types.py": (
        "--bin {build}/bin --seeds 1 --epochs 1 --max-steps 2 --json", (0,), '"training": "LeNet, bf16"'),
    "bench/accuracy/large_batch.py": (
        "--bin {build}/bin --seeds 1 --epochs 1 --max-steps 1 --json", (0,), '"training": "LARS, batch 1024"'),
    "bench/compare_builds.py": (
        "{build}/bin {build}/bin --rounds 2 -- --workers 2 --elements 1000 --iterations 2 --blocks 1", (0,),
        r"shm: new / old \d"),
    "bench/compare_torch.py": (
        "--worker {build}/bin/phub-worker --threads 1 --blocks 1 --steps 1 --batch 2 --json", (0,), '"type": "bf16"'),
    "bench/compare_input.py": (
        "--worker {build}/bin/phub-worker --images 16 --batch 4 --blocks 1 --seconds 0.1 --json", (0,),
        '"view_of_decoding"'),
    "bench/compare_cache.py": (
        "--worker {build}/bin/phub-worker --images 60 --blocks 1 --epochs 2 --read-seconds 0.01 --json", (0, 1),
        '"level 3 over 1"|run it as root'),
    "bench/compare_spread.py": (
        "--bin {build}/bin --workers 2 --images 24 --batch 4 --epochs 3 --blocks 1 --steps 8 --threads 2 --busy-batch 1 "
        "--link-seconds 1 --json", (0, 1), '"equal_epochs": 3|run it as root'),
    "bench/compare_training.py": (
        "--worker {build}/bin/phub-worker --images 32 --batch 4 --blocks 1 --epochs 2 --json", (0,), '"overlap"'),
    "bench/gpu/attributes.py": ("", (0, 1), r'"driver_api"|no NVIDIA driver$|finds no GPU'),
    "bench/gpu/machine.sh": ("{build}", (0, 1), "NVIDIA"),
    "bench/gpu/run": ("--list --build {build} --results {folder}/results", (0,), "^sanity: "),
    "bench/gpu/torch_step.py": ("{folder}/none", (1,), "2.3 or later is needed$|finds no GPU"),
    "bench/gpu/torch_ranks.py": ("check", (1,), "finds no GPU; --device cpu needs none$"),
    # The loss that it judges by is noise in so short a storm.
    "bench/hostile_door.py": (
        "{build}/bin --workers 1 --connections 40 --rate 40 --blocks 1", (0, 1), '"failed_joins": 0'),
    "bench/measure_recovery.py": (
        "--bin {build}/bin --model lenet --workers 2 --every 3 --repeats 1 --json", (0,), '"noticed"'),
    "bench/pytorch/binding.py": ("{build} --rounds 3 --blocks 1 --json", (0,), '"empty_call_us"'),
    "bench/pytorch/compare.py": (
        "{build} --models transformer:1 --workers 2 --modes hook --blocks 1 --steps 1 --warm 1 --json", (0,),
        '"gloo_exchange_share"'),
    "bench/stragglers/training.py": (
        "speed {build}/bin --cpus 0.5,0.9 --blocks 1 --steps 6 --json", (0, 2), '"way": "measured parts"|only root may'),
}
# Racks of network namespaces, where they can be built.
RACKS = {
    "bench/rack/planner_sweep.py": ("{build}/bin --only 0 --blocks 1 --json", (0, 1), '"pick"'),
    "bench/replay/configurations.py": (
        "{build}/bin --results {folder}/results --networks alexnet:1000 --rates 400 --shapes one-rack --policies wfbp "
        "--forward-ms 4 --backward-ms 8 --iterations 1 --blocks 1 --json", (0,), '"predicted_seconds"'),
}
# What would build, download or start for long.
HELP_ONLY = ("bench/gpu/pack", "deploy/quickstart.sh", "tests/fuzz/fuzz_long", "tests/python/newest_torch",
             "tests/rdma/in_vm", "tests/run.sh")
# What another test runs, or what a test runs; it has to name the script.
RUN_BY = {
    ".ci/run": "tests/integration/documents/scripts_test.py",  # it is this whole run: bash .ci/run
    "deploy/manual/make.py": "deploy/install.cmake",
    "deploy/slurm/train.sh": "tests/python/launch_slurm_test.py",
    "deploy/slurm/worker.sh": "tests/python/launch_slurm_test.py",
    "tests/mutate/mutate.py": "tests/mutate/CMakeLists.txt",
    "tests/python/torch_suite_rank.py": "tests/python/torch_suite_test.py",
    "tests/rdma/guest_init.sh": "tests/rdma/in_vm",
    "tests/rdma/runner_test.sh": "tests/rdma/CMakeLists.txt",
    "tests/rdma/vm_test.sh": "tests/rdma/CMakeLists.txt",
    "tests/run/again.py": "tests/run/again_test.py",
    "tests/support/strangers.py": "bench/hostile_door.py",
    "tests/tidy/check_tree.py": "tests/tidy/CMakeLists.txt",
    "worker/torch/examples/language.py": "tests/python/examples_test.py",
    "worker/torch/examples/mnist.py": "tests/python/mnist_test.py",
    "worker/torch/examples/resnet.py": "tests/python/examples_test.py",
    "worker/torch/phub/launch/__init__.py": "tests/python/launched.py",
    "worker/torch/phub/launch/_keeper.py": "worker/torch/phub/launch/_host.py",
    "bench/pytorch/rank.py": "bench/pytorch/compare.py",
}
NEED_TORCH = ("bench/accuracy/accuracy_torch.py", "bench/compare_cache.py", "bench/compare_input.py", "bench/compare_torch.py",
              "bench/compare_training.py",
              "bench/gpu/torch_ranks.py", "bench/gpu/torch_step.py", "bench/pytorch/binding.py", "bench/pytorch/compare.py")


def scripts():
    """Files of the tree that are started by hand: a run bit, a first line, or a main part. Tests are ctest's to start."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {}
    for path in filter(None, listed.split("\0")):
        file = ROOT / path
        if not file.is_file() or path.endswith("_test.py"):
            continue
        text = file.read_bytes()
        has_first_line = text.startswith(b"#!")
        may_run = os.access(file, os.X_OK)
        if may_run or has_first_line or path.endswith(".py") and b"\nif __name__ == " in text:
            found[path] = (may_run, has_first_line)
    return found


def environment():
    """The distribution's Python is the first on the path: it has PyTorch. Nothing is written beside the scripts."""
    return {**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1",
            "PHUB_KERNEL_CACHE": str(BUILD / "kernels.jsonl")}


def run(*command, folder):
    return subprocess.run(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE)


def named_in_tests():
    """What tests say in quotes, as one text."""
    files = [file for kind in ("*.py", "*.cc", "*.h", "*.sh") for file in (ROOT / "tests").rglob(kind)]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class ScriptsTest(InFolder):
    @classmethod
    def setUpClass(cls):
        cls.scripts = scripts()

    def test_each_script_has_a_row_and_each_row_a_script(self):
        rows = [*TINY, *RACKS, *HELP_ONLY, *RUN_BY]
        self.assertEqual(sorted(set(self.scripts) - set(rows)), [], "scripts that no test runs: give them a row here")
        self.assertEqual(sorted(set(rows) - set(self.scripts)), [], "rows whose script is gone")

    def test_scripts_can_be_started_by_their_name(self):
        for path, (may_run, has_first_line) in self.scripts.items():
            if path not in RUN_BY:
                self.assertTrue(may_run and has_first_line, f"{path}: wants a run bit and #! in its first line")
            else:
                self.assertFalse(may_run and not has_first_line, f"{path}: has a run bit and no #! in its first line")

    def test_what_others_run_is_named_there(self):
        for path, by in RUN_BY.items():
            name = {"__init__": "phub.launch", "run": "bash .ci/run"}.get(pathlib.PurePath(path).stem, pathlib.PurePath(path).stem)
            self.assertIn(name, (ROOT / by).read_text(encoding="utf-8"), path)

    def test_each_script_says_what_it_is(self):
        for path in (*TINY, *RACKS, *HELP_ONLY):
            done = run(ROOT / path, "--help", folder=self.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)
            self.assertIn("usage: ", done.stdout.lower(), path)


class TinyRunsTest(InFolder):
    def check(self, path, words, statuses, shown):
        words = words.format(build=BUILD, folder=self.folder).split()
        done = run(ROOT / path, *words, folder=self.folder)
        said = f"{path} {' '.join(words)}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertIn(done.returncode, statuses, said)
        self.assertNotIn("Traceback", done.stderr, said)
        self.assertTrue(re.search(shown, done.stdout + done.stderr, re.M), said)

    def test_each_script_makes_its_figures(self):
        for path, row in TINY.items():
            if path in NEED_TORCH and importlib.util.find_spec("torch") is None:
                print(f"{path}: not run: python3-torch is missing")
                continue
            with self.subTest(path):
                self.check(path, *row)

    def test_each_script_with_racks_makes_its_figures(self):
        able = run(BUILD / "bin/phub-bench", "rack", "check", folder=self.folder)
        if able.returncode != 0:
            self.skipTest(f"racks cannot be built here: {able.stderr}")
        for path, row in RACKS.items():
            with self.subTest(path):
                self.check(path, *row)


class RecipesTest(unittest.TestCase):
    def test_the_recipe_for_a_rule_names_each_file_that_lists_rules(self):
        recipe = re.search(r"\*\*Adding a rule\.\*\*.*", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))[0]
        named = re.findall(r"`([\w./-]+)`", recipe)
        listed = subprocess.run(["git", "-C", ROOT, "grep", "-i", "adagrad", "--", ".", ":!tests", ":!*.md"], stdout=subprocess.PIPE,
                                text=True, check=True).stdout
        files = {line.partition(":")[0] for line in listed.splitlines() if not re.match(r"[^:]*:[^\"]*//", line)}
        self.assertGreater(len(files), 10)
        missing = [file for file in sorted(files) if not any(file == path or path.endswith("/") and file.startswith(path)
                                                             for path in named)]
        self.assertEqual(missing, [], "CONTRIBUTING.md, Adding a rule")
        self.assertEqual([path for path in named if "/" in path and not (ROOT / path).exists()], [])


class SkipsTest(unittest.TestCase):
    def test_a_test_run_installs_what_tests_are_skipped_without(self):
        """Debian's packages that a skipped test's words name."""
        packages = set(re.findall(r"[\w.+-]+", (ROOT / "deploy/packages.sh").read_text(encoding="utf-8")))
        tests = named_in_tests()
        named = re.findall(r"apt-get install ([a-z0-9 .+-]+)", tests)
        named += re.findall(r"needs (?:the package )?([a-z0-9 ,.+-]+) \(deploy/packages\.sh\)", tests)
        words = {word for each in named for word in re.findall(r"[\w.+-]+", each)} - {"and"}
        self.assertGreater(len(words), 4)
        self.assertEqual(sorted(words - packages), [], "deploy/packages.sh")


class SubcommandsTest(unittest.TestCase):
    def test_a_test_names_each(self):
        tests, missing = named_in_tests(), []
        for program in PROGRAMS:
            for each in help_of([str(BUILD / "bin" / program)], (program,)).all():
                words = each.path[1:]
                said = r"(?:\",\s*\"| |\(\")".join(map(re.escape, words))
                if words and not each.commands and not re.search(rf"[\"\s]{said}[\"\s]", tests):
                    missing.append(" ".join(each.path))
        self.assertEqual(missing, [], "subcommands that no test runs")

    def test_help_fits_a_terminal(self):
        program = "phub-bench"
        for each in help_of([str(BUILD / "bin" / program)], (program,)).all():
            said = subprocess.run([f"./{program}", *each.path[1:], "--help"], cwd=BUILD / "bin", stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            self.assertEqual([line for line in said.splitlines() if len(line) > COLUMNS_MAX], [], " ".join(each.path))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

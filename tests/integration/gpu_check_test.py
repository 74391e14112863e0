#!/usr/bin/env python3
"""What bench/gpu_check.py would run on a machine with a GPU, without one."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "bench/gpu_check.py"


def planned(*arguments, **more):
    done = subprocess.run([sys.executable, "-B", PROGRAM, "--dry-run", *arguments], text=True,
                          capture_output=True, timeout=120, check=False, **more)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def test_our_programs_and_pytorch_have_libraries_of_their_own(self):
        cuda, cudnn = self.folder / "cuda", self.folder / "cudnn"
        cuda.mkdir()
        cudnn.mkdir()
        (cudnn / "libcudnn.so.9").touch()
        done, steps = planned("--models", "resnet50", "--libraries", f"{cuda}:{cudnn}",
                              env={"LD_LIBRARY_PATH": "/elsewhere", "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        torch = [step for step in steps if "PyTorch" in step["what"]]
        ours = [step for step in steps if "phub-" in step["command"][0] or "_test" in step["what"]]
        self.assertEqual([step["what"].split()[-1] for step in torch],
                         ["eager", "graph", "compile", "reduce-overhead"])
        for step in torch:
            self.assertEqual(step["environment"], {})
        self.assertGreater(len(ours), 10)
        for step in ours:
            self.assertEqual(step["environment"]["LD_LIBRARY_PATH"], f"{cuda}:{cudnn}")
            self.assertEqual(step["environment"]["PHUB_CUDA_PATH"], str(cudnn))

    def test_without_libraries_all_inherit_what_is_set(self):
        done, steps = planned("--models", "resnet50", env={"LD_LIBRARY_PATH": "/elsewhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({step["environment"].get("LD_LIBRARY_PATH") for step in steps},
                         {"/elsewhere"})

    def test_the_most_important_comes_first_and_nothing_is_run_or_written(self):
        output = self.folder / "out.json"
        done, steps = planned("--models", "resnet50,vgg16", "--output", output, "--build", "/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])
        what = [step["what"] for step in steps]
        order = ["resnet50, untuned", "resnet50, tuning", "resnet50, tuned", "resnet50, PyTorch eager",
                 "resnet50, through a server, fp16", "vgg16, untuned", "resnet50, fused",
                 "resnet50, unfused", "cuda_kernels_test"]
        places = [what.index(each) for each in order]
        self.assertEqual(places, sorted(places))
        commands = {step["what"]: step["command"] for step in steps}
        self.assertIn("--tune", commands["resnet50, unfused"])
        self.assertEqual(commands["resnet50, unfused"][commands["resnet50, unfused"].index("--fusion") + 1],
                         "unfused")

    def test_the_modes_are_those_of_torch_step(self):
        text = (ROOT / "bench/torch_step.py").read_text()
        _, steps = planned("--models", "resnet50")
        for step in steps:
            if "PyTorch" in step["what"]:
                self.assertIn(f'"{step["command"][step["command"].index("--mode") + 1]}"', text)

    def test_a_folder_that_is_not_there_is_refused(self):
        done, _ = planned("--libraries", "/no/such/folder")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--libraries: /no/such/folder is no folder", done.stderr)


if __name__ == "__main__":
    unittest.main()

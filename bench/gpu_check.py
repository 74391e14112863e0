#!/usr/bin/env python3
"""Everything that is to be known about the CUDA backend on a machine with a GPU: one command.

    bench/gpu_check.py [--build build/release] [--output gpu_check.json] [--minutes 9.5]
                       [--python PYTHON_WITH_TORCH] [--models resnet50,...] [--batch 256]
                       [--libraries FOLDER:FOLDER] [--dry-run]

Versions; for each model the step here (fp16, untuned and tuned) and in PyTorch (eager, compile,
compile with CUDA graphs, one CUDA graph; mixed precision, channels_last); the same step through a
server on this host over shared memory; for the first model without recorded passes, all fused, not
fused and in bf16; then the GPU's tests. The most important comes first, and what does not fit into the minutes is written down as left
out. Engines that were tuned are kept beside the output. Nothing is installed.
--libraries: where cuDNN and CUDA are for our programs, which PyTorch, with its own, does not see.
--dry-run prints what would be run, a JSON line each. Exit status: 0 if all that was run worked, 1 if not, 2 without a GPU or a build.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH_MODES = ("eager", "graph", "compile", "reduce-overhead")
MODELS = "resnet50,alexnet_bn,vgg16,googlenet"
TESTS = ("cuda_kernels_test", "cuda_network_test", "cuda_device_program_test")


def environments(libraries, inherited):
    """Of our programs and of PyTorch. With `libraries` each has its own: they bring one cuDNN each,
    and the one that is found first would serve both."""
    if not libraries:
        return dict(inherited), dict(inherited)
    neutral = {name: value for name, value in inherited.items()
               if name not in ("LD_LIBRARY_PATH", "PHUB_CUDA_PATH")}
    folders = [pathlib.Path(folder).resolve() for folder in libraries.split(":") if folder]
    ours = {**neutral, "LD_LIBRARY_PATH": ":".join(str(folder) for folder in folders)}
    with_cudnn = [folder for folder in folders if (folder / "libcudnn.so.9").exists()]
    if with_cudnn:
        ours["PHUB_CUDA_PATH"] = str(with_cudnn[0])
    return ours, neutral


class Check:
    def __init__(self, arguments):
        self.arguments = arguments
        self.bin = arguments.build / "bin"
        self.end = time.monotonic() + 60 * arguments.minutes
        self.results = {"started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self.failed = []
        self.ours, self.torchs = environments(arguments.libraries, os.environ)
        self.engines = arguments.output.with_suffix(".engines.jsonl")

    def save(self):
        self.results["failed"] = self.failed
        if self.arguments.dry_run:
            return
        self.arguments.output.write_text(json.dumps(self.results, indent=1) + "\n")

    def plan(self, what, command, environment):
        """Of --dry-run: one line."""
        own = {name: environment[name] for name in ("LD_LIBRARY_PATH", "PHUB_CUDA_PATH",
                                                    "PHUB_ENGINE_CACHE") if name in environment}
        print(json.dumps({"what": what, "environment": own,
                          "command": [str(word) for word in command]}), flush=True)

    def run(self, what, command, seconds, **more):
        """The finished process, or None where there was no time, no program or an error."""
        if self.arguments.dry_run:
            return self.plan(what, command, more.get("env", os.environ))
        left = self.end - time.monotonic()
        if left < 10:
            self.failed.append(f"{what}: left out, the time is over")
            return None
        print(f"{what} ...", flush=True)
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                                  timeout=min(seconds, left), check=False, **more)
        except (subprocess.TimeoutExpired, OSError) as error:
            self.failed.append(f"{what}: {error}")
            return None
        if done.returncode != 0:
            words = (done.stderr or done.stdout).strip()[-2000:]
            self.failed.append(f"{what}: exit status {done.returncode}: {words}")
            print(f"  failed: {words}", flush=True)
            return None
        return done

    def json_of(self, what, command, seconds, **more):
        done = self.run(what, command, seconds, **more)
        if done is None:
            return None
        try:
            result = json.loads(done.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError) as error:
            self.failed.append(f"{what}: no JSON in its output: {error}")
            return None
        result["notes"] = done.stderr.strip().splitlines()[-5:]
        print(f"  {result['images_per_second']:.0f} images/s", flush=True)
        return result

    def versions(self):
        query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory"
        done = self.run("versions", ["nvidia-smi", f"--query-gpu={query}", "--format=csv"], 20)
        self.results["gpu"] = done.stdout.strip() if done else None
        self.results["machine"] = {"cpus": os.cpu_count(), "kernel": os.uname().release}
        commit = self.run("commit", ["git", "-C", ROOT, "rev-parse", "HEAD"], 10)
        self.results["commit"] = commit.stdout.strip() if commit else None
        self.results["tests"] = {}

    def tests(self):
        for test in TESTS:
            done = self.run(test, [self.arguments.build / "tests" / test], 120,
                            env={**self.ours, "PHUB_ENGINE_CACHE": str(self.engines)})
            self.results["tests"][test] = done.stdout.strip()[-400:] if done else "failed"
        self.save()

    def bench(self, what, model, *options, seconds=180):
        steps = ["--batch", self.arguments.batch, "--steps", 50, "--warm-up", 10]
        command = [self.bin / "phub-worker", "bench", model, "--backend", "cuda", "--json"]
        if "--engine-cache" not in options:
            options = (*options, "--engine-cache", self.engines)
        return self.json_of(f"{model}, {what}", [*command, *steps, *options], seconds,
                            env=self.ours)

    def tune(self, model):
        """Into the file that every later run reads, graph by graph: what it has not measured when
        its time is over is taken by the heuristics' guess."""
        command = [self.bin / "phub-worker", "tune", model, "--batch", self.arguments.batch]
        self.run(f"{model}, tuning", [*command, "--engine-cache", self.engines],
                 self.arguments.tuning_seconds, env=self.ours)

    def torch(self, model, mode):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            text = self.run(f"{model}, description",
                            [self.bin / "phub-worker", "model", model, "--textproto"], 10,
                            env=self.ours)
            if text is not None:
                file.write(text.stdout)
                file.flush()
            elif not self.arguments.dry_run:
                return None
            command = [self.arguments.python, ROOT / "bench/torch_step.py", file.name, "--mode",
                       mode, "--batch", self.arguments.batch, "--steps", 50]
            return self.json_of(f"{model}, PyTorch {mode}", command, 180, env=self.torchs)

    def through_server(self, model, wire):
        """The same step, its gradients through a server on this host over shared memory."""
        command = [self.bin / "phub-server", "--control", "127.0.0.1:0", "--print-ready"]
        options = ("--wire-type", wire, "--transport", "shm")
        if self.arguments.dry_run:
            self.plan(f"{model}, a server", command, self.ours)
            return self.bench(f"through a server, {wire}", model, "--server", "ADDRESS", *options)
        server = subprocess.Popen([str(word) for word in command], text=True, env=self.ours,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            ready = re.search(r"control=(\S+)", server.stdout.readline())
            if ready is None:
                self.failed.append(f"{model}, through a server: it did not start")
                return None
            address = ready.group(1)
            return self.bench(f"through a server, {wire}", model, "--server", address, *options)
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()

    def model(self, model):
        entry = self.results.setdefault("models", {}).setdefault(model, {})
        entry["phub_untuned"] = self.bench("untuned", model, "--engine-cache", "/dev/null")
        self.save()
        self.tune(model)
        entry["phub"] = self.bench("tuned", model)
        self.save()
        for mode in TORCH_MODES:
            entry[f"torch_{mode}"] = self.torch(model, mode)
            self.save()
        entry["phub_server_fp16"] = self.through_server(model, "fp16")
        torch = [entry[f"torch_{mode}"] for mode in TORCH_MODES]
        best = max((t["images_per_second"] for t in torch if t), default=None)
        ours = entry["phub"] and entry["phub"]["images_per_second"]
        served = entry["phub_server_fp16"] and entry["phub_server_fp16"]["images_per_second"]
        if best and ours:
            entry["against_best_torch"] = ours / best
            entry["against_eager_torch"] = torch[0] and ours / torch[0]["images_per_second"]
        if ours and served:
            entry["server_against_alone"] = served / ours
        self.save()

    def ablations(self, model):
        entry = self.results["models"][model]
        for name, options in (("unrecorded", ["--unrecorded"]), ("fused", ["--fusion", "fused", "--tune"]),
                              ("unfused", ["--fusion", "unfused", "--tune"]),
                              ("bf16", ["--compute-type", "bf16", "--tune"])):
            entry[f"phub_{name}"] = self.bench(name, model, *options)
            self.save()
        entry["phub_server_fp32"] = self.through_server(model, "fp32")
        self.save()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("gpu_check.json"))
    parser.add_argument("--minutes", type=float, default=9.5, help="in all (default 9.5)")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--tuning-seconds", type=float, default=200, help="of each model, at most")
    parser.add_argument("--libraries", default="", metavar="FOLDERS",
                        help="of cuDNN and CUDA for our programs, with colons between; not PyTorch's")
    parser.add_argument("--dry-run", action="store_true", help="print what would be run")
    arguments = parser.parse_args()
    for folder in arguments.libraries.split(":"):
        if folder and not pathlib.Path(folder).is_dir():
            parser.error(f"--libraries: {folder} is no folder")
    if arguments.dry_run:
        return check_all(arguments)
    plugin = arguments.build / "bin/libphub_cuda.so"
    if not plugin.exists():
        print(f"{plugin} is not there: cmake --workflow --preset release, where nvcc and cuDNN 9's "
              "headers are", file=sys.stderr)
        return 2
    if shutil.which("nvidia-smi") is None:
        print("nvidia-smi is not there: is this a machine with an NVIDIA GPU?", file=sys.stderr)
        return 2
    return check_all(arguments)


def check_all(arguments):
    check = Check(arguments)
    check.versions()
    models = arguments.models.split(",")
    for model in models:
        check.model(model)
    check.ablations(models[0])
    check.tests()
    check.save()
    if arguments.dry_run:
        return 0
    print(f"{arguments.output}: {len(check.failed)} of its parts failed or were left out")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Trains PyTorch models by DDP on Gloo and by PHub in turn, and prints steps a second as ratios.

    bench/pytorch/compare.py build/release [--models resnet18:2,transformer:2] [--workers 2,4] [--blocks 5] [--json]

Each mode trains the same model on the same batches, all workers and --cores server cores on this machine, a thread each:
gloo is DistributedDataParallel on Gloo; hook is that with phub.torch.ddp_hook, shared with its shared_buckets; backend is
DDP on init_process_group("phub"); optimizer is phub.torch.Optimizer, which waits in forward; alone is DDP without any exchange
(no_sync), so that 1 - alone / gloo is what Gloo's exchange takes of a step. MODEL:N has batches of N for each worker.
A step's time is the slowest rank's median; a ratio is of one block, and printed are the median and the extremes.
Losses are of the last step, rank 0's; alone's models drift apart.

Needs Debian's python3-torch or another PyTorch, and libphub.so and phub-server in the build folder (targets phub_shared,
phub-server). Exit code: 0; 1 if a run failed; 2 for bad input.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = ("gloo", "hook", "shared", "backend", "optimizer", "alone")


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown"


def run(given, mode, model, batch, workers):
    """The slowest rank's median step in seconds, and rank 0's last loss."""
    command = [sys.executable, "-B", "-m", "phub.launch", "-n", str(workers), "--cores", str(given.cores),
               "--server-program", str(given.build / "bin/phub-server"),
               sys.executable, "-B", str(ROOT / "bench/pytorch/rank.py"), mode, model,
               "--batch", str(batch), "--steps", str(given.steps), "--warm", str(given.warm)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "worker/torch"), "OMP_NUM_THREADS": "1",
                   "PHUB_LIBRARY": str(given.build / "lib/libphub.so")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    said = [json.loads(line) for line in re.findall(r"^\[\d+\] (\{.*\})$", done.stdout, re.M)]
    if done.returncode != 0 or len(said) != workers:
        sys.exit(f"{mode}, {model}, {workers} workers failed:\n{done.stderr[-2000:]}")
    first = next(each for each in said if each["rank"] == 0)
    return max(statistics.median(each["seconds"]) for each in said), first["losses"][-1]


def spread(values):
    return f"{statistics.median(values):.2f}x [{min(values):.2f} .. {max(values):.2f}]"


def compare(given, model, batch, workers):
    times = {mode: [] for mode in given.modes}
    losses = {}
    for block in range(given.blocks):
        order = given.modes[block % len(given.modes):] + given.modes[:block % len(given.modes)]
        for mode in order:
            seconds, losses[mode] = run(given, mode, model, batch, workers)
            times[mode].append(seconds)
            print(f"  {model} {workers} workers block {block + 1}: {mode} {1000 * seconds:.0f} ms", file=sys.stderr)
    share = [1 - alone / gloo for alone, gloo in zip(times["alone"], times["gloo"])]
    return {"model": model, "batch": batch, "workers": workers, "processor": processor(),
            "gloo_exchange_share": statistics.median(share),
            "step_ms": {mode: 1000 * statistics.median(each) for mode, each in times.items()},
            "of_gloo": {mode: [gloo / own for gloo, own in zip(times["gloo"], times[mode])] for mode in given.modes},
            "loss": losses}


def table(result):
    print(f"\n{result['model']}, {result['workers']} workers, batches of {result['batch']}: Gloo's exchange is "
          f"{100 * result['gloo_exchange_share']:.0f} % of its step ({result['processor']})")
    print(f"{'mode':<10} {'a step':>9} {'steps a second, of gloo':>26} {'last loss':>10}")
    for mode, milliseconds in result["step_ms"].items():
        print(f"{mode:<10} {milliseconds:>6.0f} ms {spread(result['of_gloo'][mode]):>26} {result['loss'][mode]:>10.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build's folder")
    parser.add_argument("--models", default="resnet18:2,transformer:2", help="MODEL:BATCH, of resnet18 and transformer")
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--modes", default=",".join(MODES), help="gloo and alone are always among them")
    parser.add_argument("--cores", type=int, default=1, help="of the server (default 1)")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="that are timed (default 10)")
    parser.add_argument("--warm", type=int, default=4, help="before them (default 4)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    given = parser.parse_args()
    given.build = given.build.resolve()
    wanted = given.modes.split(",") + ["gloo", "alone"]
    given.modes = [mode for mode in MODES if mode in wanted]
    if set(wanted) - set(MODES):
        parser.error(f"--modes: {', '.join(sorted(set(wanted) - set(MODES)))} not known; there are {', '.join(MODES)}")
    for file in (given.build / "bin/phub-server", given.build / "lib/libphub.so"):
        if not file.exists():
            parser.error(f"{file} is not there; build phub_shared and phub-server")
    for workers in given.workers.split(","):
        for model, _, batch in (each.partition(":") for each in given.models.split(",")):
            result = compare(given, model, int(batch or 2), int(workers))
            print(json.dumps(result)) if given.json else table(result)
            sys.stdout.flush()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains beside a slow worker: how fast with parts by speed, and how well by each policy of rounds.

    sudo bench/stragglers/training.py speed build/release/bin [--cpus 0.3,0.9] [--blocks 5] [--json]
    sudo bench/stragglers/training.py accuracy build/release/bin [--cpus 0.2,0.4] [--seeds 1,2,3]
                                                [--policies 0,2] [--json]

Each worker is a process in a control group of its own, which may use so much of one CPU: as root.
Server and workers meet over shared memory.

speed: batches in equal parts, in parts as the CPUs are (`train.share`), and in parts that the workers
measure ("auto") train in turn, block by block; images a second of all workers in the median step.
accuracy: LeNet on the bundled MNIST images, each worker the same number of images. A rate is given
for each policy, as a push that is an update of its own takes a smaller one than a mean of all
(see POLICIES). Kernels are chosen before the first run.
Exit code: 0; 1 if a run failed; 2 for bad input.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERIOD_US = 10_000
STEPS_TO_WARM_UP = 5

NETWORK = """
job: "speed"
model { name: "resnet20" }
data { format: "synthetic" synthetic_images: 2048 }
optimizer { rule: "momentum" learning_rate: 0.01 }
train { batch: 32 epochs: 100 max_steps: %(steps)d evaluate: false threads: 1 %(train)s }
"""
LENET = """
job: "accuracy" order: "arrival" workers: %(workers)d %(rounds)s
model { name: "lenet" }
data { format: "idx" path: "%(data)s" shift_pixels: 2 }
optimizer { rule: "momentum" learning_rate: %(rate)g momentum: %(momentum)g weight_decay: 0.0005
            schedule { kind: "cosine" warmup_steps: 60 } }
train { epochs: %(epochs)d batch: 32 seed: %(seed)d threads: 1 %(train)s }
"""
# Name, rounds, rate of `workers` workers, momentum.
POLICIES = (
    ("all workers' rounds", "", lambda workers: 0.015, 0.9),
    ("staleness of 3", 'rounds { quorum: 1 late: "add" staleness: 3 }', lambda workers: 0.015 / workers, 0.9),
    # Whose pushes are late by others' updates has a momentum of its own (Mitliagkas et al., 2016).
    ("asynchronous", 'rounds { quorum: 1 late: "add" }', lambda workers: 0.15 / workers, 0.0),
    ("its stale pushes less", 'rounds { quorum: 1 late: "add" weight: "staleness" }',
     lambda workers: 0.15 / workers, 0.0),
    ("its momentum 0.9", 'rounds { quorum: 1 late: "add" }', lambda workers: 0.015 / workers, 0.9),
)


class Group:
    """A control group that may use so much of a CPU."""

    def __init__(self, name, cpus):
        first = pathlib.Path("/sys/fs/cgroup/cpu")
        self.path = (first if first.exists() else pathlib.Path("/sys/fs/cgroup")) / f"phub-{os.getpid()}-{name}"
        self.path.mkdir()
        quota = int(cpus * PERIOD_US)
        if first.exists():
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def enter(self):
        (self.path / "cgroup.procs").write_text("0")

    def close(self):
        self.path.rmdir()


class Bench:
    def __init__(self, options):
        self.bin = pathlib.Path(options.bin).resolve()
        self.groups = [Group(index, cpus) for index, cpus in enumerate(options.cpus)]
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.runs = 0

    def close(self):
        for group in self.groups:
            group.close()
        self.folder.cleanup()

    def train(self, texts):
        """One configuration for each worker; what worker 0 said, and the metrics of each."""
        self.runs += 1
        server = subprocess.Popen(
            [self.bin / "phub-server", "--control", "127.0.0.1:0", "--data", "127.0.0.1:0", "--cores", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            address = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())[0]
            return self.work(texts, address)
        finally:
            server.terminate()
            server.communicate()

    def work(self, texts, address):
        workers, metrics = [], []
        for index, text in enumerate(texts):
            config = self.path / f"{self.runs}-{index}.textproto"
            config.write_text(text, encoding="utf-8")
            metrics.append(self.path / f"{self.runs}-{index}.metrics")
            workers.append(subprocess.Popen(
                [self.bin / "phub-worker", "train", config, "--server", address, "--workers",
                 str(len(texts)), "--index", str(index), "--metrics", metrics[-1]],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                preexec_fn=self.groups[index].enter))
        said = [worker.communicate() for worker in workers]
        for worker, (_, error) in zip(workers, said):
            if worker.returncode != 0:
                sys.exit(f"training.py: a worker ended with {worker.returncode}: {error.strip()}")
        return said[0][0], [[json.loads(line) for line in path.read_text().splitlines()] for path in metrics]


def images_per_second(metrics):
    """Of all workers, in the median step."""
    steps = [[line for line in lines if line["event"] == "step"][STEPS_TO_WARM_UP:] for lines in metrics]
    images = sum(line["batch"] for lines in metrics for line in lines if line["event"] == "start")
    return images / statistics.median(line["seconds"] for lines in steps for line in lines)


def spread(values):
    return [statistics.median(values), min(values), max(values)]


def speed(bench, options):
    """Images a second of each way in each block."""
    parts = [f'share: "{cpus:g}"' for cpus in options.cpus]
    ways = {"equal parts": [""] * len(parts), "parts as CPUs are": parts,
            "measured parts": ['share: "auto"'] * len(parts)}
    rates = {way: [] for way in ways}
    for block in range(options.blocks):
        order = list(ways)[block % len(ways):] + list(ways)[:block % len(ways)]
        for way in order:
            texts = [NETWORK % {"steps": options.steps, "train": part} for part in ways[way]]
            rates[way].append(images_per_second(bench.train(texts)[1]))
            print(f"block {block + 1}/{options.blocks}  {way}: {rates[way][-1]:.1f} images/s", file=sys.stderr)
    return [{"way": way, "images_per_second": spread(values),
             "of_equal": spread([a / b for a, b in zip(values, rates["equal parts"])])}
            for way, values in rates.items()]


def accuracy(bench, options):
    """Per cent of the test images, of each policy and seed."""
    workers, rows = len(options.cpus), []
    for name, rounds, rate, momentum in options.policies:
        found = []
        for seed in options.seeds:
            text = LENET % {"rounds": rounds, "rate": rate(workers), "momentum": momentum, "seed": seed,
                            "epochs": options.epochs, "train": "", "workers": workers, "data": ROOT / "configs/data/mnist10k"}
            said, _ = bench.train([text] * workers)
            found.append(float(re.findall(r"test accuracy ([0-9.]+) %", said)[-1]))
            print(f"{name}, seed {seed}: {found[-1]:.2f} %", file=sys.stderr)
        rows.append({"way": name, "accuracy_percent": spread(found)})
    return rows


def show(rows):
    for row in rows:
        words = [f"{row['way']:20}"]
        for name, text in (("images_per_second", "{:8.1f} [{:.1f} .. {:.1f}] images/s"),
                           ("of_equal", "  {:.2f}x [{:.2f} .. {:.2f}]"),
                           ("accuracy_percent", "{:8.2f} [{:.2f} .. {:.2f}] %")):
            if name in row:
                words.append(text.format(*row[name]))
        print("".join(words))


def main():
    numbers = lambda kind: lambda text: [kind(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "accuracy"])
    parser.add_argument("bin", help="folder with a build's programs")
    parser.add_argument("--cpus", type=numbers(float), help="what each worker may use of a CPU (default "
                        "0.3,0.9 for speed; 0.2,0.4,0.4,0.4 for accuracy)")
    parser.add_argument("--blocks", type=int, default=5, help="of speed (default 5)")
    parser.add_argument("--steps", type=int, default=40, help="of speed, in each run (default 40)")
    parser.add_argument("--epochs", type=int, default=20, help="of accuracy (default 20)")
    parser.add_argument("--seeds", type=numbers(int), default=[1, 2, 3], help="of accuracy (default 1,2,3)")
    parser.add_argument("--policies", type=numbers(int), help="of accuracy: numbers of POLICIES, from 0 (default all)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    options.cpus = options.cpus or ([0.3, 0.9] if options.what == "speed" else [0.2, 0.4, 0.4, 0.4])
    if any(not 0 <= index < len(POLICIES) for index in options.policies or ()):
        parser.error(f"--policies: there are 0 to {len(POLICIES) - 1}")
    options.policies = [POLICIES[index] for index in options.policies or range(len(POLICIES))]
    if min(options.cpus) <= 0 or len(options.cpus) < 2:
        parser.error("--cpus: two or more, each above 0")
    if options.steps <= STEPS_TO_WARM_UP:
        parser.error(f"--steps: more than {STEPS_TO_WARM_UP}, which warm up")
    if os.geteuid() != 0:
        parser.error("only root may make control groups")
    bench = Bench(options)
    try:
        rows = (speed if options.what == "speed" else accuracy)(bench, options)
    finally:
        bench.close()
    if options.json:
        print(json.dumps({"cpus": options.cpus, "rows": rows}))
    else:
        show(rows)


if __name__ == "__main__":
    main()

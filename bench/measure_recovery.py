#!/usr/bin/env python3
"""Measures how long a training stands still when a server or a worker is killed (train.recover_s).

    bench/measure_recovery.py [--bin build/release/bin] [--model resnet20] [--workers 4] [--repeats 5]

A server and workers train on this machine, with a checkpoint every --every steps. In turn the server and a
worker are killed and started again at once. The table has medians, with the smallest and the largest:

    noticed     from the kill to the first word of it from each of the other workers
    back        from the start of the new process (a server: when it serves) until all workers say
                "going on at step", before their first step

    bench/measure_recovery.py --repeats 1 --json

Exit status: 0, 1 something failed, 2 wrong usage.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = """
job: "measured"
model {{ name: "{model}" }}
data {{ format: "synthetic" synthetic_images: 2048 }}
optimizer {{ rule: "momentum" learning_rate: 0.001 }}
train {{
  batch: {batch} epochs: 100000 evaluate: false threads: 1
  checkpoint: "model.safetensors" checkpoint_steps: {every} snapshot: true recover_s: 120
}}
"""
DEADLINE = 120


def processor():
    names = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{names[0]}, {len(names)} CPUs" if names else "unknown"


class Worker:
    """A worker, and when it said what."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said = []  # (time, line)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line))

    def when(self, words, after):
        """The first time after `after` that it says the words."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            for at, line in self.said:
                if at > after and words in line:
                    return at, line
            if self.process.poll() is not None:
                break
            time.sleep(0.002)
        sys.exit(f"a worker did not say {words!r}: {''.join(line for _, line in self.said)}")


class Training:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        (folder / "run.textproto").write_text(CONFIG.format(model=options.model, batch=options.batch, every=options.every))
        self.server, self.control = None, "127.0.0.1:0"
        self.serve()
        self.workers = [self.work(index) for index in range(options.workers)]

    def serve(self):
        self.server = subprocess.Popen(
            [self.options.bin / "phub-server", "--control", self.control, "--data", "127.0.0.1:0", "--cores", "1", "--state",
             self.folder / "state", "--log-level", "error"], stdout=subprocess.PIPE, text=True)
        ready = re.match(r"phub-server ready control=(\S+)", self.server.stdout.readline())
        if not ready:
            sys.exit("the server did not start")
        self.control = ready[1]

    def work(self, index):
        return Worker([self.options.bin / "phub-worker", "train", "run.textproto", "--server", self.control, "--workers",
                       str(self.options.workers), "--index", str(index), "--transport", self.options.transport], self.folder)

    def step_of_checkpoint(self):
        data = (self.folder / "model.safetensors").read_bytes()
        return int(json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]["next_step"])

    def wait_for_checkpoint(self, after):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            if (self.folder / "model.safetensors").exists() and self.step_of_checkpoint() > after:
                return self.step_of_checkpoint()
            time.sleep(0.01)
        sys.exit("no checkpoint was written")

    def kill(self, what):
        """Returns (noticed, back) in seconds."""
        last = len(self.workers) - 1
        others = self.workers if what == "server" else self.workers[:last]
        killed = time.monotonic()
        if what == "server":
            self.server.kill()
            self.server.wait()
            self.serve()
        else:
            self.workers[last].process.kill()
            self.workers[last].process.wait()
        started = time.monotonic()
        if what == "worker":
            self.workers[last] = self.work(last)
        noticed = max(each.when("goes back to its last checkpoint", killed)[0] for each in others) - killed
        back = max(each.when("going on at step", killed)[0] for each in self.workers) - started
        return noticed, back

    def end(self):
        for each in [worker.process for worker in self.workers] + [self.server]:
            each.kill()
            each.wait()


def measure(options):
    rows = {"server": [], "worker": []}
    with tempfile.TemporaryDirectory() as folder:
        training = Training(options, pathlib.Path(folder))
        try:
            step = 0
            for _ in range(options.repeats):
                for what in rows:
                    step = training.wait_for_checkpoint(step)
                    rows[what].append(training.kill(what))
        finally:
            training.end()
    return rows


def summary(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--model", default="resnet20", help="a built-in model (phub-worker model --list)")
    parser.add_argument("--batch", type=int, default=8, help="images of each worker and step")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next")
    parser.add_argument("--repeats", type=int, default=5, help="kills of each kind")
    parser.add_argument("--transport", default="tcp", choices=("shm", "tcp"))
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    for name in ("phub-server", "phub-worker"):
        if not (options.bin / name).exists():
            parser.error(f"--bin: {options.bin / name} is not there; build it, or name another folder")
    if options.repeats < 1 or options.workers < 2:
        parser.error("--repeats must be at least 1, and --workers at least 2")
    rows = measure(options)
    figures = {what: {"noticed": summary([row[0] for row in values]), "back": summary([row[1] for row in values])}
               for what, values in rows.items()}
    if options.json:
        print(json.dumps({"processor": processor(), "model": options.model, "workers": options.workers, "kills": figures}))
        return
    print(f"{options.model}, {options.workers} workers, {options.transport}; {processor()}; seconds, medians of {options.repeats}")
    print(f"{'killed':8} {'noticed':>24} {'back':>24}")
    for what, figure in figures.items():
        cells = [f"{one['median']:8.2f} [{one['least']:.2f} .. {one['most']:.2f}]" for one in (figure["noticed"], figure["back"])]
        print(f"{what:8} {cells[0]:>24} {cells[1]:>24}")


if __name__ == "__main__":
    main()

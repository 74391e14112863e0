#!/usr/bin/env python3
"""Times training steps of phub-worker and of PyTorch on the CPU in turn, and prints the ratio.

    bench/compare_torch.py [--worker build/release/bin/phub-worker] [--threads 1,2] [--types fp32,bf16]

A step is the input's copy, forward, loss, backward and the update (SGD with Nesterov's momentum) of
a CIFAR ResNet with parameter-free shortcuts, on one batch in memory. PyTorch works on channels_last
in each of its modes: eager and torch.jit; in bf16 under autocast, and with bf16 weights (which has
no fp32 masters, so it trains worse, but it is faster here and there). In a block each mode and
phub-worker are timed once, in an order that turns from block to block, since a machine's speed
drifts; a block's figure is the median over its steps. PyTorch's mode is the one with the best
median over the blocks. The ratio is phub-worker's images/s over that mode's in the same block:
the median of the blocks, with the smallest and the largest.

PyTorch is the system's: `apt install python3-torch`, and run this with /usr/bin/python3. A quiet
machine gives a narrow spread; the default takes about a minute.

    bench/compare_torch.py --threads 2 --types bf16 --blocks 10
    bench/compare_torch.py --model resnet56 --batch 128 --json

--kernels times phub-worker with several of its ways to choose kernels, in the same blocks. Its
measured choice is made before the first block; with any other, steps should be no more than 3 %
faster (the column "faster": how much faster than with the first in the list, in the median).

    bench/compare_torch.py --kernels measured,own,onednn,blocked

Exit status: 0, 1 something failed, 2 wrong usage.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/accuracy"))
MODES = {"fp32": ["eager", "jit"], "bf16": ["autocast", "autocast+jit", "bf16 weights"]}


def torch_or_exit():
    try:
        import torch
    except ImportError:
        sys.exit("compare_torch.py: this python has no PyTorch; apt install python3-torch and run "
                 "it with /usr/bin/python3")
    return torch


class TorchSteps:
    """One of PyTorch's modes, ready to run."""

    def __init__(self, torch, mode: str, depth: int, batch: int):
        self.torch = torch
        torch.manual_seed(1)
        channels_last = torch.channels_last
        self.images = torch.rand(batch, 3, 32, 32).mul(2).sub(1).to(memory_format=channels_last)
        self.labels = torch.randint(0, 10, (batch,))
        self.type = torch.bfloat16 if mode == "bf16 weights" else torch.float32
        self.autocast = mode.startswith("autocast")
        from torch_resnet import ResNet  # needs PyTorch, which --help does not
        self.model = ResNet(depth).to(self.type).to(memory_format=channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9,
                                         weight_decay=5e-4, nesterov=True)
        if mode == "jit":
            self.model = torch.jit.script(self.model)
        elif mode == "autocast+jit":
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                self.model = torch.jit.trace(self.model, self.images, check_trace=False)

    def step(self) -> None:
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        images = self.images.to(self.type)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            logits = self.model(images)
        torch.nn.functional.cross_entropy(logits.float(), self.labels).backward()
        self.optimizer.step()


def serve(options: dict) -> None:
    """The child: answers each line [mode, steps] with the median seconds of a step."""
    import time
    torch = torch_or_exit()
    torch.set_num_threads(options["threads"])
    ready: dict[str, TorchSteps] = {}
    for line in sys.stdin:
        mode, steps = json.loads(line)
        if mode not in ready:
            ready[mode] = TorchSteps(torch, mode, options["depth"], options["batch"])
            for _ in range(4):  # profiles and compiles
                ready[mode].step()
        seconds = []
        for index in range(steps + 2):
            start = time.perf_counter()
            ready[mode].step()
            if index >= 2:
                seconds.append(time.perf_counter() - start)
        print(json.dumps(statistics.median(seconds)), flush=True)


class Torch:
    def __init__(self, arguments, threads: int):
        options = {"threads": threads, "depth": arguments.depth, "batch": arguments.batch}
        self.child = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--serve", json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)})

    def seconds(self, mode: str, steps: int) -> float:
        self.child.stdin.write(json.dumps([mode, steps]) + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            sys.exit(f"compare_torch.py: PyTorch's process ended in mode {mode}; see above")
        return json.loads(answer)

    def close(self) -> None:
        self.child.stdin.close()
        self.child.wait()


def phub_seconds(arguments, kind: str, threads: int, kernels: str, steps: int) -> float:
    command = [str(arguments.worker), "bench", arguments.model, "--compute-type", kind, "--batch",
               str(arguments.batch), "--threads", str(threads), "--steps", str(steps),
               "--kernels", kernels, "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"compare_torch.py: {arguments.worker}: {error.strerror}; build it with `cmake "
                 "--preset release && cmake --build --preset release`, or name it with --worker")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)["step_seconds"]["median"]


def compare(arguments, kind: str, threads: int, torch: Torch) -> list[dict[str, float]]:
    """Seconds of a step in each block, by mode; phub-worker's by its kernels' rule."""
    for kernels in arguments.kernels:  # what is measured is remembered
        phub_seconds(arguments, kind, threads, kernels, 1)
    blocks = []
    for block in range(arguments.blocks):
        order = [*arguments.kernels, *MODES[kind]]
        turn = block % len(order)
        times = {}
        for mode in order[turn:] + order[:turn]:
            if mode in arguments.kernels:
                times[mode] = phub_seconds(arguments, kind, threads, mode, arguments.steps)
            else:
                times[mode] = torch.seconds(mode, arguments.steps)
        blocks.append(times)
        if sys.stderr.isatty():
            print(f"\r{kind}, {threads} threads: block {block + 1} of {arguments.blocks} ",
                  end="", file=sys.stderr, flush=True)
    return blocks


def summary(arguments, kind: str, threads: int, kernels: str,
            blocks: list[dict[str, float]]) -> dict:
    rate = {mode: arguments.batch / statistics.median(times[mode] for times in blocks)
            for mode in blocks[0]}
    best = max(MODES[kind], key=lambda mode: rate[mode])
    ratios = [times[best] / times[kernels] for times in blocks]
    faster = [times[arguments.kernels[0]] / times[kernels] - 1 for times in blocks]
    return {"bench": "compare_torch", "model": arguments.model, "batch": arguments.batch,
            "type": kind, "threads": threads, "kernels": kernels, "blocks": arguments.blocks, "steps": arguments.steps,
            "images_per_second": {mode: round(value, 1) for mode, value in rate.items()},
            "torch_mode": best, "ratio": {"median": statistics.median(ratios),
                                          "min": min(ratios), "max": max(ratios)},
            "faster_than_first_percent": 100 * statistics.median(faster)}


def print_table(rows: list[dict]) -> None:
    print(f"{'type':<5} {'threads':>7} {'kernels':<8} {'faster':>7} {'phub images/s':>14} "
          f"{'PyTorch':>8} {'mode':<13} {'ratio':>6} {'[min .. max]':>15}  other modes")
    for row in rows:
        rates, ratio = row["images_per_second"], row["ratio"]
        others = ", ".join(f"{mode} {value:.0f}" for mode, value in rates.items()
                           if mode in MODES[row["type"]] and mode != row["torch_mode"])
        spread = f"[{ratio['min']:.2f} .. {ratio['max']:.2f}]"
        print(f"{row['type']:<5} {row['threads']:>7} {row['kernels']:<8} "
              f"{row['faster_than_first_percent']:>5.1f} % {rates[row['kernels']]:>14.0f} "
              f"{rates[row['torch_mode']]:>8.0f} {row['torch_mode']:<13} "
              f"{ratio['median']:>6.2f} {spread:>15}  {others}")


def words_of(allowed):
    def parse(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if not re.fullmatch(allowed, word):
                raise argparse.ArgumentTypeError(f'"{word}" is not one of {allowed}')
        return words
    return parse


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=pathlib.Path, default=ROOT / "build/release/bin/phub-worker",
                        help="phub-worker to time (default: the release build's)")
    parser.add_argument("--model", default="resnet20",
                        choices=["resnet20", "resnet32", "resnet56", "resnet110"])
    parser.add_argument("--batch", type=int, default=64, help="images of a step (default 64)")
    parser.add_argument("--threads", type=words_of("[1-9][0-9]*"), default=["1", "2"],
                        help="compute threads of both, a list (default 1,2)")
    parser.add_argument("--types", type=words_of("fp32|bf16"), default=["fp32", "bf16"],
                        help="compute types, a list (default fp32,bf16)")
    parser.add_argument("--kernels", type=words_of("measured|own|onednn|blocked"),
                        default=["measured"],
                        help="how phub-worker chooses kernels, a list (default measured)")
    parser.add_argument("--blocks", type=int, default=6, help="turns of each (default 6)")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of a turn (default 8)")
    parser.add_argument("--json", action="store_true", help="a JSON object for each row")
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for field in ("batch", "blocks", "steps"):
        if getattr(arguments, field) < 1:
            parser.error(f"--{field}: at least 1")
    arguments.depth = int(arguments.model.removeprefix("resnet"))
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if arguments.serve:
        return serve(arguments.serve)
    version = torch_or_exit().__version__
    rows = []
    for threads in map(int, arguments.threads):
        torch = Torch(arguments, threads)
        for kind in arguments.types:
            blocks = compare(arguments, kind, threads, torch)
            rows += [summary(arguments, kind, threads, kernels, blocks) | {"torch": version}
                     for kernels in arguments.kernels]
        torch.close()
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
        return None
    print(f"{arguments.model}, batch {arguments.batch}, whole steps, PyTorch {version} channels_last")
    return print_table(rows)


if __name__ == "__main__":
    main()

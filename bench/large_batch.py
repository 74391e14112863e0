#!/usr/bin/env python3
"""Trains one small CNN with small batches, and with batches 32 times as large in three ways.

    bench/large_batch.py [--bin build/release/bin] [--seeds 3] [--epochs 12] [--json]

LeNet on the bundled MNIST images, the same number of epochs for all: batches of 32 with momentum;
then batches of 1024 with LARS and warm-up, with momentum and 32 times the learning rate (the linear
scaling rule) and warm-up, and with momentum and the best of four lower learning rates. Prints the
test accuracy's median over the seeds, with the smallest and the largest, and the distance to small
batches in points. A training whose loss is no longer finite counts with the accuracy of a guess.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL_RATE = 0.015
SCALE = 32
GUESS = 0.1  # ten classes
RATES = (0.03, 0.06, 0.12, 0.24)  # of momentum with large batches
CONFIG = """
job: "large-batch"
model {{ name: "lenet" }}
data {{ format: "idx" path: "{data}" shift_pixels: 2 }}
optimizer {{
  rule: "{rule}" learning_rate: {rate} momentum: 0.9 weight_decay: 0.0005 {trust}
  schedule {{ kind: "cosine" warmup_steps: {warm_up} }}
}}
train {{ epochs: {epochs} batch: {batch} seed: {seed} }}
"""


@dataclass
class Recipe:
    name: str
    rule: str
    rate: float
    batch: int
    warm_up: int


def accuracy(program: pathlib.Path, recipe: Recipe, epochs: int, seed: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.textproto"
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        fields = {**vars(recipe), "data": ROOT / "configs/data/mnist10k"}
        trust = "trust_coefficient: 0.01" if recipe.rule == "lars" else ""
        config.write_text(CONFIG.format(**fields, epochs=epochs, seed=seed, trust=trust))
        command = [program, "train", config, "--local", "--metrics", metrics]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 and "no longer finite" not in done.stderr:
            sys.exit(f"{program} failed:\n{done.stderr}")
        events = [json.loads(line) for line in metrics.read_text().splitlines()]
    if done.returncode != 0:
        return GUESS
    return [event for event in events if event["event"] == "epoch"][-1]["test_accuracy"]


def measure(program: pathlib.Path, recipe: Recipe, arguments: argparse.Namespace) -> list[float]:
    values = []
    for seed in range(1, arguments.seeds + 1):
        print(f"\r\033[K{recipe.name}: seed {seed} of {arguments.seeds}", end="", file=sys.stderr)
        values.append(accuracy(program, recipe, arguments.epochs, seed))
    print("\r\033[K", end="", file=sys.stderr)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default 3)")
    parser.add_argument("--epochs", type=int, default=12, help="of each training (default 12)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    program = arguments.bin / "phub-worker"
    if not program.exists():
        parser.error(f"--bin: {program} is not there; build it: cmake --build build/release")

    large = 32 * SCALE
    linear = SMALL_RATE * SCALE
    recipes = [
        Recipe("momentum, batch 32", "momentum", SMALL_RATE, 32, 60),
        Recipe("LARS, batch 1024", "lars", 1.0, large, 20),
        Recipe(f"momentum, batch 1024, rate {linear}", "momentum", linear, large, 20),
    ]
    rows = [(recipe.name, measure(program, recipe, arguments)) for recipe in recipes]
    tuned = []
    for rate in RATES:
        recipe = Recipe(f"momentum, batch 1024, best rate ({rate})", "momentum", rate, large, 20)
        tuned.append((recipe.name, measure(program, recipe, arguments)))
    rows.append(max(tuned, key=lambda row: statistics.median(row[1])))

    small = statistics.median(rows[0][1])
    if not arguments.json:
        print(f"{'RECIPE':<42} {'ACCURACY %':>10} {'[MIN .. MAX]':>18} {'BELOW':>6}")
    for name, values in rows:
        median = 100 * statistics.median(values)
        low, high, below = 100 * min(values), 100 * max(values), 100 * small - median
        if arguments.json:
            line = {"bench": "large-batch", "recipe": name, "accuracy": median}
            print(json.dumps({**line, "min": low, "max": high, "points_below": below}))
        else:
            print(f"{name:<42} {median:>10.2f} {f'[{low:.2f} .. {high:.2f}]':>18} {below:>6.2f}")


if __name__ == "__main__":
    main()

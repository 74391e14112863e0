#!/usr/bin/env python3
"""Trains one small CNN with small batches, and with batches 32 times as large in three ways.

    bench/accuracy/large_batch.py [--bin build/release/bin] [--seeds 3] [--epochs 12] [--json]

LeNet on the bundled MNIST images, the same number of epochs for all: batches of 32 with momentum;
then batches of 1024 with LARS and warm-up, with momentum and 32 times the learning rate (the linear
scaling rule) and warm-up, and with momentum and the best of four lower learning rates. Prints the
test accuracy's median over the seeds, with the smallest and the largest, and the distance to small
batches in points. A training whose loss is no longer finite counts with the accuracy of a guess.
"""

import argparse
import statistics
from dataclasses import dataclass

import trainings

SMALL_RATE = 0.015
SCALE = 32
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


def measure(recipe: Recipe, arguments: argparse.Namespace) -> tuple[str, list[float]]:
    fields = {**vars(recipe), "data": trainings.DATA, "epochs": arguments.epochs}
    fields["trust"] = "trust_coefficient: 0.01" if recipe.rule == "lars" else ""

    def train(seed: int) -> float:
        return trainings.accuracy(arguments, CONFIG.format(**fields, seed=seed))

    return recipe.name, trainings.over_seeds(recipe.name, arguments.seeds, train)


def main() -> None:
    arguments = trainings.parsed(trainings.parser(__doc__, seeds=3, epochs=12))
    large = 32 * SCALE
    linear = SMALL_RATE * SCALE
    recipes = [
        Recipe("momentum, batch 32", "momentum", SMALL_RATE, 32, 60),
        Recipe("LARS, batch 1024", "lars", 1.0, large, 20),
        Recipe(f"momentum, batch 1024, rate {linear}", "momentum", linear, large, 20),
    ]
    rows = [measure(recipe, arguments) for recipe in recipes]
    lower = [
        Recipe(f"momentum, batch 1024, best rate ({rate})", "momentum", rate, large, 20)
        for rate in RATES
    ]
    tuned = [measure(recipe, arguments) for recipe in lower]
    rows.append(max(tuned, key=lambda row: statistics.median(row[1])))
    trainings.print_rows("large-batch", rows, arguments.json)


if __name__ == "__main__":
    main()

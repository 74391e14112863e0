#!/usr/bin/env python3
"""Trains LeNet on the bundled MNIST images in fp32 and in mixed precision (bf16).

    bench/accuracy/accuracy_types.py [--bin build/release/bin] [--seeds 5] [--epochs 12] [--json]

The same seeds, so the same first weights, order and moves of the images. Prints the test accuracy's
median over the seeds, with the smallest and the largest, and how far bf16 is below fp32 in points.
"""

import trainings

CONFIG = """
job: "types"
model {{ name: "lenet" }}
data {{ format: "idx" path: "{data}" shift_pixels: 2 }}
optimizer {{
  rule: "momentum" learning_rate: 0.015 momentum: 0.9 weight_decay: 0.0005
  schedule {{ kind: "cosine" warmup_steps: 60 }}
}}
train {{ epochs: {epochs} batch: 32 seed: {seed} compute_type: "{type}" }}
"""


def main() -> None:
    arguments = trainings.parsed(trainings.parser(__doc__, seeds=5, epochs=12))
    rows = []
    for kind in ("fp32", "bf16"):
        fields = {"data": trainings.DATA, "epochs": arguments.epochs, "type": kind}

        def train(seed: int, fields: dict = fields) -> float:
            return trainings.accuracy(arguments, CONFIG.format(**fields, seed=seed))

        rows.append((f"LeNet, {kind}", trainings.over_seeds(kind, arguments.seeds, train)))
    trainings.print_rows("types", rows, arguments.json)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains ResNet-20 on the bundled MNIST images here and in PyTorch, with the same recipe.

    bench/accuracy/accuracy_torch.py [--bin build/release/bin] [--seeds 3] [--epochs 4] [--type bf16] [--json]

8,000 images of 28 x 28 moved by up to two pixels, batches of 64, momentum 0.9, learning rate 0.1
after a warm-up of 50 steps and then down a cosine, weight decay 5e-4 but for biases and batch
normalisation, the same distributions of the first weights. One thread each. Prints the accuracy on
the 2,000 test images, median over the seeds with the smallest and the largest, and how far phub is
below PyTorch in points.
Needs PyTorch (Debian: apt install python3-torch, then /usr/bin/python3 bench/accuracy/accuracy_torch.py).
"""

from __future__ import annotations

import argparse
import gzip
import math
import sys

import trainings

try:
    import numpy
    import torch
    from torch_resnet import ResNet
except ImportError as missing:
    if {"-h", "--help"}.isdisjoint(sys.argv[1:]):
        sys.exit(f"{missing}: apt install python3-torch, and run this with /usr/bin/python3")

BATCH, RATE, WARM_UP, DECAY, SHIFT = 64, 0.1, 50, 5e-4, 2
CONFIG = """
job: "accuracy"
model {{ name: "resnet20" image {{ channels: 1 height: 28 }} }}
data {{ format: "idx" path: "{data}" shift_pixels: {shift} }}
optimizer {{
  rule: "momentum" learning_rate: {rate} momentum: 0.9 weight_decay: {decay}
  schedule {{ kind: "cosine" warmup_steps: {warm_up} }}
}}
train {{ epochs: {epochs} batch: {batch} seed: {seed} compute_type: "{type}" }}
"""


def ours(arguments: argparse.Namespace, seed: int) -> float:
    fields = {"data": trainings.DATA, "shift": SHIFT, "rate": RATE, "decay": DECAY}
    fields |= {"warm_up": WARM_UP, "epochs": arguments.epochs, "batch": BATCH, "seed": seed}
    return trainings.accuracy(arguments, CONFIG.format(**fields, type=arguments.type))


def read_idx(name: str) -> torch.Tensor:
    data = gzip.decompress((trainings.DATA / name).read_bytes())
    sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    values = numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * len(sizes))
    return torch.from_numpy(values.copy().reshape(sizes))


def normalise(images: torch.Tensor) -> torch.Tensor:
    floats = (images.unsqueeze(1).float() / 255 - 0.1307) / 0.3081
    return floats.contiguous(memory_format=torch.channels_last)


def moved(images: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(images)
    size = images.shape[1]
    moves = torch.randint(-SHIFT, SHIFT + 1, (len(images), 2)).tolist()
    for i, (down, right) in enumerate(moves):
        rows = slice(max(0, down), min(size, size + down))
        columns = slice(max(0, right), min(size, size + right))
        from_rows = slice(max(0, -down), min(size, size - down))
        from_columns = slice(max(0, -right), min(size, size - right))
        out[i, rows, columns] = images[i, from_rows, from_columns]
    return out


def initialise(network: torch.nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=module.in_features**-0.5)
            torch.nn.init.zeros_(module.bias)


def factor(step: int, steps: int) -> float:
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - WARM_UP) / (steps - WARM_UP))))


def test_accuracy(network: torch.nn.Module) -> float:
    images = normalise(read_idx("test-images-idx3-ubyte.gz"))
    labels = read_idx("test-labels-idx1-ubyte.gz").long()
    network.eval()
    with torch.no_grad():
        guesses = torch.cat([network(part).argmax(1) for part in images.split(250)])
    return (guesses == labels).double().mean().item()


def theirs(arguments: argparse.Namespace, seed: int) -> float:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    images = read_idx("train-images-idx3-ubyte.gz")
    labels = read_idx("train-labels-idx1-ubyte.gz").long()
    network = ResNet(20, channels=1).to(memory_format=torch.channels_last)
    initialise(network)
    weights = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": others}]
    optimizer = torch.optim.SGD(groups, lr=RATE, momentum=0.9)
    steps_per_epoch = len(images) // BATCH
    steps = min(arguments.epochs * steps_per_epoch, arguments.max_steps or sys.maxsize)
    for step in range(steps):
        if step % steps_per_epoch == 0:
            order = torch.randperm(len(images))
        for group in optimizer.param_groups:
            group["lr"] = RATE * factor(step, steps)
        first = step % steps_per_epoch * BATCH
        chosen = order[first : first + BATCH]
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.type == "bf16"):
            logits = network(normalise(moved(images[chosen])))
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return test_accuracy(network)


def main() -> None:
    parser = trainings.parser(__doc__, seeds=3, epochs=4)
    parser.add_argument("--type", choices=("fp32", "bf16"), default="fp32", help="compute type")
    arguments = trainings.parsed(parser)
    rows = []
    for name, train in (("PyTorch", theirs), ("phub", ours)):
        values = trainings.over_seeds(name, arguments.seeds, lambda seed: train(arguments, seed))
        rows.append((f"{name}, ResNet-20, {arguments.type}", values))
    trainings.print_rows("accuracy", rows, arguments.json)


if __name__ == "__main__":
    main()

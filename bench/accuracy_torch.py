#!/usr/bin/env python3
"""Trains ResNet-20 on the bundled MNIST images here and in PyTorch, with the same recipe.

    bench/accuracy_torch.py [--bin build/release/bin] [--seeds 3] [--epochs 4] [--type bf16] [--json]

8,000 images of 28 x 28 moved by up to two pixels, batches of 64, momentum 0.9, learning rate 0.1
after a warm-up of 50 steps and then down a cosine, weight decay 5e-4 but for biases and batch
normalisation, the same distributions of the first weights. One thread each. Prints the accuracy on
the 2,000 test images, median over the seeds with the smallest and the largest, and the difference.
Needs PyTorch (Debian: apt install python3-torch, then /usr/bin/python3 bench/accuracy_torch.py).
"""

import argparse
import gzip
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch

    from torch_resnet import ResNet20
except ImportError as missing:
    sys.exit(f"{missing}: apt install python3-torch, and run this with /usr/bin/python3")

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "configs/data/mnist10k"
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
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.textproto"
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        fields = {"data": DATA, "shift": SHIFT, "rate": RATE, "decay": DECAY, "warm_up": WARM_UP}
        fields |= {"epochs": arguments.epochs, "batch": BATCH, "seed": seed, "type": arguments.type}
        config.write_text(CONFIG.format(**fields))
        program = arguments.bin / "phub-worker"
        command = [program, "train", config, "--local", "--metrics", metrics]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{program} failed:\n{done.stderr}")
        events = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [event for event in events if event["event"] == "epoch"][-1]["test_accuracy"]


def read_idx(name: str) -> torch.Tensor:
    data = gzip.decompress((DATA / name).read_bytes())
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
    network = ResNet20(channels=1).to(memory_format=torch.channels_last)
    initialise(network)
    weights = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": others}]
    optimizer = torch.optim.SGD(groups, lr=RATE, momentum=0.9)
    steps_per_epoch = len(images) // BATCH
    steps = arguments.epochs * steps_per_epoch
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each (default 3)")
    parser.add_argument("--epochs", type=int, default=4, help="of each training (default 4)")
    parser.add_argument("--type", choices=("fp32", "bf16"), default="fp32", help="compute type")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    if not (arguments.bin / "phub-worker").exists():
        parser.error(f"--bin: no phub-worker in {arguments.bin}; build it: cmake --build build/release")

    medians = {}
    if not arguments.json:
        print(f"{'SYSTEM':<10} {'ACCURACY %':>10} {'[MIN .. MAX]':>18}")
    for name, train in (("phub", ours), ("PyTorch", theirs)):
        values = []
        for seed in range(1, arguments.seeds + 1):
            print(f"\r\033[K{name}: seed {seed} of {arguments.seeds}", end="", file=sys.stderr)
            values.append(100 * train(arguments, seed))
        print("\r\033[K", end="", file=sys.stderr)
        medians[name] = statistics.median(values)
        low, high = min(values), max(values)
        if arguments.json:
            line = {"bench": "accuracy", "system": name, "type": arguments.type}
            print(json.dumps({**line, "accuracy": medians[name], "min": low, "max": high}))
        else:
            print(f"{name:<10} {medians[name]:>10.2f} {f'[{low:.2f} .. {high:.2f}]':>18}")
    if not arguments.json:
        print(f"phub - PyTorch: {medians['phub'] - medians['PyTorch']:+.2f} points (bar: within 0.5)")


if __name__ == "__main__":
    main()

"""What the scripts beside this file share: trainings by phub-worker, and tables of accuracies."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "configs/data/mnist10k"  # 8,000 images for training, 2,000 for the test
GUESS = 0.1  # the accuracy of guessing one of ten classes


def parser(description: str, **defaults: int) -> argparse.ArgumentParser:
    """With the options that all have; `defaults`: of --seeds and --epochs."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    for name, value in defaults.items():
        made.add_argument(f"--{name}", type=int, default=value, help=f"(default {value})")
    made.add_argument(
        "--max-steps", type=int, default=0, metavar="N", help="end each training after N steps (default 0: no limit)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object a line")
    return made


def parsed(made: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; numbers that make no sense end the program."""
    arguments = made.parse_args()
    for name, least in (("seeds", 1), ("epochs", 1), ("max_steps", 0)):
        if getattr(arguments, name) < least:
            made.error(f"--{name.replace('_', '-')}: {getattr(arguments, name)} is below {least}")
    return arguments


def program(arguments: argparse.Namespace) -> pathlib.Path:
    worker = arguments.bin / "phub-worker"
    if not worker.exists():
        sys.exit(f"--bin: {worker} is not there; build it: cmake --build build/release")
    return worker


def accuracy(arguments: argparse.Namespace, config: str) -> float:
    """Trains without a server; the test accuracy at the end, a guess's if the loss ran away."""
    worker = program(arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "config.textproto"
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        file.write_text(config)
        command = [worker, "train", file, "--local", "--metrics", metrics, "--max-steps", str(arguments.max_steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 and "no longer finite" not in done.stderr:
            sys.exit(f"{worker} failed:\n{done.stderr}")
        events = [json.loads(line) for line in metrics.read_text().splitlines()]
    if done.returncode != 0:
        return GUESS
    return [event for event in events if event["event"] == "epoch"][-1]["test_accuracy"]


def over_seeds(name: str, seeds: int, train) -> list[float]:
    """train(seed) for each seed from 1, in per cent."""
    values = []
    for seed in range(1, seeds + 1):
        if sys.stderr.isatty():
            print(f"\r\033[K{name}: seed {seed} of {seeds}", end="", file=sys.stderr)
        values.append(100 * train(seed))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return values


def print_rows(bench: str, rows: list[tuple[str, list[float]]], as_json: bool) -> None:
    """Medians with the smallest and the largest, and how far below the first row they are."""
    first = statistics.median(rows[0][1])
    if not as_json:
        print(f"{'TRAINING':<42} {'ACCURACY %':>10} {'[MIN .. MAX]':>18} {'BELOW':>6}")
    for name, values in rows:
        median, low, high = statistics.median(values), min(values), max(values)
        if as_json:
            line = {"bench": bench, "training": name, "accuracy": median, "min": low, "max": high}
            print(json.dumps({**line, "points_below": first - median}))
        else:
            spread = f"[{low:.2f} .. {high:.2f}]"
            print(f"{name:<42} {median:>10.2f} {spread:>18} {first - median:>6.2f}")

#!/usr/bin/env python3
"""Replays networks on racks of several rates and shapes, and tells how far simulate is off.

    bench/replay/configurations.py build/release/bin --results FILE [options]

As root: each configuration is one `phub-bench rack run`. Its two lines are kept in FILE; what is
there already is not run again, so a run that was interrupted goes on where it was. At the end a
table, and the mean and the worst of the predictions' errors over all configurations asked for.
Compute times are assumed, and the same for every network, so that rates decide whether compute or
the exchange takes longer. Exit code: 0; 1 if a run failed; 2 for bad input.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

MEAN_BAR, WORST_BAR = 0.07, 0.15

# Racks, and what a server's and an uplink's rates are.
SHAPES = {
    "one-rack": "racks {{ workers: 4 servers: 1 }}\nlinks {{ worker_mbit: {rate} server_factor: 4 }}",
    "sharded": "racks {{ workers: 4 servers: 2 }}\nlinks {{ worker_mbit: {rate} server_factor: 2 }}",
    "two-racks": "racks {{ workers: 2 servers: 1 }}\nracks {{ workers: 2 servers: 1 }}\n"
                 "links {{ worker_mbit: {rate} server_factor: 2 oversubscription: 2 }}",
    "joined": "racks {{ workers: 2 servers: 1 }}\nracks {{ workers: 2 servers: 1 }}\n"
              "shape: \"spread\"\nlinks {{ worker_mbit: {rate} server_factor: 4 oversubscription: 2 }}",
}
# How much smaller keys are than the network's: a worker then exchanges some 10 MB. With 2.5 MB what
# the kernel and the ports have in their queues is a fifth of it, and nothing urgent overtakes that.
NETWORKS = {"alexnet": 24, "vgg11": 53, "googlenet": 2.6, "resnet50": 10}
POLICIES = ("priority", "wfbp", "bsp")


def scenario_of(network, rate, shape, policy, options):
    name, shrink = network
    return (SHAPES[shape].format(rate=rate) + f"""
servers {{ tcp_congestion_control: "{options.congestion}" }}
replay {{
  model: "{name}" policy: "{policy}" shrink: {shrink:g}
  forward_ms: {options.forward_ms} backward_ms: {options.backward_ms}
  iterations: {options.iterations} blocks: {options.blocks} alpha_us: {options.alpha_us}
}}
""")


def run(program, text):
    """The replay's object, with what the rack's says of CPUs; or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "scenario.textproto"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([program, "rack", "run", path, "--json"], capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    rack, replay = (json.loads(line) for line in done.stdout.splitlines())
    return {**replay, "cpus_busy": rack["cpus_busy"],
            "links_are_the_limit": rack["links_are_the_limit"]}, ""


def kept(path):
    """What earlier runs have measured, by scenario."""
    if not path.exists():
        return {}
    results = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            result = json.loads(line)
            results[result["scenario"]] = result
        except (ValueError, KeyError, TypeError):
            print(f"{path}:{number}: is no line of an earlier run; name another file", file=sys.stderr)
            sys.exit(2)
    return results


class Bar:
    """A line on standard error that is rewritten; a line for each step where that is no terminal."""

    def __init__(self, steps):
        self.steps, self.done, self.begin = steps, 0, time.monotonic()

    def step(self, what):
        width = 24
        full = width * self.done // max(1, self.steps)
        left = (time.monotonic() - self.begin) / self.done * (self.steps - self.done) if self.done else 0
        line = f"[{'#' * full}{'.' * (width - full)}] {self.done}/{self.steps} {what}"
        line += f", {left / 60:.0f} min left" if self.done else ""
        print(f"\r\033[K{line}" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n",
              file=sys.stderr, flush=True)
        self.done += 1

    def close(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)


def print_table(rows):
    titles = ("network", "Mbit/s", "shape", "policy", "measured", "predicted", "error", "bound", "CPU busy")
    cells = [titles]
    for ((network, _), rate, shape, policy), result in rows:
        busy = f"{100 * max(result['cpus_busy']):.0f} %"
        cells.append((network, f"{rate:g}", shape, policy, f"{result['seconds_p50']:.3f} s",
                      f"{result['predicted_seconds']:.3f} s", f"{100 * result['error']:+.1f} %",
                      result["bound"], busy if result["links_are_the_limit"] else busy + " (too much)"))
    widths = [max(len(row[i]) for row in cells) for i in range(len(titles))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_summary(rows):
    errors = [abs(result["error"]) for _, result in rows]
    mean, worst = sum(errors) / len(errors), max(errors)
    met = mean <= MEAN_BAR and worst <= WORST_BAR
    crowded = sum(not result["links_are_the_limit"] for _, result in rows)
    print(f"{len(rows)} configurations: mean error {100 * mean:.1f} %, worst {100 * worst:.1f} %; "
          f"bar: mean <= {100 * MEAN_BAR:.0f} %, worst <= {100 * WORST_BAR:.0f} %: "
          f"{'met' if met else 'not met'}")
    if crowded:
        print(f"In {crowded} of them a CPU was busy for 70 % of the time or more: these may be the CPUs' "
              "figures. Lower --rates, or stop what else runs.")


def words(allowed):
    def parse(text):
        chosen = text.split(",")
        for word in chosen:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(allowed)}")
        return chosen
    return parse


def networks(text):
    try:
        return [(name, float(shrink or 1)) for name, _, shrink in (word.partition(":") for word in text.split(","))]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}': NAME:SHRINK with commas is wanted") from error


def rates(text):
    try:
        return [float(word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}': numbers with commas are wanted") from error


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, help="folder with the programs")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="file to keep, and to go on from")
    parser.add_argument("--networks", type=networks, default=list(NETWORKS.items()),
                        help="as phub-bench replay --model, and how much smaller keys are (default "
                             f"{','.join(f'{name}:{shrink}' for name, shrink in NETWORKS.items())})")
    parser.add_argument("--rates", type=rates, default=[100, 400], help="a worker's, Mbit/s (default 100,400)")
    parser.add_argument("--shapes", type=words(list(SHAPES)), default=list(SHAPES),
                        help=f"default {','.join(SHAPES)}")
    parser.add_argument("--policies", type=words(POLICIES), default=["priority", "wfbp"],
                        help="priority, wfbp, bsp (default priority,wfbp)")
    for name, value, text in (("--forward-ms", 400, "assumed, of all layers"),
                              ("--backward-ms", 800, "assumed, of all layers"),
                              ("--alpha-us", 50, "latency of a hop, for the prediction")):
        parser.add_argument(name, type=float, default=value, help=f"{text} (default {value})")
    parser.add_argument("--iterations", type=int, default=2, help="timed, in each block (default 2)")
    parser.add_argument("--blocks", type=int, default=5, help="default 5")
    parser.add_argument("--congestion", default="cubic", help="tcp congestion control (default cubic)")
    parser.add_argument("--json", action="store_true", help="the results' lines instead of a table")
    return parser.parse_args()


def main():
    options = arguments()
    chosen = list(itertools.product(options.networks, options.rates, options.shapes, options.policies))
    done = kept(options.results)
    texts = {one: scenario_of(*one, options) for one in chosen}
    missing = [one for one in chosen if texts[one] not in done]
    bar = Bar(len(missing))
    for one in missing:
        (network, _), rate, shape, policy = one
        what = f"{network} at {rate:g} Mbit/s, {shape}, {policy}"
        bar.step(what)
        result, why = run(options.bin / "phub-bench", texts[one])
        if result is None:
            bar.close()
            sys.exit(f"{what}: {why}")
        done[texts[one]] = {**result, "scenario": texts[one]}
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[texts[one]]) + "\n")
    bar.close()
    rows = [(one, done[texts[one]]) for one in chosen]
    if options.json:
        for _, result in rows:
            print(json.dumps(result))
        return
    print_table(rows)
    print_summary(rows)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times the exchange of two builds in turn and prints the ratio: what a change cost.

    bench/compare_builds.py OLD_BIN NEW_BIN [--rounds 24] -- [options of `phub-bench exchange`]

The builds alternate which goes first, since a machine's speed drifts; the figure is the median of
the ratios NEW / OLD of neighbouring runs, with the quartiles. Above 1 the new build is slower.

    bench/compare_builds.py /tmp/spine/bin build/release/bin -- --transport shm --workers 4
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys


def seconds_of(folder: pathlib.Path, options: list[str]) -> dict[str, float]:
    """The median time of an exchange, by transport."""
    command = [str(folder / "phub-bench"), "exchange", *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["transport"]: line["seconds_p50"] for line in lines if "seconds_p50" in line}


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=pathlib.Path, help="folder with the old build's programs")
    parser.add_argument("new", type=pathlib.Path, help="folder with the new build's programs")
    parser.add_argument("--rounds", type=int, default=24, help="pairs of runs (default 24)")
    arguments = parser.parse_args(words[:cut])
    if arguments.rounds < 2:
        parser.error("--rounds: at least 2, for a spread")
    ratios: dict[str, list[float]] = {}
    for i in range(arguments.rounds):
        order = [arguments.old, arguments.new] if i % 2 == 0 else [arguments.new, arguments.old]
        times = {folder: seconds_of(folder, words[cut + 1 :]) for folder in order}
        for transport, old in times[arguments.old].items():
            new = times[arguments.new][transport]
            ratios.setdefault(transport, []).append(new / old)
        print(f"\r{i + 1} of {arguments.rounds} pairs", end="", file=sys.stderr)
    print(file=sys.stderr)
    for transport, values in ratios.items():
        low, median, high = statistics.quantiles(values, n=4)
        print(f"{transport}: new / old {median:.3f} [{low:.3f} .. {high:.3f}]")


if __name__ == "__main__":
    main()

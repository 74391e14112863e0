#!/usr/bin/env python3
"""Does the planner pick the fastest shape? Predicts and measures 24 scenarios of racks.

    sudo bench/rack/planner_sweep.py build/release/bin [--results FILE] [--only 3,7] [--blocks 7] [--json]

Measured times are kept in FILE: what is there is not run again, so a run that was interrupted goes on
where it was, and a changed model is held against the same times. Each scenario is run by `phub-bench
rack run` in each shape; what `phubctl job shapes` would take is held against the fastest. Its probe is
made of the scenario's rates, as tc holds the links to them.

Small exchanges are 8 KB, less than a bucket of tbf's for frames of 9000 bytes holds: a whole exchange
would pass every link at once, and no link be measured. They have frames of 1500 bytes and a bucket of 2
KiB, the least that tbf can send such frames from. A block is one round, which all workers begin at
once, as after a backward pass: of rounds that follow each other the pushes of one pass the replies of
the one before, and a link's bytes of a round take less than what one round takes. Of two racks spread, chain and multicolour are the
same trees: one of them is measured for all.
Exit code: 0 when the pick is the fastest, or within 5 % of it, in 90 % of the scenarios; else 1.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

JOINED = ("spread", "chain", "multicolour")
SHAPES = (*JOINED, "flat")
ALPHA = 60e-6  # seconds between two hosts of the testbed, about
MESSAGE = 2e-6
CLOSE = 1.05
SHARE = 0.9

# Workers of each rack, a server's NIC over a worker's, oversubscription, elements.
SCENARIOS = [
    (racks, factor, over, elements)
    for racks in ((2, 2), (4, 4), (2, 2, 2), (1, 1, 1, 1))
    for factor, over in ((2, 1), (4, 4), (1, 2))
    for elements in (2_000, 250_000)
]
WORKER_MBIT = 50


def scenario_text(scenario: tuple, shape: str, blocks: int) -> str:
    racks, factor, over, elements = scenario
    is_small = elements < 10_000
    frames = "mtu: 1500 burst_kib: 2 " if is_small else ""
    listed = "\n".join(f"racks {{ workers: {workers} servers: 1 }}" for workers in racks)
    return (f'title: "planner"\nshape: "{shape}"\n{listed}\n'
            f"links {{ worker_mbit: {WORKER_MBIT} server_factor: {factor} oversubscription: {over} {frames}}}\n"
            'servers { tcp_congestion_control: "cubic" tcp_buffer_kib: 32 }\n'
            f"exchange {{ elements: {elements} rounds: 1 warm_up: 0 "
            f"blocks: {10 * blocks if is_small else blocks} }}\n")


def measured_shape(scenario: tuple, shape: str) -> str:
    """Who is measured for `shape`: racks that are joined by the same trees are the same job."""
    return JOINED[0] if len(scenario[0]) == 2 and shape in JOINED else shape


def measure(programs: pathlib.Path, folder: pathlib.Path, scenario: tuple, shape: str,
            blocks: int) -> float:
    path = folder / "scenario.textproto"
    path.write_text(scenario_text(scenario, shape, blocks))
    done = subprocess.run([programs / "phub-bench", "rack", "run", path, "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shape} of {scenario} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["seconds_p50"]


class Results:
    """Measured seconds by scenario and shape, kept in a file as they come; `path` None: nowhere."""

    def __init__(self, path: pathlib.Path | None):
        self.path, self.known = path, {}
        for line in path.read_text(encoding="utf-8").splitlines() if path and path.exists() else ():
            one = json.loads(line)
            self.known[one["scenario"], one["shape"]] = one["seconds"]

    def get(self, scenario: tuple, shape: str, run) -> float:
        key = (scenario_text(scenario, shape, 0), shape)
        if key not in self.known:
            self.known[key] = run()
            if self.path:
                with open(self.path, "a", encoding="utf-8") as file:
                    line = {"scenario": key[0], "shape": shape, "seconds": self.known[key]}
                    file.write(json.dumps(line) + "\n")
        return self.known[key]


def probe_text(scenario: tuple) -> str:
    racks, factor, over, _ = scenario
    text = "unix_seconds: 1\n"
    for i in range(len(racks)):
        text += f'servers {{ rack: "r{i}" address: "10.0.0.{i + 1}:7077" }}\n'
    for i, workers in enumerate(racks):
        for j, others in enumerate(racks):
            uplink = min(workers, others) * WORKER_MBIT / over
            byte = 8 / (min(uplink, factor * WORKER_MBIT) * 1e6)
            if i != j:
                text += (f"links {{ from: {i} to: {j} alpha_seconds: {ALPHA} "
                         f"seconds_per_byte: {byte} message_seconds: {MESSAGE} }}\n")
    return text


def predict(programs: pathlib.Path, folder: pathlib.Path, scenario: tuple) -> dict:
    """Seconds by shape, as a server says that keeps the scenario's probe."""
    racks, factor, _, elements = scenario
    state = folder / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    (state / "probe.textproto").write_text(probe_text(scenario))
    config = folder / "server.textproto"
    config.write_text('state_folder: "state"\n')
    server = subprocess.Popen(
        [programs / "phub-server", "--config", config, "--control", "127.0.0.1:0", "--data",
         "127.0.0.1:0", "--cores", "1", "--log-level", "warn"], stdout=subprocess.PIPE, text=True)
    try:
        control = re.search(r"control=(\S+)", server.stdout.readline())[1]
        listed = ",".join(f"r{i}:{workers}" for i, workers in enumerate(racks))
        done = subprocess.run(
            [programs / "phubctl", "--server", control, "--json", "job", "shapes", "--racks", listed,
             "--bytes", str(4 * elements), "--worker-gbit", str(WORKER_MBIT / 1e3), "--server-gbit",
             str(factor * WORKER_MBIT / 1e3)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return {one["shape"]: one["seconds"] for one in json.loads(done.stdout)["alternatives"]}
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path, help="folder with a build's programs")
    parser.add_argument("--results", type=pathlib.Path, help="where measured times are kept")
    parser.add_argument("--only", help="numbers of scenarios, from 0, with commas between")
    parser.add_argument("--blocks", type=int, default=7,
                        help="rounds of each run; of small exchanges ten times as many (default 7)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    chosen = range(len(SCENARIOS))
    if arguments.only:
        chosen = [int(number) for number in arguments.only.split(",")]
        if not all(0 <= number < len(SCENARIOS) for number in chosen):
            parser.error(f"--only: scenarios are 0 to {len(SCENARIOS) - 1}")
    results = Results(arguments.results)
    good = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number in chosen:
            scenario = SCENARIOS[number]
            predicted = predict(arguments.programs, folder, scenario)
            measured = {}
            for shape in SHAPES:
                taken = measured_shape(scenario, shape)
                measured[shape] = results.get(
                    scenario, taken, lambda taken=taken, scenario=scenario: measure(
                        arguments.programs, folder, scenario, taken, arguments.blocks))
            pick = min(SHAPES, key=lambda shape: predicted[shape])
            ratio = measured[pick] / min(measured.values())
            good += ratio <= CLOSE
            if arguments.json:
                print(json.dumps({"scenario": number, "pick": pick, "over_fastest": ratio,
                                  "predicted": predicted, "measured": measured}), flush=True)
            else:
                times = "  ".join(f"{shape} {measured[shape]:.4f} s ({predicted[shape]:.4f})"
                                  for shape in SHAPES)
                print(f"{number:2}  {pick:11}  {ratio:5.2f} of the fastest  {times}", flush=True)
    share = good / len(chosen)
    if not arguments.json:
        print(f"the fastest, or within 5 % of it: {good} of {len(chosen)} ({100 * share:.0f} %)")
    sys.exit(0 if share >= SHARE else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What strangers at the door cost those who train, and whether they keep anybody out.

Usage: bench/hostile_door.py BIN [--workers 8] [--connections 20000] [--rate 500] [--blocks 4]
                             [--transport auto]

A server on this host; workers of one job train LeNet. Blocks of quiet and of storm take turns (each
as long as its part of the connections takes); in a storm connections come that are wrong in every
way that tests/support/strangers.py knows, to the control, data, shm and HTTP port, and all the time
other workers join, train two steps and leave. Prints a line of JSON for each block and one at the
end: joins that failed, the rate of chunks in the storms over that in the quiet blocks with its
spread, and the strangers' own share of the processors, which is in that loss.
Exit status: 0 when no join failed and the loss is at most 10 %, 1 otherwise.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "support"))
import processes  # noqa: E402
import strangers  # noqa: E402

LOSS_MAX = 0.10
SETTLE_SECONDS = 3


class Guests(threading.Thread):
    """Joins one worker after the other in jobs of their own, until it is told to stop."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.joined, self.failed, self.is_over = server, 0, [], threading.Event()

    def run(self):
        while not self.is_over.is_set():
            transport = ("tcp", "shm")[self.joined % 2]
            guest = processes.worker(self.server, 0, 1, transport, "--max-steps", "2", "--job",
                                     f"guest-{self.joined}")
            _, error = guest.communicate()
            self.joined += 1
            if guest.returncode != 0:
                self.failed.append(error.strip())
            self.is_over.wait(0.5)


def chunks_for(server, seconds):
    """Chunks a second."""
    before, start = server.chunks(), time.monotonic()
    time.sleep(seconds)
    return (server.chunks() - before) / (time.monotonic() - start)


def storm_for(server, seconds, count, rate, seed):
    storm = subprocess.Popen(
        [sys.executable, "-B", strangers.__file__, "--control", server.control, "--data",
         str(server.data), "--pid", str(server.process.pid), "--http", server.http, "--count",
         str(count), "--rate", str(rate), "--held", "4000", "--seed", str(seed)],
        stdout=subprocess.PIPE, text=True)
    speed = chunks_for(server, seconds)
    report = json.loads(storm.communicate()[0])
    return speed, report


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--connections", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--transport", default="auto")
    words = parser.parse_args()
    processes.BIN = words.bin
    server = processes.Server("--http", "127.0.0.1:0")
    workers = [processes.worker(server, i, words.workers, words.transport)
               for i in range(words.workers)]
    guests = Guests(server)
    ratios, counts, attacker_cpu, attack_seconds = [], {}, 0.0, 0.0
    try:
        processes.until(server.running, "the job runs")
        guests.start()
        time.sleep(SETTLE_SECONDS)
        part = words.connections // words.blocks
        seconds = part / words.rate
        for block in range(words.blocks):
            quiet = chunks_for(server, seconds)
            storm, report = storm_for(server, seconds, part, words.rate, block)
            ratios.append(storm / quiet)
            for way, count in report["tried"].items():
                counts[way] = counts.get(way, 0) + count
            attacker_cpu += report["cpu_seconds"]
            attack_seconds += report["seconds"]
            print(json.dumps({"block": block, "quiet_chunks_per_s": round(quiet),
                              "storm_chunks_per_s": round(storm),
                              "attacker_cpu_s": round(report["cpu_seconds"], 2),
                              "attack_s": round(report["seconds"], 2)}), flush=True)
        lost = [i for i, process in enumerate(workers) if process.poll() is not None]
    finally:
        guests.is_over.set()
        if guests.is_alive():
            guests.join(timeout=60)
        for process in workers:
            process.kill()
            process.communicate()
        drops = server.drops() if server.process.poll() is None else {}
        server.close()
    loss = 1 - statistics.median(ratios)
    passed = not guests.failed and not lost and loss <= LOSS_MAX
    print(json.dumps({
        "workers": words.workers, "connections": sum(counts.values()), "ways": counts,
        "honest_joins": guests.joined, "failed_joins": len(guests.failed),
        "first_failure": guests.failed[:1], "workers_lost": lost,
        "loss": round(loss, 4), "loss_of_blocks": [round(1 - r, 4) for r in ratios],
        "attacker_share_of_processors": round(attacker_cpu / attack_seconds / os.cpu_count(), 4),
        "drops": {cause: count for cause, count in drops.items() if count},
        "passed": passed}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

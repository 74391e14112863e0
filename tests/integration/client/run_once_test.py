#!/usr/bin/env python3
"""How many instructions a core spends on a push and its reply, kernels and device apart.

Usage: run_once_test.py PROGRAM    (run_once_rounds; valgrind counts)
The first rounds cost more (libraries, caches); so the counts of two runs are subtracted.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BASELINE = pathlib.Path(__file__).with_name("run_once_instructions.json")
SKIPPED = 77
# Calls into these are somebody else's instructions: the kernels', the device's, the system's.
ELSEWHERE = re.compile(r"phub::kernels::|phub::fake_verbs::|^(send|recv|read|write|epoll_wait|poll)\b")


def count(program, transport, rounds):
    """Pushes and instructions of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no",
             "--compress-pos=no", "--toggle-collect=phub::server::Core::run_once()",
             program, transport, str(rounds)],
            capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f"{transport}: {done.stderr}")
        return int(done.stdout), own_instructions(out.read_text())


def own_instructions(profile):
    """All that was counted, less what functions of ours spent in calls elsewhere."""
    total, function, callee, lines = 0, "", None, iter(profile.splitlines())
    for line in lines:
        if line.startswith("fn="):
            function = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            inclusive = int(next(lines).split()[1])
            if ELSEWHERE.search(callee) and not ELSEWHERE.search(function):
                total -= inclusive
        elif match := re.match(r"[0-9+*-]\S* (\d+)$", line):
            total += int(match.group(1))
    return total


def per_push(program, transport):
    (pushes, most), (fewer_pushes, fewer) = (count(program, transport, n) for n in (12, 4))
    return (most - fewer) / (pushes - fewer_pushes)


def main():
    program = sys.argv[1]
    if shutil.which("valgrind") is None:
        print("skipped: not installed: valgrind")
        return SKIPPED
    counts = {transport: round(per_push(program, transport), 1) for transport in ("shm", "verbs")}
    print(json.dumps(counts), "instructions for a push and its reply")
    limits = json.loads(BASELINE.read_text())
    failures = [f"{name}: {counts[name]} instructions, the baseline is {limit}"
                for name, limit in limits.items() if counts[name] > 1.1 * limit]
    if counts["verbs"] > 1.1 * counts["shm"]:
        failures.append(f"verbs takes more than 1.1 times shm's: {counts}")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""PyTorch's own tests of torch.distributed over the backend "phub", on three ranks.

Usage: torch_suite_test.py LIBRARY BIN [--compare | NAME...]
Without names all of them: those of torch_suite_exceptions.txt are to fail, the others to pass. --compare: those that Gloo
passes. Needs PyPI's expecttest, which tests/run.sh puts into build/python.
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import launched
from launched import ROOT, Server

EXCEPTIONS = pathlib.Path(__file__).parent / "torch_suite_exceptions.txt"
EXPECTTEST = str(ROOT / "build/python")
RANKS = 3
TRIES = 2  # of a test: some have bars of a second, which a busy machine misses
DEADLINE = 60  # seconds for a test; only bounds one that hangs


def environment(server, rank, backend, folder):
    return launched.environment(rank, RANKS, server, BACKEND=backend, TEMP_DIR=folder, MASTER_ADDR="127.0.0.1",
                                INIT_METHOD=f"file://{folder}/init_dir/store",
                                PYTHONPATH=f"{ROOT / 'worker/torch'}:{EXPECTTEST}")


def program(names):
    return [sys.executable, "-B", str(pathlib.Path(__file__).parent / "torch_suite_rank.py"), *names]


def every_name():
    return subprocess.run(program([]), env=environment(None, 0, "phub", "."), stdout=subprocess.PIPE, text=True,
                          check=True).stdout.split()


class Ranks:
    """Three processes that run tests one after another, until one fails."""

    def __init__(self, server, names, backend):
        self._folder = tempfile.TemporaryDirectory()
        for folder in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(self._folder.name, folder))
        self._files = [open(os.path.join(self._folder.name, f"rank{rank}"), "w+") for rank in range(RANKS)]
        self._running = [subprocess.Popen(program(names), stdout=own, stderr=subprocess.STDOUT,
                                          env=environment(server, rank, backend, self._folder.name))
                         for rank, own in enumerate(self._files)]

    def said(self, rank):
        return (pathlib.Path(self._folder.name) / f"rank{rank}").read_text(errors="replace").splitlines()

    def finish(self):
        """(test: ended how, by what all ranks said; what failed or hung, or None; the last lines)."""
        seen, since = 0, time.monotonic()
        while any(each.poll() is None for each in self._running):
            try:
                self._running[0].wait(0.2)
            except subprocess.TimeoutExpired:
                pass
            now = sum(len(self.said(rank)) for rank in range(RANKS))
            if now != seen:
                seen, since = now, time.monotonic()
            has_failed = any(each.poll() not in (None, 0) for each in self._running)
            if has_failed or time.monotonic() - since > DEADLINE:
                break
        is_well = all(each.poll() == 0 for each in self._running)
        for each in self._running:
            each.kill()
            each.wait()
        ended, first, text = {}, None, []
        for rank in range(RANKS):
            lines = self.said(rank)
            done = {line.split()[1]: line for line in lines if line.startswith(("ok ", "skipped "))}
            begun = [line.split(" ", 1)[1] for line in lines if line.startswith("begin ")]
            missing = [name for name in begun if name not in done]
            ended = done if rank == 0 else {name: how for name, how in ended.items() if name in done}
            if not is_well and missing:
                first = missing[0] if first is None else first
                text += [f"rank {rank}:", *lines[-25:]]
        for each in self._files:
            each.close()
        self._folder.cleanup()
        return ended, first, "\n".join(text)


def run_all(server, names, backend="phub"):
    """(ended, failed) by test; a line for each."""
    ended, failed, left, tried = {}, {}, list(names), collections.Counter()
    while left:
        done, first, text = Ranks(server, left, backend).finish()
        ended.update(done)
        if first is None:
            first, text = next((name for name in left if name not in done), None), text or "it did not begin"
        if first is not None:
            tried[first] += 1
            if tried[first] == TRIES:
                failed[first] = "it failed, or hung"
        for name in left:
            if name in done or name == first:
                print(backend, done.get(name, f"failed {name}:\n{text}\n"), flush=True)
        left = [name for name in left if name not in ended and name not in failed]
    return ended, failed


def exceptions():
    """Reasons, by test."""
    lines = EXCEPTIONS.read_text().splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def compared(server):
    """What Gloo passes and this backend does not: why."""
    ended, _ = run_all(server, every_name(), "gloo")
    ended, failed = run_all(server, [name for name, how in ended.items() if how.startswith("ok ")])
    return {**{name: "it is skipped" for name, how in ended.items() if not how.startswith("ok ")}, **failed}


def main():
    arguments = sys.argv[3:]
    launched.main({})
    sys.path.append(EXPECTTEST)
    try:
        import expecttest  # noqa: F401  # PyTorch's tests import it
        import torch
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    if not torch.__version__.startswith("1.13"):
        print(f"skipped: the exceptions are of 1.13's tests, not of {torch.__version__}'s")
        sys.exit(77)
    server = Server(cores=1)
    excepted = exceptions()
    try:
        if arguments == ["--compare"]:
            failed = compared(server)
            excepted = {name: why for name, why in excepted.items() if name in failed}
        else:
            names = arguments or every_name()
            excepted = {name: why for name, why in excepted.items() if name in names}
            _, failed = run_all(server, names)
    finally:
        server.close()
    for name, text in failed.items():
        print(f"{name}: {excepted.get(name, text)}")
    wrong = sorted(set(failed) ^ set(excepted))
    print(f"{len(failed)} failed, of which are excepted: {len(excepted)}; otherwise than expected: {' '.join(wrong) or 'none'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

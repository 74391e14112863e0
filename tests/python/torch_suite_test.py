"""PyTorch's own tests of torch.distributed over the backend "phub", on three ranks.

Usage: torch_suite_test.py LIBRARY BIN [NAME...]
Without names those of CHOSEN. Needs PyPI's expecttest, which tests/run.sh puts into build/python.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import launched
from launched import ROOT, Server

EXPECTTEST = str(ROOT / "build/python")
RANKS = 3
DEADLINE = 60  # seconds for a test; only bounds one that hangs
CHOSEN = """
test_get_rank test_get_backend test_destroy_group test_get_rank_size_group test_backend_group test_broadcast
test_broadcast_group test_broadcast_full_group test_reduce_sum test_reduce_product test_reduce_group_min
test_reduce_full_group_max test_all_reduce_sum test_all_reduce_sum_async test_all_reduce_sum_complex
test_all_reduce_complex_unsupported_ops test_all_reduce_product test_all_reduce_min test_all_reduce_max
test_all_reduce_group_sum test_all_reduce_full_group_product test_all_reduce_coalesced_sum
test_all_reduce_coalesced_group_max test_scatter test_scatter_complex test_scatter_group test_gather test_gather_group
test_all_gather test_all_gather_complex test_all_gather_group test_all_gather_coalesced_simple
test_all_gather_coalesced_complex test_all_gather_coalesced_with_empty test_barrier test_barrier_group
test_all_gather_object_default_pg test_gather_object test_broadcast_object_list test_scatter_object_list
test_DistributedDataParallelCPU test_DistributedDataParallelCPU_grad_is_view test_DistributedDataParallel_requires_grad
""".split()


class Ranks:
    """Three processes that run tests one after another, until one fails."""

    def __init__(self, server, names):
        self._folder = tempfile.TemporaryDirectory()
        for folder in ("barrier", "test_dir", "init_dir"):
            os.mkdir(os.path.join(self._folder.name, folder))
        command = [sys.executable, "-B", str(pathlib.Path(__file__).parent / "torch_suite_rank.py"), *names]
        self._files = [open(os.path.join(self._folder.name, f"rank{rank}"), "w+") for rank in range(RANKS)]
        self._running = [subprocess.Popen(command, stdout=own, stderr=subprocess.STDOUT, env=launched.environment(
            rank, RANKS, server, BACKEND=os.environ.get("BACKEND", "phub"), TEMP_DIR=self._folder.name,
            INIT_METHOD="file://", MASTER_ADDR="127.0.0.1", PYTHONPATH=f"{ROOT / 'worker/torch'}:{EXPECTTEST}")) for rank, own in enumerate(self._files)]

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
            done = dict(reversed(line.split(" ", 1)) for line in lines if line.startswith(("ok ", "skipped ")))
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


def run_all(server, names):
    """(ended, failed) by test."""
    ended, failed, left = {}, {}, list(names)
    while left:
        done, first, text = Ranks(server, left).finish()
        ended.update(done)
        if first is None:
            first, text = next((name for name in left if name not in done), None), text or "it did not begin"
        if first is not None:
            failed[first] = text
        left = [name for name in left if name not in ended and name not in failed]
    return ended, failed


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
        print(f"skipped: the choice is of 1.13's tests, not of {torch.__version__}'s")
        sys.exit(77)
    names = arguments or CHOSEN
    server = Server(cores=1)
    try:
        ended, failed = run_all(server, names)
    finally:
        server.close()
    for name, text in failed.items():
        print(f"{name} failed or hung:\n{text}\n")
    counts = [list(ended.values()).count(how) for how in ("ok", "skipped")]
    print(f"{counts[0]} passed, {counts[1]} skipped, {len(failed)} failed: {' '.join(failed) or 'none'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

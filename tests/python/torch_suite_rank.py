"""A rank of PyTorch's own tests of torch.distributed, one test after another in one process.

Usage: torch_suite_rank.py NAME...; without names it lists what there is. The environment says BACKEND, RANK, WORLD_SIZE,
TEMP_DIR and MASTER_ADDR. A line for each test: "ok NAME SECONDS", "skipped NAME SECONDS". The first that fails ends the
process.
"""
import datetime
import os
import pathlib
import sys
import threading
import time
import unittest

import torch
import torch.distributed as dist

import phub.torch.distributed

BACKEND, RANK, RANKS = os.environ["BACKEND"], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class AlsoGloo(str):
    """A backend's name for tests that ask whether it is "gloo" before they begin: they are to run for this one too."""

    def __eq__(self, other):
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")


environment = os.environ
os.environ = {**environment, "BACKEND": AlsoGloo(BACKEND)}  # from where the tests have it when they are imported
from torch.testing._internal.distributed import distributed_test as theirs  # noqa: E402
os.environ = environment

if BACKEND == "phub":  # PyTorch's own takes no backend but Gloo
    dist.monitored_barrier = phub.torch.distributed.monitored_barrier

SKIPPED = range(70, 90)  # exit statuses of what a rank cannot do, common_distributed's TEST_SKIPS


class Suite(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
    pass


def all_are_here(name):
    """Without the group, which may have failed as the test wanted: what a rank still uses of another's stays."""
    folder = pathlib.Path(os.environ["TEMP_DIR"]) / "ended"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.{RANK}").touch()
    while not all((folder / f"{name}.{rank}").exists() for rank in range(RANKS)):
        threading.Event().wait(0.01)


def run(name):
    began = time.monotonic()
    test = Suite(name)
    test.rank = RANK
    test.file_name = os.path.join(os.environ["TEMP_DIR"], name)
    seconds = theirs.CUSTOM_PG_TIMEOUT.get(name, theirs.default_pg_timeout)
    dist.init_process_group(BACKEND, init_method="file://" + test.file_name, rank=RANK, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=seconds))
    said = "ok"
    try:
        call = getattr(test, name)
        if getattr(call, "__unittest_skip__", False):
            raise unittest.SkipTest
        call()
    except unittest.SkipTest:
        said = "skipped"
    except SystemExit as end:
        if end.code not in SKIPPED:
            raise
        said = "skipped"
    all_are_here(name)
    if dist.is_initialized():
        dist.destroy_process_group()
    # Their own barrier counts from 0 in each test.
    theirs.Barrier.barrier_id = 0
    (pathlib.Path(os.environ["TEMP_DIR"]) / "barrier" / str(os.getpid())).unlink(missing_ok=True)
    all_are_here(f"{name} and next")
    print(said, name, round(time.monotonic() - began, 1), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 1:
        print(*unittest.TestLoader().getTestCaseNames(Suite), sep="\n")
    for each in sys.argv[1:]:
        print("begin", each, flush=True)
        run(each)

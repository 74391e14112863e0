"""A rank of PyTorch's own tests of torch.distributed, one test after another in one process.

Usage: torch_suite_rank.py NAME...; the environment says BACKEND, RANK, WORLD_SIZE, TEMP_DIR and MASTER_ADDR. A line for
each test: "ok NAME", "skipped NAME". The first that fails ends the process.
"""
import os
import sys
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import DistTestCases

import phub.torch.distributed

BACKEND, RANK = os.environ["BACKEND"], int(os.environ["RANK"])
for feature in ("ddp", "plugin"):
    DistTestCases.backend_feature[feature].add("phub")

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402

SKIPPED = range(70, 90)  # exit statuses of what a rank cannot do, common_distributed's TEST_SKIPS


class Suite(TestDistBackend, DistributedTest._DistTestBase):
    pass


def run(name):
    test = Suite(name)
    test.rank = RANK
    test.file_name = os.path.join(os.environ["TEMP_DIR"], name)
    dist.init_process_group(BACKEND, init_method="file://" + test.file_name, rank=RANK,
                            world_size=int(os.environ["WORLD_SIZE"]))
    said = "ok"
    try:
        getattr(test, name)()
    except unittest.SkipTest:
        said = "skipped"
    except SystemExit as end:
        if end.code not in SKIPPED:
            raise
        said = "skipped"
    if dist.is_initialized():
        dist.barrier()  # what a rank is still reading of another's files stays
        dist.destroy_process_group()
    print(said, name, flush=True)


if __name__ == "__main__":
    assert BACKEND == "gloo" or phub.torch.distributed.Group
    torch.set_num_threads(1)
    for each in sys.argv[1:]:
        print("begin", each, flush=True)
        run(each)

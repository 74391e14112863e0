"""Futures of the backend "phub": callbacks that wait for collectives.

Usage: callbacks_test.py LIBRARY BIN
"""
import sys
import threading
import unittest

import launched
from launched import DEADLINE, together

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch.distributed  # noqa: E402
from phub.torch import _callbacks  # noqa: E402
from torch_cases import RANK, WORLD_SIZE  # noqa: E402


def begin():
    dist.init_process_group("phub")


def same(ours, expected):
    assert torch.equal(ours, expected), (ours, expected)


def in_callbacks():
    """A callback may wait for the next collective, or for a message, and so may its own callback."""
    begin()
    first, second, third, fourth = (torch.full((1000,), each + RANK) for each in (1.0, 2.0, 3.0, 4.0))

    def begin_next(ours, then=None):
        future = dist.all_reduce(ours, async_op=True).get_future()
        return future.then(then).wait() if then is not None else future.wait()

    def deeper(_):
        there = torch.zeros(1)
        sent = dist.isend(torch.ones(1), (RANK + 1) % WORLD_SIZE)
        dist.recv(there, (RANK - 1) % WORLD_SIZE)
        sent.wait()
        return begin_next(third) + [there]
    futures = [dist.all_reduce(first, async_op=True).get_future().then(lambda _: begin_next(second, deeper)),
               dist.all_reduce(fourth, async_op=True).get_future()]
    assert futures[0].wait()[-1].item() == 1
    assert torch.equal(futures[1].wait()[0], fourth)
    for each, base in ((first, 1), (second, 2), (third, 3), (fourth, 4)):
        same(each, torch.full((1000,), float(base * WORLD_SIZE + sum(range(WORLD_SIZE)))))
    late = dist.all_reduce(first, async_op=True)
    late.wait()
    assert late.get_future().done()  # at once
    dist.barrier()


class CallbacksTest(unittest.TestCase):
    def test_callbacks_may_wait(self):
        for status, _, error in together(self, in_callbacks, workers=3):
            self.assertEqual(status, 0, error)

    def test_a_callback_that_blocks_keeps_no_other(self):
        first, second = torch.futures.Future(), torch.futures.Future()
        is_over = threading.Event()
        second.then(lambda _: is_over.set())
        waited = first.then(lambda _: is_over.wait(DEADLINE))
        _callbacks.complete([first])
        _callbacks.complete([second])
        self.assertTrue(waited.wait())


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

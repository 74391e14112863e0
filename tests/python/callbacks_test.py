"""Futures of the backend "phub" and of ddp_hook: callbacks that wait for collectives, and Ctrl-C.

Usage: callbacks_test.py LIBRARY BIN
"""
import sys
import threading
import unittest
import unittest.mock

import launched
from launched import DEADLINE, together

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch  # noqa: E402
import phub.torch.distributed  # noqa: E402
from phub.torch import _callbacks, ddp  # noqa: E402
from phub.torch.distributed import _work  # noqa: E402
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

    def test_ctrl_c_is_not_lost_in_a_future(self):
        """PyTorch looks for tensors in a future's value by a function in Python, where a signal finds its handler."""
        def interrupted_in_the_main_thread(value):
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return look(value)

        look = torch._jit_internal._extract_tensors
        with unittest.mock.patch.object(torch._jit_internal, "_extract_tensors", interrupted_in_the_main_thread):
            over = _work.Pending([torch.ones(1)])
            over.finish(None)
            self.assertEqual(over.get_future().wait(), [torch.ones(1)])
            asked = _work.Pending([torch.ones(1)])
            future = asked.get_future()
            asked.finish(None)
            self.assertEqual(future.wait(), [torch.ones(1)])
            hooked = ddp._Reduced(torch.ones(1))
            reducer = unittest.mock.Mock(_reduced=[hooked])
            ddp._Reducer._end(reducer, None)
            self.assertEqual(hooked.future.wait(), torch.ones(1))


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

"""The backend "phub" from one rank to another: send and recv, who dies; and monitored_barrier.

Usage: send_recv_test.py LIBRARY BIN
"""
import datetime
import os
import queue
import signal
import sys
import unittest

import launched
from launched import DEADLINE, interrupt_one, say_when_in, together

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch.distributed  # noqa: E402
from phub.torch.distributed import _lines, _messages  # noqa: E402
from torch_cases import RANK, WORLD_SIZE  # noqa: E402

MIB = 2**20


def begin():
    dist.init_process_group("phub")


def fails(call, *texts):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError(f"it did not fail: {texts}")


def to_and_fro():
    """Each type and shape, around the ring; then large ones both ways at once."""
    begin()
    to, source = (RANK + 1) % WORLD_SIZE, (RANK - 1) % WORLD_SIZE
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64):
        for shape in ((), (0,), (7,), (3, 5)):
            mine = torch.full(shape, RANK % 2, dtype=dtype)
            there = torch.full(shape, 1, dtype=dtype)
            work = dist.isend(mine, to)
            dist.recv(there, source)
            assert work.wait() and work.is_completed()
            assert torch.equal(there, torch.full(shape, source % 2, dtype=dtype)), (dtype, shape, there)
    columns = torch.zeros(4, 6)
    work = dist.isend(torch.arange(24.0).reshape(6, 4).t(), to)  # not contiguous, as is what it goes into
    dist.recv(columns.t(), source)
    assert torch.equal(columns.t(), torch.arange(24.0).reshape(6, 4).t().reshape(6, 4)), columns
    work.wait()
    large = torch.full((4 * MIB,), float(RANK))
    works = [dist.isend(large, rank) for rank in range(WORLD_SIZE) if rank != RANK]
    for rank in range(WORLD_SIZE):
        if rank != RANK:
            there = torch.empty(4 * MIB)
            dist.recv(there, rank)
            assert (there == rank).all()
    for work in works:
        work.wait()
    dist.barrier()


def tags_and_order():
    begin()
    if RANK == 0:
        works = [dist.isend(torch.tensor([float(each)]), 1, tag=each % 2) for each in range(200)]
        for work in works:
            work.wait()
        dist.recv(torch.zeros(1), 1)
    elif RANK == 1:
        there = [torch.zeros(1) for _ in range(200)]
        # All of one tag first, the other way round than they were sent; of one tag they come as they were sent.
        works = [dist.irecv(there[each], 0, tag=each % 2) for each in [*range(1, 200, 2), *range(0, 200, 2)]]
        for work in reversed(works):
            work.wait()
        assert [each.item() for each in there] == list(range(200)), there
        dist.send(torch.zeros(1), 0)
    dist.barrier()


def any_source():
    begin()
    if RANK == 0:
        sources = []
        for _ in range(2 * (WORLD_SIZE - 1)):
            there = torch.zeros(3)
            sources.append(dist.recv(there))
            assert (there == sources[-1]).all(), (there, sources)
        assert sorted(sources) == sorted(2 * list(range(1, WORLD_SIZE))), sources
    else:
        for _ in range(2):
            dist.send(torch.full((3,), float(RANK)), 0)
    dist.barrier()


def two_of_three():
    """The others do not take part; a group of few has its own ranks."""
    begin()
    few = dist.new_group([1, 2])
    there = torch.zeros(2)
    if RANK == 1:
        work = dist.isend(torch.ones(2), 2, group=few)
        dist.send(torch.full((2,), 5.0), 2)
        work.wait()
    if RANK == 2:
        dist.recv(there, 1)
        assert (there == 5).all()
        assert dist.recv(there, group=few) == 1
        assert (there == 1).all()
    dist.barrier()


def wrong_calls():
    begin()
    group = dist.distributed_c10d._get_default_group()  # 2 itself refuses a rank's own
    fails(lambda: group.send([torch.ones(1)], RANK, 0), f"rank {RANK} of 2 cannot send to rank {RANK}")
    if RANK == 0:
        fails(lambda: dist.send(torch.ones(3), 1, tag=4), "send of 12 bytes to rank 1 with tag 4", "room for 8 bytes")
        dist.send(torch.ones(2), 1, tag=4)
    else:
        fails(lambda: dist.recv(torch.ones(2), 0, tag=4), "recv of 8 bytes from rank 0 with tag 4", "it sends 12 bytes")
        dist.recv(torch.ones(2), 0, tag=4)  # it goes on
    dist.barrier()


def nobody_comes():
    begin()
    there = torch.zeros(1)
    if RANK == 0:
        fails(lambda: dist.irecv(there, 1).wait(datetime.timedelta(seconds=0.5)), "a timeout of 0.5 s",
              "recv of 4 bytes from rank 1 with tag 0")
    dist.barrier()
    if RANK == 0:
        dist.recv(there, 1)  # not what was given up
        assert there.item() == 1
    else:
        dist.send(torch.ones(1), 0)


def given_up():
    """What a send was given up for is not sent later, whatever the tensor has then; the next one is."""
    begin()
    there = torch.zeros(1)
    if RANK == 1:
        mine = torch.ones(1)
        fails(lambda: dist.isend(mine, 0).wait(datetime.timedelta(seconds=0.3)), "a timeout of 0.3 s")
        mine.fill_(7)
    dist.barrier()
    if RANK == 1:
        dist.send(torch.full((1,), 5.0), 0)
    else:
        dist.recv(there, 1)
        assert there.item() == 5, there
    dist.barrier()


def coalesced():
    """As PyTorch's coalescing managers do it, whose ways differ from one version to the next."""
    begin()
    group = dist.distributed_c10d._get_default_group()
    to, source = (RANK + 1) % WORLD_SIZE, (RANK - 1) % WORLD_SIZE
    mine, there = torch.full((1000,), float(RANK)), torch.zeros(1000)
    group._start_coalescing(torch.device("cpu"))
    dist.irecv(there, source)
    dist.isend(mine, to)
    total = torch.ones(3)
    dist.all_reduce(total, async_op=True)
    work = group._end_coalescing(torch.device("cpu"))
    assert work.wait() and work.is_success()
    assert (there == source).all() and (total == WORLD_SIZE).all()
    assert group._end_coalescing().wait()
    outputs = [torch.zeros(size * WORLD_SIZE) for size in (2, 5)]
    assert group.allgather_into_tensor_coalesced(outputs, [torch.full((size,), float(RANK)) for size in (2, 5)]).wait()
    for output, size in zip(outputs, (2, 5)):
        assert torch.equal(output, torch.arange(WORLD_SIZE).repeat_interleave(size).float())
    parts = [torch.zeros(size) for size in (2, 5)]
    assert group.reduce_scatter_tensor_coalesced(parts, outputs).wait()
    for part in parts:
        assert (part == RANK * WORLD_SIZE).all()
    dist.barrier()


def set_patience(group, seconds):
    """Of what is sent and received from now on."""
    for each in (group._peers, *group._peers._ways.values()):
        each._patience = seconds


def late_ones():
    """A rank that sends for the first time when another has given it up."""
    begin()
    hasty = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=DEADLINE))
    there = torch.zeros(1)
    if RANK == 0:
        set_patience(hasty, 1.0)
        fails(lambda: dist.recv(there, 1, group=hasty), "timeout", "rank 1")
        set_patience(hasty, float(DEADLINE))
    dist.barrier()
    if RANK == 0:
        dist.send(there, 1, group=hasty)
        dist.recv(there, 1, group=hasty)
        assert there.item() == 3
    else:
        dist.recv(there, 0, group=hasty)
        dist.send(torch.full((1,), 3.0), 0, group=hasty)


def one_leaves():
    begin()
    there = torch.zeros(1)
    if RANK == 1:
        dist.send(there, 0)
        os._exit(9)
    dist.recv(there, 1)
    for call in (lambda: dist.recv(there, 1), lambda: dist.recv(there), lambda: dist.send(there, 1)):
        fails(call, "rank 1 has left, or failed")


def interrupted():
    begin()
    dist.barrier()
    if RANK == 1:
        signal.pause()
    say_when_in("recv", "waiting")
    try:
        dist.recv(torch.ones(10), 1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def too_many():
    """What nobody receives does not pile up for ever."""
    begin()
    if RANK == 0:
        one = torch.zeros(1)
        works = [dist.isend(one, 1) for _ in range(_lines.ANNOUNCED_MAX)]
        fails(lambda: dist.isend(one, 1), "are under way that rank 1 does not receive")
        dist.barrier()
        for work in works:
            work.wait()
    else:
        dist.barrier()
        for _ in range(_lines.ANNOUNCED_MAX):
            dist.recv(torch.zeros(1), 0)
    dist.barrier()


def monitored():
    begin()
    barrier = phub.torch.distributed.monitored_barrier
    few = dist.new_group([0, 1])
    for _ in range(3):
        barrier()
        barrier(few, timeout=60, wait_all_ranks=True)
    if RANK == 0:
        fails(lambda: barrier(timeout=0.5), "Rank 1 failed to pass monitoredBarrier in 0.5 s")
        fails(lambda: barrier(timeout=0.5, wait_all_ranks=True), "Ranks 1, 2 failed to pass monitoredBarrier")
    dist.barrier()


class SendRecvTest(unittest.TestCase):
    def all_end_well(self, function, workers=2):
        for status, _, error in together(self, function, workers=workers):
            self.assertEqual(status, 0, error)

    def test_to_and_fro(self):
        for workers in (2, 3):
            self.all_end_well(to_and_fro, workers)

    def test_tags_and_order(self):
        self.all_end_well(tags_and_order)

    def test_any_source(self):
        self.all_end_well(any_source, 3)

    def test_two_of_three(self):
        self.all_end_well(two_of_three, 3)

    def test_coalesced(self):
        self.all_end_well(coalesced, 3)

    def test_wrong_calls(self):
        self.all_end_well(wrong_calls)

    def test_nobody_comes(self):
        self.all_end_well(nobody_comes)

    def test_what_was_given_up(self):
        self.all_end_well(given_up, workers=2)

    def test_who_comes_late(self):
        self.all_end_well(late_ones, workers=2)

    def test_what_is_awaited_is_tried_again(self):
        """Each recv has its own time, however early the rank was first tried."""
        mailbox = _messages.Mailbox(1)
        for patience, is_awaited in ((-1, False), (DEADLINE, True)):
            mailbox.want(_messages.Receive(torch.zeros(1), 1, 0, patience, mailbox))
            self.assertEqual((mailbox.is_awaited(1), mailbox.is_awaited(0)), (is_awaited, False))
        tries, lost = [], queue.SimpleQueue()

        def connect(rank):
            tries.append(rank)
            raise _lines.Absent("it is not there")
        to = _lines.Outgoing(1, connect, lambda *why: lost.put(why), lambda rank: len(tries) < 3)
        self.assertIn("it is not there", lost.get(timeout=DEADLINE)[1])
        self.assertEqual(tries, [1, 1, 1])
        self.assertTrue(to.has_failed_to_connect())

    def test_who_has_left_is_named(self):
        (status, _, error), (other, _, _) = together(self, one_leaves)
        self.assertEqual((status, other), (0, 9), error)

    def test_ctrl_c(self):
        interrupt_one(self, interrupted)

    def test_what_nobody_receives_is_bounded(self):
        self.all_end_well(too_many)

    def test_monitored_barrier(self):
        self.all_end_well(monitored, 3)


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

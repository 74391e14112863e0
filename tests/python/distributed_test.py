"""torch.distributed's backend "phub": collectives on 2 and 3 ranks, groups, failures, DDP beside Gloo's.

Usage: distributed_test.py LIBRARY BIN
"""
import os
import signal
import sys
import unittest
import unittest.mock
import weakref

import launched
from launched import DEADLINE, Server, processes, free_port, interrupt_one, say_when_in, start, temporary_folder, together

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch.distributed  # noqa: E402
from phub.torch.distributed import _exchange, _work  # noqa: E402
import torch_cases as cases  # noqa: E402
from torch_cases import RANK, WORLD_SIZE  # noqa: E402

STEPS = 5
BOUND = 2e-6  # two orders of adding two fp32 gradients, over STEPS steps
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.uint8)


def begin():
    dist.init_process_group("phub")
    assert dist.get_backend() == "phub"


def values(rank, elements, dtype):
    return (torch.arange(elements) % 50 + rank + 1).to(dtype)


def of_all(elements, dtype):
    return torch.stack([values(rank, elements, dtype) for rank in range(WORLD_SIZE)])


def same(ours, expected):
    assert ours.dtype == expected.dtype and torch.equal(ours, expected), (ours, expected)


def reductions():
    begin()
    for dtype in DTYPES:
        for elements in (1, 300, _exchange.LARGEST + 1 if dtype == torch.float32 else 1000):
            every = of_all(elements, dtype)
            for op, expected in ((dist.ReduceOp.SUM, every.sum(0)), (dist.ReduceOp.MAX, every.max(0).values),
                                 (dist.ReduceOp.MIN, every.min(0).values)):
                ours = values(RANK, elements, dtype)
                dist.all_reduce(ours, op)
                same(ours, expected.to(dtype))
    big = torch.tensor([2**62 + RANK, -RANK])
    dist.all_reduce(big, dist.ReduceOp.MAX)
    same(big, torch.tensor([2**62 + WORLD_SIZE - 1, 0]))
    bits = torch.tensor([1 << RANK])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    same(bits, torch.tensor([2**WORLD_SIZE - 1]))
    mean = torch.full((2, 3), RANK * 2.0)
    dist.all_reduce(mean.t(), dist.ReduceOp.AVG)  # not contiguous
    same(mean, torch.full((2, 3), WORLD_SIZE - 1.0))
    counts = torch.tensor([2**40 + RANK, -RANK, 7])  # as Lightning's sync_dist averages them
    dist.all_reduce(counts, dist.ReduceOp.AVG)
    rest = sum(range(WORLD_SIZE))
    same(counts, torch.tensor([2**40 + rest // WORLD_SIZE, -(rest // WORLD_SIZE), 7]))
    with torch.inference_mode():
        outside = torch.full((3,), RANK * 2.0)
    dist.all_reduce(outside, dist.ReduceOp.AVG)
    same(outside, torch.full((3,), WORLD_SIZE - 1.0))
    of_one_row = torch.full((1, 4), RANK, dtype=torch.float64)[:, 3]  # its stride is 4
    dist.all_reduce(of_one_row, dist.ReduceOp.MAX)
    same(of_one_row, torch.tensor([WORLD_SIZE - 1], dtype=torch.float64))
    ours = torch.full((4,), RANK + 1.0)
    dist.reduce(ours, 1)
    same(ours, torch.full((4,), sum(range(WORLD_SIZE + 1)) * 1.0 if RANK == 1 else RANK + 1.0))
    # Of rank r the rows 0 to r, twice each, all of ones.
    rows = [row for row in range(RANK + 1) for _ in range(2)]
    sparse = torch.sparse_coo_tensor([rows], torch.ones(len(rows), 3), (WORLD_SIZE, 3))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.stack([torch.full((3,), 2.0 * (WORLD_SIZE - row)) for row in range(WORLD_SIZE)]))
    for wrong, op, said in ((torch.ones(2).to_sparse(), dist.ReduceOp.MAX, "MAX of sparse tensors"),
                            (torch.ones(2), dist.ReduceOp.BAND, "BAND is for integers"),
                            (torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG, "AVG of torch.bool")):
        try:
            dist.all_reduce(wrong, op)
        except (TypeError, RuntimeError) as error:
            assert said in str(error), error
        else:
            raise AssertionError("it was taken")


def copies():
    begin()
    odd = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45, 3.4e38, 1 / 3])
    for dtype in (torch.float32, torch.float64, torch.bool, torch.uint8, torch.int64):
        own = torch.roll(odd, RANK).nan_to_num(nan=1, posinf=2).to(dtype) if dtype != torch.float32 else torch.roll(odd, RANK)
        bits = own.view(torch.uint8)
        there = own.clone() if RANK == 1 else torch.zeros_like(own)
        dist.broadcast(there, 1)
        gathered = [torch.zeros_like(own) for _ in range(WORLD_SIZE)]
        dist.all_gather(gathered, own)
        same(gathered[RANK].view(torch.uint8), bits)
        same(gathered[1].view(torch.uint8), there.view(torch.uint8))
        at_root = [torch.zeros_like(own) for _ in range(WORLD_SIZE)] if RANK == 0 else None
        dist.gather(own, at_root, 0)
        if RANK == 0:
            assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(at_root, gathered))
        back = torch.zeros_like(own)
        dist.scatter(back, at_root, 0)
        same(back.view(torch.uint8), bits)
    source = list(torch.arange(6.0 * WORLD_SIZE).split(6))
    part = torch.zeros(6)
    dist.reduce_scatter(part, source)
    same(part, source[RANK] * WORLD_SIZE)
    received = [torch.zeros(3, dtype=torch.int32) for _ in range(WORLD_SIZE)]
    dist.all_to_all(received, [torch.full((3,), 10 * RANK + to, dtype=torch.int32) for to in range(WORLD_SIZE)])
    same(torch.stack(received)[:, 0], (10 * torch.arange(WORLD_SIZE) + RANK).to(torch.int32))
    # Rank r sends i + 1 elements to rank i.
    sizes = [i + 1 for i in range(WORLD_SIZE)]
    output = torch.zeros(WORLD_SIZE * (RANK + 1))
    dist.all_to_all_single(output, torch.full((sum(sizes),), float(RANK)), [RANK + 1] * WORLD_SIZE, sizes)
    same(output, torch.arange(float(WORLD_SIZE)).repeat_interleave(RANK + 1))
    objects = [None] * WORLD_SIZE
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK})
    assert [each["rank"] for each in objects] == list(range(WORLD_SIZE))


def without_elements():
    begin()
    for shape in ((0,), (0, 3), (WORLD_SIZE, 0)):
        for dtype in (torch.float32, torch.int64):
            def empty(first=None):
                return torch.zeros(shape if first is None else (first, *shape), dtype=dtype)
            every = [empty() for _ in range(WORLD_SIZE)]
            dist.all_reduce(empty())
            dist.all_reduce(empty(), dist.ReduceOp.MAX)
            dist.broadcast(empty(), 1)
            dist.all_gather(every, empty())
            dist.gather(empty(), every if RANK == 0 else None)
            dist.scatter(empty(), every if RANK == 0 else None)
            dist.reduce_scatter(empty(), every)
            dist.all_to_all(every, every)
            dist.all_to_all_single(empty(WORLD_SIZE), empty(WORLD_SIZE))
            dist.distributed_c10d._get_default_group()._reduce_scatter_base(empty(), empty(WORLD_SIZE)).wait()
            dist.distributed_c10d._get_default_group()._allgather_base(empty(WORLD_SIZE), empty()).wait()
    dist.all_reduce(torch.zeros(0, 2).to_sparse())
    dist.barrier()


def side_by_side():
    """A sum is over when all ranks have begun it, whatever one of them has begun since; also what needs further keys."""
    begin()
    store = dist.distributed_c10d._get_default_store()
    for turn, sizes in enumerate(((300, 70_000), (70_000, 300_000), (300_000, 300_000), (300, 300), (300, 9_000_000),
                                  (9_000_000, 9_000_000))):
        first, second = (torch.full((size,), RANK + 1.0) for size in sizes)
        earlier = dist.all_reduce(first, async_op=True)
        if RANK > 0:
            store.wait([f"{turn}"])
        later = dist.all_reduce(second, async_op=True)
        assert earlier.wait()
        if RANK == 0:
            store.set(f"{turn}", "over")
        assert later.wait()
        for each in first, second:
            same(each, torch.full_like(each, sum(range(WORLD_SIZE + 1))))
    twice = torch.full((300_000,), RANK + 1.0)
    dist.all_reduce_coalesced([twice, twice, twice])
    same(twice, torch.full_like(twice, sum(range(WORLD_SIZE + 1))))
    for first, last, step in ((0, 4, 1), (4, 0, 1), (2, 0, 3)):
        whole = torch.full((12,), RANK + 1.0)
        dist.all_reduce_coalesced([whole[first:first + 6], whole[last:last + 8:step]])
        expected = torch.full((12,), RANK + 1.0)
        expected[first:first + 6] = expected[last:last + 8:step] = sum(range(WORLD_SIZE + 1))
        same(whole, expected)
    dist.barrier()


def async_and_groups():
    begin()
    tensors = [torch.full((n,), RANK + 1.0) for n in (5, 5000, 1)]
    works = [dist.all_reduce(each, async_op=True) for each in tensors]
    for work in reversed(works):
        assert work.wait()
    assert all(work.is_completed() for work in works)
    assert all((each == sum(range(WORLD_SIZE + 1))).all() for each in tensors)
    few = dist.new_group([0, 1])
    pairs = dist.new_group(list(range(WORLD_SIZE)))
    if RANK < 2:
        own = torch.tensor([float(RANK)])
        dist.all_reduce(own, group=few)
        assert own.item() == 1
    own = torch.tensor([float(RANK)])
    dist.all_reduce(own, group=pairs)
    assert own.item() == sum(range(WORLD_SIZE))
    dist.barrier()
    dist.destroy_process_group()


def one_dies():
    begin()
    dist.barrier()
    if RANK == 1:
        os._exit(9)
    work = dist.all_reduce(torch.ones(10), async_op=True)
    for _ in range(2):  # and nothing can follow
        try:
            work.wait()
        except RuntimeError as error:
            print("said", error, flush=True)
        else:
            raise AssertionError("rank 1 is dead")
        work = dist.all_reduce(torch.ones(10), async_op=True)


def sizes_differ(*sizes):
    """Of the same key, or of others."""
    begin()
    dist.barrier()
    try:
        dist.all_reduce(torch.ones(int(sizes[RANK])))
    except RuntimeError as error:
        print("said", error, flush=True)


def wrong_parts():
    begin()
    two = torch.zeros(2)
    calls = [lambda: dist.all_gather([torch.zeros(1), torch.zeros(3)], two)]
    if RANK == 0:
        calls.append(lambda: dist.scatter(two, [torch.zeros(1), torch.zeros(3)]))
    for call in calls:
        try:
            call()
        except ValueError as error:
            assert "phub: a " in str(error), error
        else:
            raise AssertionError("it was taken")
    dist.barrier()
    if torch.__version__.startswith("1."):  # 2 refuses it itself
        conjugated = torch.tensor([1.0 + 2.0j]).conj()
        dist.broadcast(conjugated, 0)


def interrupted():
    begin()
    dist.barrier()
    if RANK == 1:
        signal.pause()
    say_when_in("all_reduce", "waiting")
    try:
        dist.all_reduce(torch.ones(10))
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def leaves():
    """Rank 0 ends while its barrier waits for rank 1, which never comes."""
    begin()
    dist.all_reduce(torch.ones(300))
    if RANK == 1:
        signal.pause()
    dist.barrier(async_op=True)
    dist.destroy_process_group()


def train(folder, backend):
    dist.init_process_group(backend)
    model = DistributedDataParallel(torch.nn.Sequential(cases.make(), torch.nn.BatchNorm1d(5)), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
    cases.keep(model, folder)


def ddp_one_dies():
    begin()
    model = DistributedDataParallel(cases.make())
    for step in range(STEPS):
        if RANK == 1 and step == 2:
            os._exit(9)
        cases.loss_of(model, cases.part(step)).backward()


class DistributedTest(unittest.TestCase):
    def all_end_well(self, function, *arguments, workers=2):
        for status, _, error in together(self, function, *arguments, workers=workers):
            self.assertEqual(status, 0, error)

    def test_collectives(self):
        for workers in (2, 3):
            for function in (reductions, copies, async_and_groups, side_by_side, without_elements):
                with self.subTest(function.__name__, workers=workers):
                    self.all_end_well(function, workers=workers)

    def test_who_died_is_named_by_wait(self):
        (status, said, error), _ = together(self, one_dies)
        self.assertEqual(status, 0, error)
        self.assertRegex(said, r"^said .*worker 1.*\nsaid .*worker 1.*\n$")

    def test_sizes_that_differ_are_named_at_all_ranks(self):
        for sizes, named in (((1000, 2000), r"(1024|2048) elements"), ((300, 301), r"this one's has 30[01] elements"),
                             ((299, 300, 301), r"this one's has (299|300|301) elements")):
            for status, said, error in together(self, sizes_differ, *sizes, workers=len(sizes)):
                self.assertEqual(status, 0, error)
                self.assertRegex(said, named)

    def test_lengths_are_equal_or_not(self):
        for lengths in ((5, 5, 5), (2**40 + 1,) * 3, (0, 0)):
            self.assertTrue(_exchange.are_equal(sum(map(_exchange.length_words, lengths)), len(lengths)), lengths)
        for lengths in ((299, 300, 301), (2**22, 2**22 + 1), (64, 1), (1, 64, 1, 64), (0, 2**41)):
            self.assertFalse(_exchange.are_equal(sum(map(_exchange.length_words, lengths)), len(lengths)), lengths)
        self.assertTrue(_exchange.are_equal(4096 * _exchange.length_words(2**42 - 1), 4096))

    def test_a_failure_keeps_nothing_of_the_client(self):
        class Held:
            pass

        def fail(_):
            held = Held()
            seen.append(weakref.ref(held))
            raise phub.Error("no")

        seen = []
        failure = _work.Collective(fail, []).run(unittest.mock.Mock(explained=lambda error: error), None)
        self.assertIsInstance(failure, phub.Error)
        self.assertIsNone(seen[0]())

    def test_words_begin_anywhere(self):
        flat = torch.arange(9, dtype=torch.uint8)
        for begin in (0, 1):
            words = _exchange.words_of(flat[begin:begin + 8])
            self.assertEqual(_exchange.bytes_of(words, 8).tolist(), flat[begin:begin + 8].tolist())

    def test_little_is_sent_in_vain(self):
        smallest, largest = _exchange.SMALLEST, _exchange.LARGEST
        self.assertEqual(_exchange.key_sizes(0), [])
        self.assertEqual(_exchange.key_sizes(1), [smallest])
        self.assertEqual(_exchange.key_sizes(4097), [8192])
        self.assertEqual(_exchange.key_sizes(2**20), [2**20])
        self.assertEqual(_exchange.key_sizes(2**20 + 2**17), [2**20, 2**17])
        self.assertEqual(_exchange.key_sizes(3 * largest + 5), [largest, largest, largest, smallest])
        for elements in [*range(1, 70_000, 97), *(2**power + offset for power in range(16, 25) for offset in (-1, 1, 2**14 + 3))]:
            sizes = _exchange.key_sizes(elements)
            self.assertLessEqual(sum(sizes) - elements, max(elements / 8, 4096), elements)
            self.assertLess(sum(sizes[:-1]), elements)
            own = [size for size in sizes if size != largest]
            self.assertEqual(own, sorted(set(own), reverse=True), elements)  # none waits for another

    def test_what_fits_nowhere_is_refused_at_once(self):
        self.all_end_well(wrong_parts)

    def test_ctrl_c(self):
        interrupt_one(self, interrupted)

    def test_who_leaves_a_barrier_ends_well(self):
        server = Server(*processes.PATIENT, cores=1)
        self.addCleanup(server.close)
        more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        running = [start(leaves, rank=rank, workers=2, server=server, **more) for rank in range(2)]
        _, error = running[0].communicate(timeout=DEADLINE)
        self.assertEqual(running[0].returncode, 0, error)
        running[1].kill()
        running[1].communicate()

    def test_ddp_trains_as_with_gloo(self):
        kept = []
        for backend in ("phub", "gloo"):
            folder = temporary_folder(self)
            self.all_end_well(train, folder, backend)
            cases.same_bits(self, cases.kept(folder, 0), cases.kept(folder, 1))
            kept.append(cases.kept(folder, 0))
        cases.close(self, *kept, BOUND)

    def test_who_died_is_named_by_backward(self):
        (status, _, error), _ = together(self, ddp_one_dies)
        self.assertEqual(status, 1, error)
        self.assertRegex(error, "RuntimeError: .*worker 1")


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

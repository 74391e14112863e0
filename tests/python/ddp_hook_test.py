"""phub.torch.ddp_hook: two ranks of DistributedDataParallel beside one process. Usage: ddp_hook_test.py LIBRARY BIN"""
import contextlib
import mmap
import os
import sys
import unittest

import launched
from launched import temporary_folder, together

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub  # noqa: E402
import phub.torch  # noqa: E402
from phub.torch import _buckets, _remap, _tensors  # noqa: E402
import torch_cases as cases  # noqa: E402

STEPS = 6
RATE = 0.1
# fp32 sums of a batch's halves and of the batch: some units of the last place of a gradient in each step.
BOUND = 2e-6
# A gradient here is below 1, and fp16 has it to 2^-12; momentum keeps ten times as much of an error at most.
HALF_BOUND = STEPS * 10 * RATE * 2.0**-12


def distributed(with_unused=False, wire_type="fp32", **options):
    dist.init_process_group("gloo")
    # Buckets of a few KB: several.
    model = DistributedDataParallel(cases.make(with_unused=with_unused), bucket_cap_mb=0.01, **options)
    model.register_comm_hook(None, phub.torch.ddp_hook(wire_type=wire_type))
    return model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def train(folder, **options):
    model, optimizer = distributed(**options)
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
    cases.keep(model, folder)


def plain(folder):
    train(folder)


def bucket_view(folder):
    train(folder, gradient_as_bucket_view=True)


def pieces(folder):
    _buckets.PIECE_BYTES = 8192  # a bucket is several keys
    train(folder, gradient_as_bucket_view=True)


def half(folder, views):
    train(folder, wire_type="fp16", gradient_as_bucket_view=views == "views")


def copied(folder, views):
    _remap.share = lambda buffer, memory: False
    train(folder, gradient_as_bucket_view=views == "views")


def unused(folder):
    train(folder, with_unused=True, find_unused_parameters=True)


def accumulates(folder):
    model, optimizer = distributed()
    for step in range(0, STEPS, 2):
        optimizer.zero_grad()
        for half in range(2):
            with contextlib.nullcontext() if half == 1 else model.no_sync():
                cases.loss_of(model, cases.part(step + half)).backward()
        optimizer.step()
    cases.keep(model, folder)


def one_dies():
    model, _ = distributed()
    for step in range(STEPS):
        if cases.RANK == 1 and step == 3:
            os._exit(9)
        cases.loss_of(model, cases.part(step)).backward()


class DdpHookTest(unittest.TestCase):
    def ranks(self, function, *arguments):
        folder = temporary_folder(self)
        for status, _, error in together(self, function, folder, *arguments):
            self.assertEqual(status, 0, error)
        cases.same_bits(self, cases.kept(folder, 0), cases.kept(folder, 1))
        return cases.kept(folder, 0)

    def joined(self):
        """One process, the joined batch."""
        model = cases.make()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        for step in range(STEPS):
            optimizer.zero_grad()
            cases.loss_of(model, cases.batch(step)).backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    def averaged(self, **options):
        """One process, the mean of the parts' gradients: bit for bit what two ranks have."""
        model = cases.make(**options)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        for step in range(STEPS):
            cases.mean_gradients(model, step, 2)
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    def test_two_ranks_are_one(self):
        ours = self.ranks(plain)
        cases.same_bits(self, ours, self.averaged())
        cases.close(self, ours, self.joined(), BOUND)

    def test_gradients_as_bucket_views(self):
        cases.same_bits(self, self.ranks(bucket_view), self.averaged())

    def test_a_bucket_of_several_keys(self):
        cases.same_bits(self, self.ranks(pieces), self.averaged())

    def test_buckets_that_are_copied(self):
        for views in ("views", "copies"):
            with self.subTest(views):
                cases.same_bits(self, self.ranks(copied, views), self.averaged())

    def test_half_precision_on_the_wire(self):
        for views in ("views", "copies"):
            with self.subTest(views):
                cases.close(self, self.ranks(half, views), self.averaged(), HALF_BOUND)

    def test_unused_parameters(self):
        cases.same_bits(self, self.ranks(unused), self.averaged(with_unused=True))

    def test_accumulation_without_synchronisation(self):
        model = cases.make()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        for step in range(0, STEPS, 2):
            optimizer.zero_grad()
            for half in range(2):
                cases.loss_of(model, cases.batch(step + half)).backward()
            optimizer.step()
        cases.close(self, self.ranks(accumulates), [p.detach() for p in model.parameters()], BOUND)

    def test_who_died_is_named_by_backward(self):
        (status, _, error), _ = together(self, one_dies)
        self.assertEqual(status, 1, error)
        self.assertRegex(error, "RuntimeError: .*worker 1")


class SharedMemoryTest(unittest.TestCase):
    """A tensor's memory that becomes the client's."""

    def client(self, elements, **options):
        server = launched.Server(cores=1)
        self.addCleanup(server.close)
        mine = phub.Client(phub.Options(servers=server.control, rule="sum", **options))
        self.addCleanup(mine.close)
        mine.register_keys([phub.Key("w", elements)])
        return mine

    def test_the_tensor_and_its_views_are_the_memory(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport):
                mine = self.client(2048, transport=transport)
                buffer = torch.arange(1500.0)
                view = buffer[700:].view(20, 40)
                self.assertTrue(_remap.share(buffer, _tensors.gradient(mine, "w")))
                self.assertTrue(torch.equal(view.reshape(-1), torch.arange(700.0, 1500.0)))
                view.mul_(2)
                mine.push_pull("w")
                sums = _tensors.parameter(mine, "w")
                self.assertTrue(torch.equal(sums[:1500], buffer))
                self.assertEqual((sums[1499], sums[1500]), (2 * 1499, 0))

    def test_the_tensor_outlives_the_client(self):
        mine = self.client(1024)
        buffer = torch.ones(1024)
        self.assertTrue(_remap.share(buffer, _tensors.gradient(mine, "w")))
        mine.close()
        self.assertEqual(buffer.mul_(3).sum(), 3 * 1024)

    def test_what_cannot_be_the_memory_stays_what_it_is(self):
        mine = self.client(4096)
        memory = _tensors.gradient(mine, "w")
        for name, buffer in (("half", torch.ones(1024, dtype=torch.float16)), ("a part", torch.ones(2048)[:1024]),
                             ("not in a row", torch.ones(32, 32).t()), ("shared", torch.ones(1024).share_memory_())):
            with self.subTest(name):
                self.assertFalse(_remap.share(buffer, memory))
        own = torch.ones(1024)
        self.assertFalse(_remap.share(own, memory[1:]), "not on pages of its own")
        private = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.assertFalse(_remap.share(own, torch.frombuffer(private, dtype=torch.float32)), "not shared memory")
        self.assertTrue(own.eq(1).all())


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

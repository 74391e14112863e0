"""phub.torch.ddp_hook: two ranks of DistributedDataParallel beside one process. Usage: ddp_hook_test.py LIBRARY BIN"""
import contextlib
import os
import pathlib
import signal
import sys
import unittest

import launched
from launched import interrupt_one, say_when_in, temporary_folder, together

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch  # noqa: E402
import torch_cases as cases  # noqa: E402

STEPS = 6
RATE = 0.1
# fp32 sums of a batch's halves and of the batch: some units of the last place of a gradient in each step.
BOUND = 2e-6


def distributed(with_unused=False, shared_buckets=False, **options):
    dist.init_process_group("gloo")
    # Buckets of a few KB: several.
    model = DistributedDataParallel(cases.make(with_unused=with_unused), bucket_cap_mb=0.01, **options)
    model.register_comm_hook(None, phub.torch.ddp_hook(shared_buckets=shared_buckets))
    return model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def train(folder, **options):
    model, optimizer = distributed(**options)
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
    cases.keep(model, folder)
    # By the library once, and once for each bucket that is the client's memory.
    return pathlib.Path("/proc/self/maps").read_text().count("phub-gradients")


def plain(folder):
    train(folder)


def bucket_view(folder):
    train(folder, gradient_as_bucket_view=True)


def own_group():
    """Each rank is a group by itself; the run has one name."""
    os.environ["PHUB_JOB"] = "mine"
    dist.init_process_group("gloo")
    own = [dist.new_group([rank]) for rank in range(cases.WORLD_SIZE)][cases.RANK]
    model = DistributedDataParallel(cases.make(), process_group=own)
    model.register_comm_hook(None, phub.torch.ddp_hook(own))
    for step in range(3):
        model.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
    dist.barrier()  # so that both jobs have been there at a time


def shared(folder):
    assert train(folder, shared_buckets=True) > 1


def not_shared(folder):
    os.environ["LOCAL_WORLD_SIZE"] = str(2**50)  # for whose buckets /dev/shm has no room
    assert train(folder, shared_buckets=True) == 1


def unused(folder):
    train(folder, with_unused=True, find_unused_parameters=True)


def static_graph(folder):
    train(folder, static_graph=True)


def static_graph_shared(folder):
    train(folder, static_graph=True, shared_buckets=True)


def accumulates(folder):
    model, optimizer = distributed()
    for step in range(0, STEPS, 2):
        optimizer.zero_grad()
        for half in range(2):
            with contextlib.nullcontext() if half == 1 else model.no_sync():
                cases.loss_of(model, cases.part(step + half)).backward()
        optimizer.step()
    cases.keep(model, folder)


def refused():
    """What would be rounded, or is not exchanged, in the first iteration."""
    dist.init_process_group("gloo")
    for model, data in ((torch.nn.Linear(3, 2).double(), torch.ones(4, 3).double()),
                        (torch.nn.Embedding(10, 3, sparse=True), torch.tensor([1, 2]))):
        parallel = DistributedDataParallel(model)
        parallel.register_comm_hook(None, phub.torch.ddp_hook())
        for _ in range(2):
            try:
                parallel(data).sum().backward()
            except RuntimeError as error:
                print("said", error, flush=True)
    dist.barrier()


def interrupted():
    model, _ = distributed()
    for step in range(4):
        if step == 3 and cases.RANK == 1:
            signal.pause()
        if step == 3:
            say_when_in("_finish", "waiting")
        try:
            cases.loss_of(model, cases.part(step)).backward()
        except (KeyboardInterrupt, RuntimeError) as interruption:
            is_that = isinstance(interruption, KeyboardInterrupt)
            if is_that or torch.__version__.startswith("1.") and "KeyboardInterrupt" in str(interruption):
                print("interrupted", flush=True)
                os._exit(0)
            raise


def one_dies():
    model, _ = distributed()
    for step in range(STEPS):
        if cases.RANK == 1 and step == 3:
            os._exit(9)
        cases.loss_of(model, cases.part(step)).backward()


class DdpHookTest(unittest.TestCase):
    def ranks(self, function):
        folder = temporary_folder(self)
        for status, _, error in together(self, function, folder):
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

    def test_buckets_in_the_clients_memory_and_copied_there(self):
        for function in (shared, not_shared):
            with self.subTest(function.__name__):
                cases.same_bits(self, self.ranks(function), self.averaged())

    def test_buckets_that_are_others_in_the_third_iteration(self):
        for function in (static_graph, static_graph_shared):
            with self.subTest(function.__name__):
                cases.same_bits(self, self.ranks(function), self.averaged())

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

    def test_two_groups_of_a_run_have_two_jobs(self):
        for status, _, error in together(self, own_group):
            self.assertEqual(status, 0, error)

    def test_what_would_be_rounded_is_refused(self):
        for status, said, error in together(self, refused):
            self.assertEqual(status, 0, error)
            self.assertEqual(said.count("have gradients of torch.float64, which float32 would round; train them in float32"), 2, said)
            self.assertEqual(said.count("shape (10, 3) has sparse gradients, which are not exchanged; make its module with "
                                        "sparse=False"), 2, said)

    def test_ctrl_c(self):
        interrupt_one(self, interrupted)

    def test_who_died_is_named_by_backward(self):
        (status, _, error), _ = together(self, one_dies)
        self.assertEqual(status, 1, error)
        self.assertRegex(error, "RuntimeError: .*worker 1")


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

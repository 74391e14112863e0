"""DistributedDataParallel.join: ranks with unlike numbers of batches, on the backend "phub" and with ddp_hook.

Usage: join_test.py LIBRARY BIN
"""
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

import phub.torch  # noqa: E402
import phub.torch.distributed  # noqa: E402
import torch_cases as cases  # noqa: E402

RATE = 0.1


def train(folder, backend, hook, steps, options):
    """`steps`: how many each rank has, as "2,5"."""
    dist.init_process_group(backend)
    model = DistributedDataParallel(cases.make(), bucket_cap_mb=0.01)
    if hook == "ddp_hook":
        model.register_comm_hook(None, phub.torch.ddp_hook())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    own = int(steps.split(",")[cases.RANK])
    try:
        with model.join(**eval(options)):
            for step in range(own):
                optimizer.zero_grad()
                cases.loss_of(model, cases.part(step)).backward()
                optimizer.step()
    except RuntimeError as error:
        print("said", error, flush=True)
        os._exit(3)
    cases.keep(model, folder)


class JoinTest(unittest.TestCase):
    def expected(self, steps, over_those_left):
        """One process. Who has no more adds zeros; the last one's momentum and parameters are everybody's."""
        model = cases.make()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
        for step in range(max(steps)):
            left = [rank for rank, own in enumerate(steps) if step < own]
            sums = [torch.zeros_like(each) for each in model.parameters()]
            for rank in left:
                model.zero_grad()
                cases.loss_of(model, cases.part(step, rank, len(steps))).backward()
                sums = [total + each.grad for total, each in zip(sums, model.parameters())]
            for each, total in zip(model.parameters(), sums):
                each.grad = total / (len(left) if over_those_left else len(steps))
            optimizer.step()
        return [each.detach() for each in model.parameters()]

    def trains(self, backend, hook, *steps, options="{}", over_those_left=False):
        with self.subTest(backend, hook=hook, steps=steps, options=options):
            folder = temporary_folder(self)
            for status, said, error in together(self, train, folder, backend, hook, ",".join(map(str, steps)), options):
                self.assertEqual(status, 0, said + error)
            cases.same_bits(self, cases.kept(folder, 0), cases.kept(folder, 1))
            cases.same_bits(self, cases.kept(folder, 0), self.expected(steps, over_those_left))

    def test_backend(self):
        self.trains("phub", "none", 2, 5)
        self.trains("phub", "none", 4, 1)
        self.trains("phub", "none", 2, 4, options="dict(divide_by_initial_world_size=False)", over_those_left=True)

    def test_hook(self):
        self.trains("gloo", "ddp_hook", 2, 5)
        self.trains("phub", "ddp_hook", 5, 3)

    def test_a_rank_without_any(self):
        self.trains("phub", "none", 0, 3)
        self.trains("gloo", "ddp_hook", 0, 3)

    def test_a_hook_means_over_all_ranks(self):
        """As PyTorch's own hooks do, whatever join is told."""
        self.trains("gloo", "ddp_hook", 2, 4, options="dict(divide_by_initial_world_size=False)")

    def test_early_end_is_said_where_it_is_asked_for(self):
        for backend, hook in (("phub", "none"), ("gloo", "ddp_hook")):
            with self.subTest(backend, hook=hook):
                ended = together(self, train, "none", backend, hook, "2,5", "dict(throw_on_early_termination=True)")
                self.assertEqual([status for status, _, _ in ended], [3, 3], ended)
                self.assertIn("said Rank 0 exhausted all inputs.", ended[0][1])
                self.assertIn("said Detected at least one rank that exhausted inputs.", ended[1][1])


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

"""What the tests with PyTorch train: a small network, a batch that is the same in every process, a part for each rank."""
import os
import pathlib

import torch

RANK, WORLD_SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.set_num_threads(1)


class Net(torch.nn.Module):
    """`with_unused`: a layer that forward does not use."""

    def __init__(self, with_unused=False):
        super().__init__()
        self.first = torch.nn.Linear(20, 300)
        self.norm = torch.nn.LayerNorm(300)
        self.second = torch.nn.Linear(300, 50)
        if with_unused:
            self.unused = torch.nn.Linear(50, 50)
        self.last = torch.nn.Linear(50, 5)

    def forward(self, x):
        return self.last(torch.relu(self.second(torch.relu(self.norm(self.first(x))))))


def make(**options):
    torch.manual_seed(7)
    return Net(**options)


def batch(step):
    """Images and labels of all ranks."""
    random = torch.Generator().manual_seed(100 + step)
    return torch.randn(32, 20, generator=random), torch.randint(5, (32,), generator=random)


def part(step, rank=RANK, world_size=WORLD_SIZE):
    return tuple(each.chunk(world_size)[rank] for each in batch(step))


def loss_of(model, data):
    x, y = data
    return torch.nn.functional.cross_entropy(model(x), y)


def keep(model, folder):
    """For the test to read; by rank."""
    torch.save([p.detach().clone() for p in model.parameters()], pathlib.Path(folder) / f"{RANK}.pt")


def kept(folder, rank):
    return torch.load(pathlib.Path(folder) / f"{rank}.pt")


def mean_gradients(model, step, world_size):
    """Of each rank's part, added in the order of ranks: what the servers do, to the bit."""
    sums = None
    for rank in range(world_size):
        model.zero_grad()
        loss_of(model, part(step, rank, world_size)).backward()
        own = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        sums = own if sums is None else [None if a is None else a + b for a, b in zip(sums, own)]
    for parameter, total in zip(model.parameters(), sums):
        parameter.grad = None if total is None else total * (1.0 / world_size)


def same_bits(test, ours, expected):
    for a, b in zip(ours, expected):
        test.assertTrue(torch.equal(a, b), f"apart by {(a - b).abs().max()}")


def close(test, ours, expected, bound):
    for a, b in zip(ours, expected):
        test.assertLess((a - b).abs().max().item(), bound)

"""The backend "phub" under what PyTorch 2 has beside collectives: group names, functional collectives, DTensor, fully_shard,
distributed checkpoints, torch.compile. Each beside Gloo. Skipped with PyTorch 1.13.

Usage: torch2_test.py LIBRARY BIN
"""
import os
import pathlib
import sys
import unittest
import warnings

import launched
from launched import DEADLINE, ROOT, temporary_folder, together

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if torch.__version__.startswith("1."):
    print(f"skipped: PyTorch {torch.__version__} has none of it")
    sys.exit(77)

import torch_cases as cases  # noqa: E402
from torch_cases import RANK, WORLD_SIZE  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
TAKES_BACKENDS_OF_PYTHON = (2, 14)  # and finds them without an import
STEPS = 3
GUARD = 2 * DEADLINE  # PyTorch 2 alone takes many seconds to be imported on a busy machine


def begin(backend):
    warnings.simplefilter("ignore")
    if VERSION < TAKES_BACKENDS_OF_PYTHON:
        import phub.torch.distributed  # noqa: F401
    dist.init_process_group(backend)


def collectives():
    """What has another name than in 1.13; the results."""
    mine = torch.arange(4.0) + 10 * RANK
    there = torch.zeros(4 * WORLD_SIZE)
    dist.all_gather_into_tensor(there, mine)
    part = torch.zeros(4)
    dist.reduce_scatter_tensor(part, there)
    exchanged = torch.zeros(4)
    dist.all_to_all_single(exchanged, mine)
    at_root = [torch.zeros(4) for _ in range(WORLD_SIZE)] if RANK == 0 else None
    dist.gather(mine, at_root)
    if hasattr(dist, "gather_single") and type(dist.group.WORLD) is not dist.ProcessGroup:  # neither Gloo nor a mixed group has it
        single = torch.zeros(4 * WORLD_SIZE) if RANK == 0 else None
        dist.gather_single(mine, single)
        assert RANK or torch.equal(single, torch.cat(at_root))
    objects = [None] * WORLD_SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    received = torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (RANK + 1) % WORLD_SIZE),
                                        dist.P2POp(dist.irecv, received, (RANK - 1) % WORLD_SIZE)]):
        work.wait()
    return [there, part, exchanged, received, torch.tensor([each["rank"] for each in objects]), *(at_root or [])]


def functional():
    from torch.distributed import _functional_collectives as functions
    group = dist.group.WORLD
    mine = torch.arange(4.0) + RANK
    return [
        functions.all_reduce(mine, "sum", group), functions.all_gather_tensor(mine, 0, group),
        functions.reduce_scatter_tensor(mine, "sum", 0, group), functions.broadcast(mine, 1, group),
        functions.all_to_all_single(mine, None, None, group),
        *functions.all_reduce_coalesced([mine, mine + 1], "sum", group),
        *functions.all_gather_into_tensor_coalesced([mine, mine + 1], group),
        *functions.reduce_scatter_tensor_coalesced([mine, mine + 1], "sum", [0, 0], group)]


def groups():
    few = dist.new_group([0, 1], group_desc="few")
    own = torch.ones(2)
    dist.all_reduce(own, group=few)
    names = {dist.group.WORLD.group_name, few.group_name}
    assert len(names) == 2 and few.group_desc == "few", names
    dist.destroy_process_group(few)
    return [own]


def mesh():
    from torch.distributed import tensor
    from torch.distributed.tensor import parallel
    devices = dist.init_device_mesh("cpu", (WORLD_SIZE,))
    whole = torch.arange(12.0).reshape(6, 2)
    shard = tensor.distribute_tensor(whole, devices, [tensor.Shard(0)])
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    parallel.parallelize_module(model, devices, {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()})
    out = model(whole)
    return [shard.full_tensor(), shard.sum().full_tensor().reshape(1), out.detach()]


def sharded(folder):
    """fully_shard trains; its parameters are written, and read by a checkpoint of PyTorch's."""
    from torch.distributed import checkpoint, fsdp
    torch.manual_seed(3)
    model = cases.make()
    fsdp.fully_shard(model, mesh=dist.init_device_mesh("cpu", (WORLD_SIZE,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(model, cases.part(step)).backward()
        optimizer.step()
    checkpoint.async_save({"model": model.state_dict()}, checkpoint_id=folder).result()
    trained = [each.full_tensor().detach().clone() for each in model.parameters()]
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()
    state = {"model": model.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    cases.same_bits(unittest.TestCase(), [each.full_tensor() for each in model.parameters()], trained)
    return trained


def compiled():
    """With buffers, which DDP broadcasts at the start of each forward."""
    torch.manual_seed(3)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(cases.make(), torch.nn.BatchNorm1d(5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fast = torch.compile(model, backend="eager")
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(fast, cases.part(step)).backward()
        optimizer.step()
    return [each.detach() for each in model.parameters()]


def quantized():
    """PyTorch's hook gathers in the callback of a gather, and waits there; Gloo hangs in it."""
    from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks
    model = torch.nn.parallel.DistributedDataParallel(cases.make())
    model.register_comm_hook(dist.group.WORLD, quantization_hooks.quantization_perchannel_hook)
    cases.loss_of(model, cases.part(0)).backward()
    assert all(each.grad.isfinite().all() and each.grad.abs().sum() > 0 for each in model.parameters())


def plain(tensor):
    """Without the subclass that a functional collective returns, which waits when it is used."""
    return torch.tensor(tensor.detach().tolist())


def all_of_it(folder, backend):
    begin(backend)
    results = {}
    for call, *arguments in ((collectives,), (groups,), (functional,), (mesh,), (compiled,), (sharded, f"{folder}/saved-{backend}")):
        if VERSION >= (2, 6) or call not in (mesh, sharded):
            results[call.__name__] = [plain(each) for each in call(*arguments)]
    if backend == "phub" and VERSION >= (2, 6):
        quantized()
    torch.save(results, pathlib.Path(folder) / f"{backend}-{RANK}.pt")
    dist.barrier()
    if backend == "phub" and VERSION >= TAKES_BACKENDS_OF_PYTHON:
        dist.monitored_barrier()
    dist.destroy_process_group()


def mixed():
    """A backend for each device: each has its own tensors, and neither replaces the other."""
    try:
        begin("cpu:phub,cuda:gloo")
    except RuntimeError as error:
        assert VERSION < TAKES_BACKENDS_OF_PYTHON, error
        assert "would replace cuda:gloo by phub for every device" in str(error), error
        return
    assert VERSION >= TAKES_BACKENDS_OF_PYTHON
    group = dist.group.WORLD
    names = [group._get_backend(torch.device(device)).name() for device in ("cpu", "cuda")]
    assert names == ["phub", "gloo"], names
    own = torch.ones(3)
    dist.all_reduce(own)
    assert (own == WORLD_SIZE).all()
    few = dist.new_group([0, 1])
    collectives()
    functional()
    dist.broadcast(own, 1, group=few)
    work = dist.isend(own, (RANK + 1) % WORLD_SIZE)
    dist.recv(own, (RANK - 1) % WORLD_SIZE)
    work.wait()
    dist.monitored_barrier()
    try:
        dist.all_reduce(own, dist.ReduceOp.BAND)
    except TypeError as error:
        assert "BAND is for integers" in str(error), error
    dist.barrier()
    dist.destroy_process_group()


def entry_points(folder):
    """What pip would write of them."""
    try:
        import tomllib
    except ImportError:  # Python before 3.11
        return False
    project = tomllib.loads((ROOT / "worker/torch/pyproject.toml").read_text())["project"]
    info = pathlib.Path(folder) / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()))
    return True


class Torch2Test(unittest.TestCase):
    def test_all_of_it_as_with_gloo(self):
        folder = temporary_folder(self)
        if entry_points(folder):
            os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        for status, _, error in together(self, mixed, deadline=GUARD):
            self.assertEqual(status, 0, error)
        for backend in ("gloo", "phub"):
            for status, _, error in together(self, all_of_it, folder, backend, deadline=GUARD):
                self.assertEqual(status, 0, error)
        for rank in range(2):
            ours, expected = (torch.load(pathlib.Path(folder) / f"{backend}-{rank}.pt") for backend in ("phub", "gloo"))
            self.assertEqual(set(ours), set(expected))
            for name in expected:
                with self.subTest(name, rank=rank):
                    self.assertEqual(len(ours[name]), len(expected[name]))
                    for one, other in zip(ours[name], expected[name]):
                        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

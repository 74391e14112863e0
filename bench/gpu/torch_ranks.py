#!/usr/bin/env python3
"""Trains with phub.torch as one rank of several on one GPU, and prints a JSON line: rank 0, and who finds a difference.

    phubrun -n 2 python bench/gpu/torch_ranks.py check
    phubrun -n 2 python bench/gpu/torch_ranks.py speed --way optimizer --description resnet50.textproto

`check` compares parameters after 10 steps of each way with torch.optim's on the batch of all ranks, and each
collective of the backend "phub" with its definition. The optimizer pushes in backward and, once more, in step. `speed` times steps in fp16. Ways of `speed`: none (nothing is
exchanged), optimizer (phub.torch.Optimizer), hook (DDP with phub.torch.ddp_hook), gloo and phub (DDP over a backend).
Needs PyTorch 2.3 or later; `--device cpu` runs it without a GPU.
Exit status: 0; 1 when something differs or failed; 2 for wrong usage.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "worker/torch"), str(ROOT / "tests/python"), str(pathlib.Path(__file__).resolve().parent)]
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
WAYS = ("none", "optimizer", "hook", "gloo", "phub")
STEPS, RATE, MOMENTUM = 10, 0.05, 0.9


def synchronize(torch, device):
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def wrapped(torch, way, model):
    """What forward is called on, and who steps."""
    import phub.torch
    from torch.nn.parallel import DistributedDataParallel
    sgd = torch.optim.SGD
    if way.startswith("optimizer"):
        push = "step" if way == "optimizer-step" else "backward"
        return model, phub.torch.Optimizer(model.named_parameters(), rule="momentum", lr=RATE, momentum=MOMENTUM, push=push)
    if way == "none":
        return model, sgd(model.parameters(), lr=RATE, momentum=MOMENTUM)
    parallel = DistributedDataParallel(model)
    if way == "hook":
        parallel.register_comm_hook(None, phub.torch.ddp_hook(job=f"{os.environ.get('PHUB_JOB', 'job')}-hook"))
    return parallel, sgd(model.parameters(), lr=RATE, momentum=MOMENTUM)


def difference(torch, ours, theirs):
    """The largest, relative to the largest value."""
    return max(float((a.detach() - b.detach()).abs().max() / b.detach().abs().max()) for a, b in zip(ours, theirs))


def after_steps(torch, cases, device, way):
    model = cases.make().to(device)
    run, optimizer = wrapped(torch, way, model)
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(run, [each.to(device) for each in cases.part(step)]).backward()
        optimizer.step()
    if hasattr(optimizer, "synchronize"):
        optimizer.synchronize()
    return [p.detach().clone() for p in model.parameters()]


def alone(torch, cases, device):
    """torch.optim on the batch of all ranks: the mean of equal parts' means is the whole's."""
    model = cases.make().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    for step in range(STEPS):
        optimizer.zero_grad()
        cases.loss_of(model, [each.to(device) for each in cases.batch(step)]).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def collectives(torch, device):
    """The names of those whose result is wrong; the process group is "phub"'s."""
    import torch.distributed as dist
    wrong = []

    def say(name, right):
        if not bool(right):
            wrong.append(name)

    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        for count in (1, 1000, 300_001):
            values = [((torch.arange(count) * (rank + 1)) % 61).to(kind).to(device) for rank in range(RANKS)]
            label = f"{str(kind)[6:]} {count}"
            total = values[RANK].clone()
            dist.all_reduce(total)
            say(f"all_reduce {label}", total.device == values[0].device and (total == sum(values[1:], values[0])).all())
            got = [torch.empty_like(values[0]) for _ in range(RANKS)]
            dist.all_gather(got, values[RANK])
            say(f"all_gather {label}", all((a == b).all() for a, b in zip(got, values)))
            sent = values[RANK].clone()
            dist.broadcast(sent, 0)
            say(f"broadcast {label}", (sent == values[0]).all())
    if RANKS > 1:
        tensor = torch.full((1000,), float(RANK), device=device)
        if RANK == 0:
            dist.send(tensor, 1)
        elif RANK == 1:
            dist.recv(tensor, 0)
            say("send, recv", (tensor == 0).all())
    dist.barrier()
    return wrong


def check(torch, arguments):
    import phub.torch.distributed  # noqa: F401
    import torch_cases as cases
    torch.distributed.init_process_group("phub")
    expected = alone(torch, cases, arguments.device)
    found = {"wrong": collectives(torch, arguments.device)}
    for way in ("optimizer", "optimizer-step", "hook", "phub"):
        found[way] = difference(torch, after_steps(torch, cases, arguments.device, way), expected)
        if not found[way] <= 1e-4:
            found["wrong"].append(f"parameters of {way}")
    torch.distributed.destroy_process_group()
    return found


def speed(torch, arguments):
    from torch_network import Network
    if arguments.way in ("hook", "gloo"):
        torch.distributed.init_process_group("gloo")
    elif arguments.way == "phub":
        import phub.torch.distributed  # noqa: F401
        torch.distributed.init_process_group("phub")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    network = Network(arguments.description.read_text())
    network = network.to(arguments.device, memory_format=torch.channels_last)
    images = torch.rand(arguments.batch, *network.image, device=arguments.device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (arguments.batch,), device=arguments.device)
    run, optimizer = wrapped(torch, arguments.way, network)
    kind = torch.float16 if torch.device(arguments.device).type == "cuda" else torch.bfloat16
    times = []
    for number in range(arguments.warm_up + arguments.steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(torch.device(arguments.device).type, dtype=kind):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        loss.backward()
        optimizer.step()
        synchronize(torch, arguments.device)
        if number >= arguments.warm_up:
            times.append(time.perf_counter() - began)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    median = statistics.median(times)
    return {"way": arguments.way, "ranks": RANKS, "batch": arguments.batch, "wrong": [],
            "images_per_second": RANKS * arguments.batch / median,
            "step_seconds": {"median": median, "min": min(times), "max": max(times)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "speed"))
    parser.add_argument("--way", choices=WAYS, default="optimizer", help="(default optimizer)")
    parser.add_argument("--description", type=pathlib.Path, help="as `phub-worker model NAME --textproto` prints it")
    parser.add_argument("--batch", type=int, default=64, help="images of a step of each rank (default 64)")
    parser.add_argument("--steps", type=int, default=20, help="timed steps (default 20)")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before them (default 5)")
    parser.add_argument("--device", default="cuda", help="PyTorch's name of a device (default cuda)")
    arguments = parser.parse_args()
    if arguments.what == "speed" and arguments.description is None:
        parser.error("speed: --description is missing; `phub-worker model resnet50 --textproto` prints one")
    try:
        import torch
    except ImportError:
        sys.exit("torch_ranks.py: this Python has no PyTorch: pip install 'torch>=2.3', or name another interpreter")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"torch_ranks.py: PyTorch {torch.__version__} finds no GPU; --device cpu needs none")
    if "RANK" not in os.environ:
        parser.error("RANK is not set: start it as `phubrun -n 2 python bench/gpu/torch_ranks.py ...`")
    found = (check if arguments.what == "check" else speed)(torch, arguments)
    if RANK == 0 or found["wrong"]:
        print(json.dumps({"rank": RANK, **found}), flush=True)
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()

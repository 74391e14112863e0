#!/usr/bin/env python3
"""Times PyTorch's training step of a network on one batch of noise on a GPU; prints a JSON line.

    bench/gpu/torch_step.py DESCRIPTION.textproto --batch 256 --mode MODE [--steps 30]

Mixed precision (autocast to fp16 with a gradient scaler), channels_last, SGD with momentum (its
fused kernel), cuDNN's benchmark mode. Modes: `eager`; `compile`: torch.compile as it is;
`reduce-overhead`: torch.compile with CUDA graphs; `graph`: forward, backward and update as one CUDA
graph, not compiled. Needs PyTorch 2.3 or later and a GPU.
Exit status: 0; 1 without these or after a failure; 2 for wrong usage.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

NAME = "torch_step.py"
MODES = ("eager", "compile", "reduce-overhead", "graph")


def torch_or_exit():
    try:
        import torch
    except ImportError:
        sys.exit(f"{NAME}: this Python has no PyTorch: pip install 'torch>=2.3', or name another interpreter")
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        sys.exit(f"{NAME}: PyTorch {torch.__version__} is too old: 2.3 or later is needed")
    if not torch.cuda.is_available():
        sys.exit(f"{NAME}: PyTorch {torch.__version__} finds no GPU; does nvidia-smi list one?")
    return torch


def make_step(torch, arguments, network, images, labels):
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler(arguments.device, init_scale=1024.0, growth_interval=10**6)
    run = {"compile": torch.compile,
           "reduce-overhead": lambda module: torch.compile(module, mode="reduce-overhead"),
           }.get(arguments.mode, lambda module: module)(network)

    def step():
        if arguments.mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(arguments.device, dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def bare_step():  # without the scaler's question to the host, which a graph cannot have
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(arguments.device, dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        (loss * 1024.0).backward()
        for group in optimizer.param_groups:
            torch._foreach_div_([p.grad for p in group["params"]], 1024.0)
        optimizer.step()
        return loss

    if arguments.mode != "graph":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            bare_step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = bare_step()

    def replay():
        graph.replay()
        return loss

    return replay


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("description", type=pathlib.Path, help="as `phub-worker model NAME --textproto` prints it")
    parser.add_argument("--batch", type=int, default=256, help="images of a step (default 256)")
    parser.add_argument("--mode", choices=MODES, default="eager", help="(default eager)")
    parser.add_argument("--steps", type=int, default=30, help="timed steps, at least 5 (default 30)")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before them (default 10)")
    parser.add_argument("--device", default="cuda", help="PyTorch's name of a GPU (default cuda)")
    arguments = parser.parse_args()
    if arguments.steps < 5:
        parser.error(f"--steps: {arguments.steps} is below 5, one for each block")
    torch = torch_or_exit()
    from torch_network import Network  # needs PyTorch, which --help does not
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    network = Network(arguments.description.read_text())
    network = network.to(arguments.device, memory_format=torch.channels_last)
    images = torch.rand(arguments.batch, *network.image, device=arguments.device)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (arguments.batch,), device=arguments.device)
    step = make_step(torch, arguments, network, images, labels)
    for _ in range(arguments.warm_up):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(5):  # blocks, so that nothing waits for the host between steps
        start = time.perf_counter()
        for _ in range(arguments.steps // 5):
            loss = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / (arguments.steps // 5))
    median = statistics.median(times)
    print(json.dumps({"mode": arguments.mode, "batch": arguments.batch,
                      "images_per_second": arguments.batch / median,
                      "step_seconds": {"median": median, "min": min(times), "max": max(times)},
                      "loss": float(loss), "torch": torch.__version__,
                      "cudnn": torch.backends.cudnn.version()}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What Python adds to a push-pull of one 32 KiB tensor over shared memory.

    bench/pytorch/binding.py build/release [--rounds 3000] [--blocks 5] [--json]

One worker, one server core. "c" calls phub_push_pull by its address, without conversions; "client" is
phub.Client.push_pull; "numpy" and "torch" copy an array or a tensor in and the result out besides. They take turns,
block by block; a block's figure is the median round, and what is printed is the difference to "c" of the same block.
The call into the library itself is timed alone too (phub_workers).

Needs libphub.so and phub-server in the build folder. Exit code: 0; 1 if a run failed; 2 for bad input.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "worker/torch"), str(ROOT / "tests/support")]
ELEMENTS = 8192  # 32 KiB


def ways(client, library, handle):
    """By name: what makes a round."""
    import numpy  # noqa: PLC0415: after the library's place is known
    import torch  # noqa: PLC0415

    import phub.numpy  # noqa: PLC0415
    from phub.torch import _tensors  # noqa: PLC0415

    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)(("phub_push_pull", library))
    array = numpy.ones(ELEMENTS, numpy.float32)
    tensor, gradient, parameter = torch.ones(ELEMENTS), _tensors.gradient(client, 0), _tensors.parameter(client, 0)

    def by_torch():
        gradient.copy_(tensor)
        client.push_pull(0)
        tensor.copy_(parameter)

    return {"c": lambda: call(handle, 0), "client": lambda: client.push_pull(0),
            "numpy": lambda: phub.numpy.push_pull(client, 0, array), "torch": by_torch}


def median_us(way, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        way()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build's folder")
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    build = given.build.resolve()
    os.environ["PHUB_LIBRARY"] = str(build / "lib/libphub.so")
    import processes  # noqa: PLC0415
    import phub  # noqa: PLC0415
    processes.BIN = build / "bin"
    server = processes.Server(cores=1)
    try:
        with phub.Client(phub.Options(servers=server.control, transport="shm", rule="sum")) as client:
            client.register_keys([phub.Key("w", ELEMENTS)])
            handle = client._usable()
            made = ways(client, handle.library, handle.client)
            for way in made.values():
                median_us(way, 200)
            rounds = {name: [] for name in made}
            empty = median_us(lambda: handle.library.phub_workers(handle.client), given.rounds)
            for block in range(given.blocks):
                names = list(made)[block % len(made):] + list(made)[:block % len(made)]
                for name in names:
                    rounds[name].append(median_us(made[name], given.rounds))
    finally:
        server.close()
    more = {name: [own - c for own, c in zip(each, rounds["c"])] for name, each in rounds.items()}
    if given.json:
        print(json.dumps({"round_us": rounds, "more_than_c_us": more, "empty_call_us": empty}))
        return
    print(f"a call that does nothing: {empty:.2f} us")
    print(f"{'way':<8} {'a round':>10} {'more than c':>30}")
    for name, each in rounds.items():
        print(f"{name:<8} {statistics.median(each):>7.1f} us {statistics.median(more[name]):>8.2f} us "
              f"[{min(more[name]):.2f} .. {max(more[name]):.2f}]")


if __name__ == "__main__":
    main()

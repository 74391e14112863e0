#!/usr/bin/env python3
"""Asks a GPU's driver for the GPU's attributes by ctypes, and prints them as one line of JSON.

    bench/gpu/attributes.py

With PyTorch it also times copies between pinned memory and the GPU.
Exit status: 0; 1 without a driver or without a GPU; 2 for wrong usage.
"""
import argparse
import ctypes
import json
import sys

NAME = "attributes.py"

# CUdevice_attribute of cuda.h.
ATTRIBUTES = {"multiprocessors": 16, "l2_bytes": 38, "copy_engines": 40, "compute_major": 75,
              "compute_minor": 76, "shared_memory_per_block_optin": 97, "host_register": 99,
              "read_only_host_register": 113, "gpu_direct_rdma": 116, "rdma_writes_ordering": 118,
              "dma_buf": 124}


def attributes():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        sys.exit(f"{NAME}: libcuda.so.1 is not there: this machine has no NVIDIA driver")
    found, value = {}, ctypes.c_int()
    if (code := driver.cuInit(0)) != 0:
        sys.exit(f"{NAME}: the driver finds no GPU (cuInit: error {code}); does nvidia-smi list one?")
    driver.cuDriverGetVersion(ctypes.byref(value))
    found["driver_api"] = value.value
    name = ctypes.create_string_buffer(100)
    driver.cuDeviceGetName(name, 100, 0)
    found["name"] = name.value.decode()
    for key, number in ATTRIBUTES.items():
        failed = driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0)
        found[key] = None if failed else value.value
    return found


def copies(torch):
    """GB/s between pinned memory and the GPU."""
    found = {}
    for count in (1 << 12, 1 << 20, 1 << 26):
        host = torch.empty(count, dtype=torch.uint8, pin_memory=True)
        device = torch.empty(count, dtype=torch.uint8, device="cuda")
        for name, to, source in (("to_gpu", device, host), ("to_host", host, device)):
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            for _ in range(3):
                to.copy_(source, non_blocking=True)
            begin.record()
            for _ in range(20):
                to.copy_(source, non_blocking=True)
            end.record()
            torch.cuda.synchronize()
            found[f"{name}_{count}"] = round(20 * count / begin.elapsed_time(end) / 1e6, 2)
    return found


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    found = attributes()
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        found["torch"] = torch.__version__
        found["cudnn"] = torch.backends.cudnn.version()
        found["nccl"] = list(torch.cuda.nccl.version())
        found["gigabytes_per_second"] = copies(torch)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

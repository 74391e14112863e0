"""One rank of compare.py, which see: trains so many steps in one mode, and prints them as one JSON object."""

import argparse
import contextlib
import importlib
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "worker/torch"), str(ROOT / "worker/torch/examples")]
import phub.torch  # noqa: E402
import language  # noqa: E402
import resnet  # noqa: E402

RATE = 0.01


def resnet18(batch, random):
    images, labels = resnet.made_images(16 * batch, 1000 + phub.rank())

    def data():
        chosen = torch.randint(len(labels), (batch,), generator=random)
        return images[chosen], labels[chosen]
    return resnet.ResNet18(), data, lambda model, xy: F.cross_entropy(model(xy[0]), xy[1])


def transformer(batch, random):
    text = torch.arange(100_000).mul(7919).bitwise_right_shift(3).remainder(97).to(torch.uint8)
    model = language.Transformer(length=64)
    return model, lambda: language.passages(text, batch, 64, random), language.loss_of


MODELS = {"resnet18": resnet18, "transformer": transformer}


def parallel(mode, model):
    """The model as this mode trains it, and its optimizer."""
    if mode == "optimizer":
        made = phub.torch.Optimizer(model.named_parameters(), rule="momentum", lr=RATE, momentum=0.9, model=model)
        return model, made
    if mode == "backend":
        importlib.import_module("phub.torch.distributed")
    dist.init_process_group("phub" if mode == "backend" else "gloo")
    # Batches are normalised by each rank's own statistics, in each mode.
    model = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    if mode in ("hook", "shared"):
        model.register_comm_hook(None, phub.torch.ddp_hook(shared_buckets=mode == "shared"))
    return model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("gloo", "alone", "hook", "shared", "backend", "optimizer"))
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warm", type=int, required=True)
    given = parser.parse_args()
    torch.manual_seed(1)
    random = torch.Generator().manual_seed(100 + phub.rank())
    model, data, loss_of = MODELS[given.model](given.batch, random)
    model, optimizer = parallel(given.mode, model)
    seconds, losses = [], []
    for _ in range(given.warm + given.steps):
        start = time.perf_counter()
        # "alone" trains without the exchange, which shows what of a step that is.
        with model.no_sync() if given.mode == "alone" else contextlib.nullcontext():
            optimizer.zero_grad()
            loss = loss_of(model, data())
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"rank": phub.rank(), "seconds": seconds[given.warm:], "losses": losses}))


if __name__ == "__main__":
    main()

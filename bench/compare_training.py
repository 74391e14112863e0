#!/usr/bin/env python3
"""Trains one network on the same JPEGs by phub-worker and by PyTorch in turn, and prints the ratio.

    bench/compare_training.py [--worker build/release/bin/phub-worker] [--blocks 3] [--epochs 6]

The network is a CIFAR ResNet-20 on 32 x 32 pixels: a random part of each JPEG, whose sides are 256
to 512 pixels (--sides), resized, mirrored or not, normalised to fp32. Both train with Nesterov's momentum and
the same batch, on one thread. phub-worker makes batches on one more thread, PyTorch's DataLoader in
one more process, with simplejpeg if it is there (`pip install --no-deps simplejpeg==1.7.2` with
Debian's NumPy), else by torchvision's decoder. PyTorch works on channels_last, by torch.jit.

A block trains with each from the beginning. Its rate is that of all epochs but the first one, and
evaluations are not counted. The ratio is phub-worker's images/s over PyTorch's in the same block:
the median of the blocks, with the smallest and the largest. The accuracy is that of the test images
after the last epoch. Images have a colour pattern of their class under other patterns and noise.

A third training in each block has no batches made ahead (data.batches_ahead 0). It says what input
and compute cost by themselves. "overlap" is a step's time with batches made ahead over the larger of
the two, and "sum" is what both together are over it.

PyTorch is the system's: `apt install python3-torch python3-torchvision`, and run this with
/usr/bin/python3. It needs two CPUs that nobody else uses; the default takes about ten minutes.

    bench/compare_training.py --images 1600 --epochs 4 --json

Exit status: 0, 1 something failed, 2 wrong usage.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/accuracy")]
from compare_input import CLASSES, Files, decoders, print_ratios, spread, torch_or_exit  # noqa: E402

SIDE, RATE, DECAY = 32, 0.05, 5e-4
CONFIG = """
model {{ name: "resnet20" classes: {classes} image {{ channels: 3 height: {side} }} }}
data {{ format: "folder" path: "{path}" flip: true {feed} }}
optimizer {{ rule: "nesterov" learning_rate: {rate} momentum: 0.9 weight_decay: {decay} }}
train {{ epochs: {epochs} batch: {batch} threads: 1 seed: {seed} metrics: "{metrics}" }}
"""


def make_images(torch, torchvision, folder, arguments):
    """Folders of JPEGs whose classes can be learnt."""
    generator = torch.Generator().manual_seed(1)
    patterns = torch.randn(CLASSES, 3, 4, 4, generator=generator)

    def enlarged(coarse, height, width):
        return torch.nn.functional.interpolate(coarse[None], (height, width), mode="bicubic")[0]
    for split, images in (("train", arguments.images), ("test", arguments.images // 4)):
        for number in range(images):
            height, width = (int(side) for side in torch.randint(*arguments.sides, (2,), generator=generator))
            own = enlarged(patterns[number % CLASSES], height, width)
            other = enlarged(torch.randn(3, 6, 6, generator=generator), height, width)
            noise = enlarged(torch.randn(3, height // 2 + 1, width // 2 + 1, generator=generator), height, width)
            pixels = (128 + 22 * own + 38 * other + 14 * noise).clamp(0, 255).to(torch.uint8)
            place = folder / split / f"class{number % CLASSES}"
            place.mkdir(parents=True, exist_ok=True)
            torchvision.io.write_jpeg(pixels, str(place / f"{number:05}.jpg"), quality=90)


def train_worker(arguments, folder, seed, ahead):
    metrics = folder / f"metrics-{ahead}.jsonl"
    config = folder / f"train-{ahead}.textproto"
    config.write_text(CONFIG.format(classes=CLASSES, side=SIDE, path=folder / "images", rate=RATE, decay=DECAY,
                                    epochs=arguments.epochs, batch=arguments.batch, seed=seed, metrics=metrics,
                                    feed="threads: 1" if ahead else "batches_ahead: 0"))
    metrics.unlink(missing_ok=True)
    done = subprocess.run([arguments.worker, "train", config, "--local"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_training.py: {done.stderr.strip()}")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    epochs = [line for line in lines if line["event"] == "epoch"]
    steps = [line for line in lines if line["event"] == "step" and line["epoch"] > 0]
    images = sum(epoch["images_per_second"] * epoch["seconds"] for epoch in epochs[1:])
    return {"rate": images / sum(epoch["seconds"] for epoch in epochs[1:]), "accuracy": 100 * epochs[-1]["test_accuracy"],
            "step": statistics.median(step["seconds"] for step in steps),
            "input": statistics.median(step["input_seconds"] for step in steps),
            "compute": statistics.median(step["seconds"] - step["input_seconds"] for step in steps)}


class TorchTraining:
    def __init__(self, torch, torchvision, arguments, folder, seed):
        from torch_resnet import ResNet  # needs PyTorch, which --help does not
        self.torch, self.arguments = torch, arguments
        torch.manual_seed(seed)
        names = decoders(torch, torchvision)
        decode = names.get("simplejpeg", names["torchvision"])
        transforms = torchvision.transforms

        class Numbered(Files):
            def __getitem__(self, index):
                return self.change(self.decode(self.files[index].read_bytes())), int(self.files[index].parent.name[5:])

        def files(split):
            return Numbered(torch, torchvision, sorted((folder / "images" / split).glob("*/*.jpg")), decode, SIDE)
        self.train, self.test = files("train"), files("test")
        self.test.change = transforms.Compose([
            transforms.Resize(round(SIDE / 0.875), antialias=True), transforms.CenterCrop(SIDE),
            *self.train.change.transforms[2:]])
        model = ResNet(20, classes=CLASSES).to(memory_format=torch.channels_last)
        self.model = torch.jit.script(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9, weight_decay=DECAY, nesterov=True)

    def loader(self, files, trains):
        return self.torch.utils.data.DataLoader(files, self.arguments.batch, shuffle=trains, drop_last=trains, num_workers=1,
                                                persistent_workers=True)

    def run(self):
        torch, images, seconds = self.torch, 0, 0.0
        loader = self.loader(self.train, True)
        for epoch in range(self.arguments.epochs):
            start = time.monotonic()
            for batch, labels in loader:
                self.optimizer.zero_grad(set_to_none=True)
                logits = self.model(batch.to(memory_format=torch.channels_last))
                torch.nn.functional.cross_entropy(logits, labels).backward()
                self.optimizer.step()
                images += len(labels) if epoch > 0 else 0
            seconds += time.monotonic() - start if epoch > 0 else 0.0
        self.model.eval()
        right = 0
        with torch.no_grad():
            for batch, labels in self.loader(self.test, False):
                right += int((self.model(batch).argmax(1) == labels).sum())
        return {"rate": images / seconds, "accuracy": 100 * right / len(self.test)}


def measure(arguments, folder):
    torch, torchvision = torch_or_exit()
    torch.set_num_threads(1)
    make_images(torch, torchvision, folder / "images", arguments)
    blocks = []
    for seed in range(1, arguments.blocks + 1):
        block = {"phub": train_worker(arguments, folder, seed, True), "nothing ahead": train_worker(arguments, folder, seed, False),
                 "torch": TorchTraining(torch, torchvision, arguments, folder, seed).run()}
        alone = block["nothing ahead"]
        block["ratio"] = block["phub"]["rate"] / block["torch"]["rate"]
        block["overlap"] = block["phub"]["step"] / max(alone["input"], alone["compute"])
        block["sum"] = (alone["input"] + alone["compute"]) / max(alone["input"], alone["compute"])
        block["input of compute"] = alone["input"] / alone["compute"]
        blocks.append(block)
    return {"images_per_second": {name: spread([block[name]["rate"] for block in blocks]) for name in ("phub", "nothing ahead", "torch")},
            "test_accuracy": {name: spread([block[name]["accuracy"] for block in blocks]) for name in ("phub", "torch")},
            **{name: spread([block[name] for block in blocks]) for name in ("ratio", "overlap", "sum", "input of compute")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", default=ROOT / "build/release/bin/phub-worker", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=3200, help="to train with; a quarter as many are the test's")
    parser.add_argument("--sides", type=int, nargs=2, default=(256, 513), metavar=("LOW", "BELOW"), help="pixels of a JPEG")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    arguments = parser.parse_args()
    if min(arguments.batch, arguments.blocks) < 1 or arguments.epochs < 2 or arguments.images < max(arguments.batch, 4 * CLASSES):
        parser.error(f"--batch and --blocks are at least 1, --epochs 2, and --images --batch and {4 * CLASSES}")
    if not 32 <= arguments.sides[0] < arguments.sides[1] <= 8192:
        parser.error("--sides: LOW is at least 32, BELOW above it and at most 8192")
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments, pathlib.Path(folder))
    if arguments.json:
        print(json.dumps(result))
        return
    for title, rows in (("images/s", result["images_per_second"]), ("% right", result["test_accuracy"])):
        for name, each in rows.items():
            print(f"{name:>18}  {each['median']:8.1f} {title:9} [{each['min']:.1f} .. {each['max']:.1f}]")
    print_ratios(result, ("ratio", "overlap", "sum", "input of compute"))


if __name__ == "__main__":
    main()

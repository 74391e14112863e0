#!/usr/bin/env python3
"""Times the input pipelines of phub-worker and of PyTorch in turn, and prints the ratio.

    bench/compare_input.py [--worker build/release/bin/phub-worker] [--threads 1]

Both make batches of 224 x 224 pixels from the same JPEGs, whose sides are 256 to 320 pixels: a
random part of each image, resized, mirrored or not, normalised to fp32. phub-worker reads them from
a packed file with N threads. PyTorch's DataLoader reads files with N worker processes, by each
decoder that is there: torchvision's decode_jpeg, and simplejpeg (`pip install --no-deps simplejpeg==1.7.2` with Debian's NumPy). The
ratio is phub-worker's images/s over the faster decoder's in the same block: the median of the
blocks, with the smallest and the largest.

A second ratio holds phub-worker's reading, decoding, cropping and resizing on one thread against the
decoding of whole images alone: libjpeg-turbo's, as simplejpeg or torchvision calls it.

The images are random: smooth colours under noise, about 21 KB each. PyTorch is the system's: `apt
install python3-torch python3-torchvision`, and run this with /usr/bin/python3. A quiet machine gives
a narrow spread; the default takes about two minutes.

    bench/compare_input.py --threads 2 --blocks 5 --json

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
SIDE, CLASSES = 224, 8
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CONFIG = """
model {{ name: "resnet18" classes: {classes} image {{ channels: 3 height: {side} }} }}
data {{ format: "packed" path: "{path}" flip: true }}
train {{ batch: {batch} }}
"""


def torch_or_exit():
    try:
        import torch
        import torchvision
    except ImportError:
        sys.exit("compare_input.py: this python has no PyTorch or no torchvision; apt install python3-torch "
                 "python3-torchvision and run it with /usr/bin/python3")
    return torch, torchvision


def make_images(torch, torchvision, folder, count, sides=(256, 321), quality=90):
    """Folders of JPEGs, `count` to train and a few to test."""
    generator = torch.Generator().manual_seed(1)
    for split, images in (("train", count), ("test", CLASSES)):
        for number in range(images):
            height, width = (int(side) for side in torch.randint(*sides, (2,), generator=generator))
            coarse = torch.randn(1, 3, 6, 6, generator=generator)
            smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0]
            noise = torch.randn(3, height // 2 + 1, width // 2 + 1, generator=generator)
            noise = torch.nn.functional.interpolate(noise[None], (height, width), mode="bilinear")[0]
            pixels = (128 + 55 * smooth + 12 * noise).clamp(0, 255).to(torch.uint8)
            place = folder / split / f"class{number % CLASSES}"
            place.mkdir(parents=True, exist_ok=True)
            torchvision.io.write_jpeg(pixels, str(place / f"{number:05}.jpg"), quality=quality)


def decoders(torch, torchvision):
    """Functions from a file's bytes to a uint8 tensor [channel][row][column], by name."""
    found = {"torchvision": lambda data: torchvision.io.decode_jpeg(
        torch.frombuffer(bytearray(data), dtype=torch.uint8), torchvision.io.ImageReadMode.RGB)}
    try:
        import simplejpeg
        found["simplejpeg"] = lambda data: torch.from_numpy(simplejpeg.decode_jpeg(data)).permute(2, 0, 1)
    except ImportError:
        print("compare_input.py: no simplejpeg here; torchvision's decoder is the only peer", file=sys.stderr)
    return found


class Files:
    """A data set of PyTorch's over JPEG files."""

    def __init__(self, torch, torchvision, files, decode, side=SIDE):
        transforms = torchvision.transforms
        self.files, self.decode = files, decode
        self.change = transforms.Compose([
            transforms.RandomResizedCrop(side, antialias=True), transforms.RandomHorizontalFlip(),
            transforms.ConvertImageDtype(torch.float32), transforms.Normalize(MEAN, DEVIATION)])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.change(self.decode(self.files[index].read_bytes())), index % CLASSES


def loader_rate(torch, files, arguments):
    """Images a second of a DataLoader, its start not counted."""
    loader = torch.utils.data.DataLoader(files, arguments.batch, shuffle=True, drop_last=True,
                                         num_workers=arguments.threads, persistent_workers=True)
    for _ in loader:  # starts the workers
        pass
    images, start = 0, time.monotonic()
    while time.monotonic() - start < arguments.seconds:
        for batch, _ in loader:
            images += len(batch)
    return images / (time.monotonic() - start)


def decoding_rate(files, decode, seconds):
    contents = [file.read_bytes() for file in files]
    images, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        decode(contents[images % len(contents)])
        images += 1
    return images / (time.monotonic() - start)


def worker_rates(arguments, config):
    done = subprocess.run(
        [arguments.worker, "data", "bench", config, "--threads", str(arguments.threads), "--seconds",
         str(arguments.seconds), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_input.py: {done.stderr.strip()}")
    rates = {row["stage"]: row["images_per_second"] for row in json.loads(done.stdout)["stages"]}
    return rates["view"], next(rate for stage, rate in rates.items() if "thread" in stage)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def print_ratios(result, names):
    for name in names:
        each = result[name]
        print(f"{name:>18}  {each['median']:8.2f}x          [{each['min']:.2f} .. {each['max']:.2f}]")


def measure(arguments, folder):
    torch, torchvision = torch_or_exit()
    torch.set_num_threads(1)
    make_images(torch, torchvision, folder / "images", arguments.images)
    packed = subprocess.run([arguments.worker, "data", "pack", folder / "images", folder / "packed"],
                            capture_output=True, text=True)
    if packed.returncode != 0:
        sys.exit(f"compare_input.py: {packed.stderr.strip()}")
    config = folder / "input.textproto"
    config.write_text(CONFIG.format(classes=CLASSES, side=SIDE, path=folder / "packed", batch=arguments.batch))
    files = sorted((folder / "images/train").glob("*/*.jpg"))
    names = decoders(torch, torchvision)
    rows = {name: [] for name in ("phub", "view", *names, *(f"{name} alone" for name in names))}
    for _ in range(arguments.blocks):
        view, rate = worker_rates(arguments, config)
        rows["phub"].append(rate)
        rows["view"].append(view)
        for name, decode in names.items():
            rows[name].append(loader_rate(torch, Files(torch, torchvision, files, decode), arguments))
            rows[f"{name} alone"].append(decoding_rate(files, decode, arguments.seconds))
    blocks = range(arguments.blocks)
    ratios = [rows["phub"][i] / max(rows[name][i] for name in names) for i in blocks]
    of_decoding = [rows["view"][i] / max(rows[f"{name} alone"][i] for name in names) for i in blocks]
    return {"threads": arguments.threads, "images_per_second": {name: spread(rows[name]) for name in rows},
            "ratio": spread(ratios), "view_of_decoding": spread(of_decoding)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", default=ROOT / "build/release/bin/phub-worker", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1, help="of phub-worker; PyTorch's worker processes")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=800, help="to make")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure of a block")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    arguments = parser.parse_args()
    if min(arguments.threads, arguments.batch, arguments.blocks) < 1 or arguments.images < arguments.batch:
        parser.error("--threads, --batch and --blocks are at least 1, and --images at least --batch")
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments, pathlib.Path(folder))
    if arguments.json:
        print(json.dumps(result))
        return
    for name, each in result["images_per_second"].items():
        print(f"{name:>18}  {each['median']:8.0f} images/s  [{each['min']:.0f} .. {each['max']:.0f}]")
    print_ratios(result, ("ratio", "view_of_decoding"))


if __name__ == "__main__":
    main()

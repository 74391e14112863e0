#!/usr/bin/env python3
"""Compares the levels of data.cache: a slow store, copies on a disk, decoded images in memory.

    bench/compare_cache.py [--worker build/release/bin/phub-worker] [--rate 200mbit]

A packed set of JPEGs, whose sides are 400 to 560 pixels (about as large as ImageNet's), lies on a web
server, in a network namespace whose link has the rate. phub-worker trains a tiny network on 224 x 224 pixels, so that input is the
bound, in three ways: without a cache (level 1), with copies on the disk (level 2), and with copies and
decoded images in shared memory (level 3). A way's rate is that of its epochs but the first one; blocks have
all three in turn. Ratios are over level 1 of the same block: medians, with the smallest and the
largest.

"disk" holds the reading of copies that are not in the page cache against reading the same contents in
the same order by pread alone: images/s over images/s, one thread each. Both read for --read-seconds,
which must be shorter than reading all of them takes.

It needs root for the namespace, PyTorch to make images (Debian's python3-torch and
python3-torchvision; run this with /usr/bin/python3), and two CPUs that nobody else uses. The default
takes about two minutes.

    bench/compare_cache.py --images 300 --blocks 1 --json

Exit status: 0, 1 something failed, 2 wrong usage.
"""
import argparse
import http.server
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from compare_input import SIDE, make_images, print_ratios, spread, torch_or_exit  # noqa: E402

CONFIG = """
model {{ file: "net.textproto" }}
data {{ format: "packed" path: "{path}" threads: {threads} {cache} }}
optimizer {{ rule: "sgd" learning_rate: 0.0001 }}
train {{ batch: 50 epochs: {epochs} threads: 1 metrics: "metrics.jsonl" }}
"""
NETWORK = f"""
image {{ channels: 3 height: {SIDE} }}
layer {{ name: "pool" global_average_pool {{}} }}
layer {{ name: "fc" inner_product {{ outputs: 8 }} }}
"""
STORE, PORT = "10.213.7.2", 8080
LEVELS = {"level 1": "", "level 2": 'cache {{ path: "{copies}" }}',
          "level 3": 'cache {{ path: "{copies}" memory_mib: {memory} }}'}


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Files with ranges of bytes, which Python's own server lacks."""
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet

    def do_GET(self):
        path = pathlib.Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        size = path.stat().st_size
        asked = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
        first = int(asked[0])
        last = min(int(asked[1]) if asked[1] else size - 1, size - 1)
        with path.open("rb") as file:
            file.seek(first)
            body = file.read(last - first + 1)
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{size}"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(folder):
    os.chdir(folder)
    http.server.ThreadingHTTPServer((STORE, PORT), Ranges).serve_forever()


class Store:
    """A web server behind a link of a rate; gone at the end."""

    def __init__(self, folder, rate):
        self.name, near, far = f"phub-store-{os.getpid()}", f"phubn{os.getpid() % 10000}", f"phubf{os.getpid() % 10000}"
        inside = ["ip", "netns", "exec", self.name]
        self.commands = [
            ["ip", "netns", "add", self.name],
            ["ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self.name],
            ["ip", "addr", "add", "10.213.7.1/24", "dev", near], ["ip", "link", "set", near, "up"],
            [*inside, "ip", "addr", "add", f"{STORE}/24", "dev", far],
            [*inside, "ip", "link", "set", far, "up"],
            [*inside, "tc", "qdisc", "add", "dev", far, "root", "tbf", "rate", rate, "burst", "64k",
             "latency", "50ms"]]
        self.server = None
        self.serving = [*inside, sys.executable, __file__, "--serve", str(folder)]

    def __enter__(self):
        try:
            for command in self.commands:
                subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            sys.exit(f"compare_cache.py: no namespace with a slow link can be made (run it as root): "
                     f"{getattr(error, 'stderr', None) or error}")
        self.server = subprocess.Popen(self.serving)
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.kill()
            self.server.wait()
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


def worker(arguments, folder, *words):
    done = subprocess.run([arguments.worker, *words], capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"compare_cache.py: {done.stderr.strip()}")
    return done.stdout


def config(arguments, folder, path, cache):
    text = cache.format(copies=folder / "copies", memory=arguments.memory_mib)
    (folder / "train.textproto").write_text(
        CONFIG.format(path=path, threads=arguments.threads, epochs=arguments.epochs, cache=text))
    return "train.textproto"


def rate_of(arguments, folder, path, cache):
    worker(arguments, folder, "train", config(arguments, folder, path, cache))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["event"] == "epoch"][1:]
    return sum(line["images_per_second"] for line in epochs) / len(epochs)


def forget(folder):
    """Nothing of the copies is in memory then."""
    for file in folder.glob("copies/*/*"):
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def contents_of(store):
    """Places and sizes of the copies, as worker/data/cache/store_format.h has them."""
    index = (store / "index").read_bytes()[32:]
    entries = (struct.unpack_from("<QI", index, at) for at in range(0, len(index), 24))
    return [(offset, size) for offset, size in entries if size]


def disk_ratio(arguments, folder, path):
    """Reads of copies over reads alone."""
    forget(folder)
    rows = json.loads(worker(
        arguments, folder, "data", "bench", config(arguments, folder, path, LEVELS["level 2"]), "--threads",
        "1", "--seconds", str(arguments.read_seconds), "--json"))["stages"]
    own = next(row["images_per_second"] for row in rows if row["stage"] == "read")
    store = max(folder.glob("copies/*-encoded"), key=lambda each: (each / "data").stat().st_size)
    places = sorted(contents_of(store))  # the first epoch's order, in which they were kept and are read
    forget(folder)
    data = os.open(store / "data", os.O_RDONLY)
    count, start = 0, time.monotonic()
    while time.monotonic() - start < arguments.read_seconds:
        offset, size = places[count % len(places)]
        os.pread(data, size, offset)
        count += 1
    alone = count / (time.monotonic() - start)
    os.close(data)
    return own / alone, own * statistics.mean(size for _, size in places) / 1e6


def measure(arguments, folder):
    torch, torchvision = torch_or_exit()
    make_images(torch, torchvision, folder / "pictures", arguments.images, (400, 561), 95)
    worker(arguments, folder, "data", "pack", "pictures", "served")
    (folder / "net.textproto").write_text(NETWORK)
    url = f"http://{STORE}:{PORT}"
    with Store(folder / "served", arguments.rate):
        for _ in range(200):
            if subprocess.run([arguments.worker, "data", "check", url, "--split", "test"],
                              capture_output=True).returncode == 0:
                break
        ratios = {"level 2 over 1": [], "level 3 over 1": [], "disk": []}
        rates, read = {name: [] for name in LEVELS}, []
        for _ in range(arguments.blocks):
            for name, cache in LEVELS.items():
                rates[name].append(rate_of(arguments, folder, url, cache))
            ratios["level 2 over 1"].append(rates["level 2"][-1] / rates["level 1"][-1])
            ratios["level 3 over 1"].append(rates["level 3"][-1] / rates["level 1"][-1])
            ratio, megabytes = disk_ratio(arguments, folder, url)
            ratios["disk"].append(ratio)
            read.append(megabytes)
    result = {name: spread(values) for name, values in ratios.items()}
    result["images_per_second"] = {name: statistics.median(values) for name, values in rates.items()}
    result["disk_megabytes_per_second"] = statistics.median(read)
    result["kilobytes_an_image"] = (folder / "served/train.phub").stat().st_size / arguments.images / 1e3
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=pathlib.Path, default=ROOT / "build/release/bin/phub-worker")
    parser.add_argument("--rate", default="200mbit", help="of the store's link, as tc writes it")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--memory-mib", type=int, default=3072)
    parser.add_argument("--read-seconds", type=float, default=0.05)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve)
    if min(arguments.images, arguments.epochs - 1, arguments.threads, arguments.blocks) < 1:
        parser.error("--images, --threads and --blocks are at least 1, --epochs at least 2")
    arguments.worker = arguments.worker.resolve()
    if not arguments.worker.exists():
        sys.exit(f"compare_cache.py: there is no {arguments.worker}; build it: cmake --build build/release "
                 "--target phub-worker")
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments, pathlib.Path(folder))
    if arguments.json:
        print(json.dumps(result))
        return
    print_ratios(result, ["level 2 over 1", "level 3 over 1", "disk"])
    for name, images in result["images_per_second"].items():
        print(f"{name:>18}  {images:8.0f} images/s")
    print(f"{'an image':>18}  {result['kilobytes_an_image']:8.0f} KB")
    print(f"{'copies from disk':>18}  {result['disk_megabytes_per_second']:8.0f} MB/s")


if __name__ == "__main__":
    main()

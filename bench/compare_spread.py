#!/usr/bin/env python3
"""Holds data.spread against its links: bytes and time of an epoch, and what of that compute hides.

    bench/compare_spread.py [--bin build/release/bin] [--workers 4,8] [--rate 40mbit]

Each worker sits in a network namespace of its own, behind a link that has the rate both ways. The
server's link has no limit. The set has noise as PNGs that nothing compresses, so that an image has
many bytes and is decoded fast. A plain socket in each namespace first finds the rate of the links
while all of them send and receive. For each number of workers, N, it then measures:

  bytes    what all workers receive in an epoch, without what the same training receives without
           data.spread, over the set's bytes x (N-1)/N
  time     the time of an epoch but the first one, of a network without work, over the time in
           which the links carry those bytes: each worker receives an N-th of them
  sums     the epochs whose samples are the same ones with the same bytes, of all epochs
  hidden   a network with work, on links whose rate makes a step's samples take half a step. Its step
           with data.spread is held against its step without: what it takes longer is exposed. This
           is one minus exposed over the time of the samples on the link

The first two have the bars 0.9 to 1.1, and hidden has the bar 0.95. Blocks have both trainings in
turn. Figures are medians, with the smallest and the largest.

It needs root for the namespaces, and two CPUs that nobody else uses. Workers share CPUs, so links are
slow: what they do for the network must be small against compute. The default takes about 20 minutes.

    bench/compare_spread.py --workers 3 --images 96 --blocks 1 --json

Exit status: 0, 1 something failed, 2 wrong usage.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from compare_input import spread  # noqa: E402

CONFIG = """
job: "{name}" workers: {workers}
model {{ file: "{network}.textproto" }}
data {{ format: "packed" path: "packed" threads: {threads} batches_ahead: {ahead} {spread} }}
optimizer {{ rule: "sgd" learning_rate: 0.0001 }}
train {{ batch: {batch} epochs: {epochs} max_steps: {steps} threads: 1 evaluate: false }}
"""
LAST = """layer { name: "pool" global_average_pool {} }
layer { name: "fc" inner_product { outputs: 2 } }
"""
LAYERS = "".join(f'layer {{ name: "conv{number}" convolution {{ channels: 32 kernel: 3 padding: 1 }} }}\n'
                 f'layer {{ name: "relu{number}" relu {{}} }}\n' for number in range(3))
NETWORKS = {"idle": "image { channels: 3 height: 16 }\n" + LAST, "busy": "image { channels: 3 height: 224 }\n" + LAYERS + LAST}
SIDE, CLASSES, DEADLINE, MIB = 160, 2, 600, 1024 * 1024
LINK_PORT, SERVER = 7070, "10.214.0.254"


def fail(text):
    sys.exit(f"compare_spread.py: {text}")


def png(numbers):
    """Noise that is stored as it is."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + numbers.randbytes(3 * SIDE) for _ in range(SIDE))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b""))


def make_set(arguments, folder):
    """The bytes of an image, which all of them have."""
    numbers = random.Random(1)
    for split, images in (("train", arguments.images), ("test", CLASSES)):
        for number in range(images):
            place = folder / "pictures" / split / f"class{number % CLASSES}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number:05}.png").write_bytes(png(numbers))
    for name, text in NETWORKS.items():
        (folder / f"{name}.textproto").write_text(text)
    packed = subprocess.run([arguments.bin / "phub-worker", "data", "pack", "pictures", "packed"], cwd=folder,
                            capture_output=True, text=True)
    if packed.returncode != 0:
        fail(packed.stderr.strip())
    return (place / f"{number:05}.png").stat().st_size


class Links:
    """A namespace for each worker and one for the server, on a switch; gone at the end."""

    def __init__(self, workers, frame):
        self.workers, self.frame, self.owner = workers, frame, f"phub-spread-{os.getpid()}"
        self.switch = f"{self.owner}-switch"
        self.spaces = [f"{self.owner}-{index}" for index in range(workers)]

    def __enter__(self):
        try:
            for space in (self.switch, *self.spaces, f"{self.owner}-server"):
                self.ip("netns", "add", space)
            self.ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            self.ip("-n", self.switch, "link", "set", "bridge", "up")
            for index, space in enumerate(self.spaces):
                self.plug(f"port{index}", space, self.address(index))
            self.plug("server", f"{self.owner}-server", SERVER)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            fail(f"no namespaces with links can be made (run it as root): {getattr(error, 'stderr', None) or error}")
        return self

    def __exit__(self, *_):
        for space in (*self.spaces, f"{self.owner}-server", self.switch):
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout

    @staticmethod
    def address(index):
        return f"10.214.0.{index + 1}"

    def inside(self, index):
        return ["ip", "netns", "exec", self.spaces[index]]

    def plug(self, port, space, address):
        mtu = ["mtu", str(self.frame)]
        self.ip("-n", self.switch, "link", "add", port, *mtu, "type", "veth", "peer", "name", "nic", *mtu, "netns", space)
        self.ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
        self.ip("-n", space, "addr", "add", f"{address}/24", "dev", "nic")
        for device in ("lo", "nic"):
            self.ip("-n", space, "link", "set", device, "up")

    def shape(self, bits):
        """Both ways of each worker's link have that rate."""
        for index, space in enumerate(self.spaces):
            for where, device in ((space, "nic"), (self.switch, f"port{index}")):
                subprocess.run(["tc", "-n", where, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{bits:.0f}bit",
                                "burst", "32kb", "latency", "100ms"], check=True, capture_output=True)

    def received(self):
        """Bytes that each worker has received."""
        rows = json.loads(self.ip("-n", self.switch, "-json", "-statistics", "link", "show"))
        sent = {row["ifname"]: row["stats64"]["tx"]["bytes"] for row in rows}
        return [sent[f"port{index}"] for index in range(self.workers)]

    def rate(self, seconds):
        """Bytes a second that a plain socket gets through each link while all send and receive."""
        ring = [subprocess.Popen([*self.inside(index), sys.executable, __file__, "--link",
                                  f"{self.address(index)} {self.address((index + 1) % self.workers)} {seconds}"],
                                 stdout=subprocess.PIPE, text=True) for index in range(self.workers)]
        rates = [float(process.communicate(timeout=DEADLINE)[0] or 0) for process in ring]
        if min(rates) == 0:
            fail("a plain socket got nothing through a link")
        return statistics.median(rates)

    @contextlib.contextmanager
    def server(self, binary):
        process = subprocess.Popen(
            ["ip", "netns", "exec", f"{self.owner}-server", binary, "--control", f"{SERVER}:7077", "--data", f"{SERVER}:0",
             "--cores", "1", "--allow-plaintext", "--tokens", "off", "--transports", "tcp", "--log-level", "error"],
            stdout=subprocess.PIPE, text=True)
        try:
            if "ready" not in process.stdout.readline():
                fail("the server did not start: its words are above")
            yield
        finally:
            process.kill()
            process.communicate()


def link_of(words):
    """One end of the ring: sends to the next one, and prints the bytes a second that the one before sends."""
    own, to, seconds = words.split()
    with socket.create_server((own, LINK_PORT)) as listener:
        listener.settimeout(30)
        for _ in range(300):
            with contextlib.suppress(OSError):
                out = socket.create_connection((to, LINK_PORT), 5)
                break
            time.sleep(0.02)
        into, _ = listener.accept()
    into.settimeout(10)
    end = time.monotonic() + float(seconds)

    def send():
        while time.monotonic() < end:
            out.sendall(bytes(65536))
        out.shutdown(socket.SHUT_WR)
    sender = threading.Thread(target=send)
    sender.start()
    start, count = time.monotonic() + float(seconds) / 4, 0  # it has its speed then
    while data := into.recv(65536):
        last = time.monotonic()
        count += len(data) if start <= last < end else 0
    sender.join()
    print(count / (end - start))


class Training:
    """Trains in all namespaces: what the workers wrote, and what they received."""

    def __init__(self, arguments, folder, links, image_bytes):
        self.arguments, self.folder, self.links = arguments, folder, links
        part = arguments.images * image_bytes / links.workers
        answers = 8 * arguments.threads * image_bytes * 1.1  # an eighth is for answers, one a thread
        self.spread = f"spread {{ memory_mib: {int((part * 1.1 + answers) / MIB) + 2} }}"
        self.runs, self.cpus = 0, sorted(os.sched_getaffinity(0))

    def run(self, network, is_spread, batch, epochs, steps=0):
        self.runs += 1
        name = f"run{self.runs}"
        (self.folder / f"{name}.textproto").write_text(CONFIG.format(
            name=name, workers=self.links.workers, network=network, threads=self.arguments.threads, batch=batch,
            ahead=self.arguments.batches_ahead, spread=self.spread if is_spread else "", epochs=epochs, steps=steps))
        before = self.links.received()
        workers = [subprocess.Popen(
            [*self.links.inside(index), "taskset", "-c", str(self.cpus[index % len(self.cpus)]),
             self.arguments.bin / "phub-worker", "train", f"{name}.textproto", "--server", f"{SERVER}:7077", "--index",
             str(index), "--metrics", f"{name}-{index}.jsonl"],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for index in range(self.links.workers)]
        said = [worker.communicate(timeout=DEADLINE)[1] for worker in workers]
        for worker, error in zip(workers, said):
            if worker.returncode != 0 or "data.spread" in error:
                fail(error.strip())
        received = sum(self.links.received()) - sum(before)
        lines = [[json.loads(line) for line in (self.folder / f"{name}-{index}.jsonl").read_text().splitlines()]
                 for index in range(self.links.workers)]
        return received, lines


def of_kind(lines, kind):
    return [[line for line in each if line["event"] == kind] for each in lines]


def equal_epochs(lines, images):
    """Epochs that have the first one's samples, each once; and all."""
    epochs = list(zip(*of_kind(lines, "samples")))
    sums = [sum(int(line["sum"], 16) for line in epoch) % 2 ** 64 for epoch in epochs]
    counts = [sum(line["own"] + line["peer"] + line["source"] for line in epoch) for epoch in epochs]
    return sum(each == sums[0] and count == images for each, count in zip(sums, counts)), len(epochs)


def epoch_seconds(arguments, lines):
    """Of an epoch but the first one. The last steps have their batches already, and are left out."""
    times = [[line["seconds"] for line in each] for each in of_kind(lines, "step")]
    steps = len(times[0]) // arguments.epochs
    return steps * statistics.median(statistics.mean(each[steps:-arguments.batches_ahead - 1]) for each in times)


def of_link(arguments, training, image_bytes, rate):
    """Bytes and times of epochs whose compute is nothing, over what the link needs."""
    workers = training.links.workers
    travels = arguments.images * image_bytes * (workers - 1) / workers  # in an epoch, in all
    figures = {"bytes": [], "time": []}
    equal, all_epochs = 0, 0
    for _ in range(arguments.blocks):
        other, _ = training.run("idle", False, arguments.batch, arguments.epochs)
        received, lines = training.run("idle", True, arguments.batch, arguments.epochs)
        figures["bytes"].append((received - other) / arguments.epochs / travels)
        figures["time"].append(epoch_seconds(arguments, lines) / (travels / workers / rate))
        same, count = equal_epochs(lines, arguments.images)
        equal, all_epochs = equal + same, all_epochs + count
    return {**{name: spread(values) for name, values in figures.items()}, "equal_epochs": equal, "epochs": all_epochs,
            "exchange_bytes_share": other / received, "epoch_seconds": travels / workers / rate}


WAITS = ("seconds", "input_seconds", "exchange_seconds")


def step_of(lines):
    """A step's seconds, and what of it waits for samples and for parameters: medians of the middle ones."""
    steps = of_kind(lines, "step")[0][4:-2]
    return tuple(statistics.median(line[name] for line in steps) for name in WAITS)


def of_hiding(arguments, training, image_bytes, efficiency):
    """Steps with and without data.spread, on links whose rate makes their samples take half a step."""
    links, batch = training.links, arguments.busy_batch
    travels = batch * image_bytes * (links.workers - 1) / links.workers  # in a step, to a worker
    epochs = -(-arguments.steps * batch * links.workers // arguments.images)

    def step(is_spread):
        return step_of(training.run("busy", is_spread, batch, epochs, arguments.steps)[1])
    alone = step(False)[0]
    bits = 8 * travels / (alone / 2) / efficiency
    links.shape(bits)
    rate = links.rate(arguments.link_seconds)
    figures = {name: [] for name in ("hidden", *WAITS, *(f"alone_{name}" for name in WAITS))}
    for _ in range(arguments.blocks):
        alone, together = step(False), step(True)
        figures["hidden"].append(1 - (together[0] - alone[0]) / (travels / rate))
        for number, name in enumerate(WAITS):
            figures[f"alone_{name}"].append(alone[number])
            figures[name].append(together[number])
    return {**{name: spread(values) for name, values in figures.items()}, "link_bytes_per_second": rate,
            "samples_seconds": travels / rate}


def measure(arguments, folder, workers):
    image_bytes = make_set(arguments, folder)
    with Links(workers, arguments.frame) as links, links.server(arguments.bin / "phub-server"):
        links.shape(arguments.bits)
        rate = links.rate(arguments.link_seconds)
        training = Training(arguments, folder, links, image_bytes)
        row = of_link(arguments, training, image_bytes, rate)
        row["hiding"] = of_hiding(arguments, training, image_bytes, 8 * rate / arguments.bits)
    return {"workers": workers, "link_bytes_per_second": rate, "image_bytes": image_bytes, **row}


def processor():
    words = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M))
    return f"{words.get('model name')}, family {words.get('cpu family')}, model {words.get('model')}, {os.cpu_count()} CPUs"


def print_table(rows):
    print(f"{'workers':>7} {'figure':>8} {'median':>8}  {'[smallest .. largest]':<24} of")
    for row in rows:
        hiding = row["hiding"]
        waits = ", ".join(f"{words} {1e3 * hiding[name]['median']:.1f}, {1e3 * hiding['alone_' + name]['median']:.1f}"
                          for words, name in zip(("step", "wait for samples", "for parameters"), WAITS))
        notes = {"bytes": f"{row['image_bytes']} bytes an image; the exchange is {row['exchange_bytes_share']:.1%} of all",
                 "time": f"{row['epoch_seconds']:.2f} s an epoch at {row['link_bytes_per_second'] / 1e6:.2f} MB/s",
                 "hidden": f"{1e3 * hiding['samples_seconds']:.0f} ms at {hiding['link_bytes_per_second'] / 1e6:.2f} MB/s; "
                           f"ms with, without: {waits}"}
        for name, each in (("bytes", row["bytes"]), ("time", row["time"]), ("hidden", hiding["hidden"])):
            area = f"[{each['min']:.3f} .. {each['max']:.3f}]"
            print(f"{row['workers']:>7} {name:>8} {each['median']:8.3f}  {area:<24} {notes[name]}")
        print(f"{row['workers']:>7} {'sums':>8} {row['equal_epochs']:8}  {'':<24} {row['epochs']} epochs")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--workers", default="4,8", help="numbers of workers")
    parser.add_argument("--rate", default="40mbit", help="of a worker's link for bytes and time, in mbit")
    parser.add_argument("--frame", type=int, default=9000, help="bytes of a frame on the links")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16, help="of a worker, in the network without work")
    parser.add_argument("--threads", type=int, default=8, help="data.threads")
    parser.add_argument("--batches-ahead", type=int, default=2, help="data.batches_ahead")
    parser.add_argument("--busy-batch", type=int, default=32, help="of a worker, in the network with work")
    parser.add_argument("--steps", type=int, default=14, help="of the network with work")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--link-seconds", type=float, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--link", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.link:
        return arguments
    rate = re.fullmatch(r"(\d+)mbit", arguments.rate)
    if not rate or int(rate[1]) == 0 or not re.fullmatch(r"\d+(,\d+)*", arguments.workers):
        parser.error("--rate is like 40mbit, and --workers like 4,8")
    arguments.bits = int(rate[1]) * 1e6
    arguments.workers = [int(count) for count in arguments.workers.split(",")]
    if not 1280 <= arguments.frame <= 30000:  # a burst of the links' shaping has 32 KB
        parser.error("--frame is 1280 to 30000 bytes")
    if not all(2 <= count <= 200 and arguments.images % (count * arguments.batch) == 0 for count in arguments.workers):
        parser.error("--workers are 2 to 200, and --images is a multiple of each x --batch: epochs are whole then")
    if arguments.steps < 8 or min(arguments.threads, arguments.blocks, arguments.busy_batch, arguments.batches_ahead) < 1:
        parser.error("--steps is at least 8, and --threads, --blocks, --busy-batch and --batches-ahead 1")
    steps = arguments.images // (max(arguments.workers) * arguments.batch)
    if (arguments.epochs - 1) * steps <= arguments.batches_ahead + 1:
        parser.error(f"--epochs are too few: each has {steps} steps, and those after the first must be more than "
                     f"{arguments.batches_ahead + 1}")
    arguments.bin = arguments.bin.resolve()
    for program in ("phub-worker", "phub-server"):
        if not (arguments.bin / program).exists():
            fail(f"there is no {arguments.bin / program}; build it: cmake --build build/release --target {program}")
    return arguments


def main():
    arguments = parse()
    if arguments.link:
        return link_of(arguments.link)
    rows = []
    for workers in arguments.workers:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(arguments, pathlib.Path(folder), workers))
    if arguments.json:
        print(json.dumps({"processor": processor(), "rows": rows}))
    else:
        print(processor())
        print_table(rows)


if __name__ == "__main__":
    main()

"""What is run on a machine with a GPU, stage by stage: the least risky first."""
import dataclasses
import pathlib
import sys

from steps import Step

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TORCH_MODES = ("eager", "graph", "compile", "reduce-overhead")
TORCH_WAYS = ("none", "optimizer", "hook", "gloo", "phub")
KERNELS, NETWORK, EXECUTOR = "cuda_kernels_test", "cuda_network_test", "cuda_device_executor_test"
ENGINES = "cuda_engines_test"
NETWORKS = {"lenet": "LeNet", "blocks": "blocks of every kind", "resnet20": "ResNet-20"}
MNIST = {"fp16": ("--loss-scale", 128, "--wire-type", "fp16"), "bf16": ("--compute-type", "bf16", "--wire-type", "bf16"),
         "dynamic": ("--loss-scale", "dynamic")}
EXECUTORS = {"steps": "Steps on a GPU*", "learns": "A GPU that keeps*", "overflow": "Gradients that overflow*",
            "exported": "Memory for adapters*", "stays": "Gradients that stay*"}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where things are there."""
    build: pathlib.Path       # bin/ and tests/
    results: pathlib.Path
    python: str               # with PyTorch
    batch: int = 256
    models: tuple = ("resnet50", "alexnet_bn", "vgg16", "googlenet")
    tune_seconds: int = 400

    @property
    def worker(self):
        return self.build / "bin/phub-worker"

    @property
    def engines(self):
        return self.results / "engines.jsonl"

    def test(self, name):
        return self.build / "tests" / name

    def description(self, model):
        return self.results / f"{model}.textproto"


def bench(place, name, model, *options, seconds=150, steps=50, batch=None, server=()):
    command = (place.worker, "bench", model, "--backend", "cuda", "--json", "--engine-cache",
               place.engines, "--batch", batch or place.batch, "--steps", steps, *options)
    return Step(name, command, seconds, server=server)


def sanity(place):
    """Is it alive: the machine, its libraries, each of our kernels."""
    yield Step("machine", ("bash", HERE / "machine.sh", place.build), 60)
    yield Step("attributes", (place.python, HERE / "attributes.py"), 60)
    yield Step("describes-itself", (place.test(NETWORK), "The device's own description"), 60)
    yield Step("kernels", (place.test(KERNELS), "-r", "compact"), 60)
    yield bench(place, "lenet", "lenet", "--fusion", "unfused", "--unrecorded", batch=64, steps=5)
    yield bench(place, "lenet-recorded", "lenet", batch=64, steps=20)


def training(place):
    """Does it train: LeNet on the bundled images, and phub.torch with the GPU's tensors."""
    server = (place.build / "bin/phub-server", "--control", "127.0.0.1:0", "--cores", 2)
    train = (place.worker, "train", ROOT / "configs/mnist.textproto", "--backend", "cuda", "--engine-cache",
             place.engines, "--epochs", 3)
    yield Step("mnist-local", (*train, "--local"), 60)
    for name, options in MNIST.items():
        one = " ".join(map(str, (*train, "--server", "{server}", "--workers", 2, *options)))
        yield Step(f"mnist-{name}", ("bash", "-c", f"{one} & {one}; first=$?; wait $! && exit $first"), 60, server=server)
    yield ranks(place, "torch-ranks-check", "check", seconds=120)


def ranks(place, name, *words, seconds):
    """Two ranks of phub.torch on the GPU, with a server."""
    command = (place.python, "-m", "phub.launch", "-n", 2, place.python, HERE / "torch_ranks.py", *words)
    return Step(name, command, seconds, {"PYTHONPATH": str(ROOT / "worker/torch"), "OMP_NUM_THREADS": "2",
                                         "PHUB_LIBRARY": str(place.build / "lib/libphub.so"),
                                         "PHUB_SERVER_PROGRAM": str(place.build / "bin/phub-server")})


def correctness(place):
    """Is it right: every step of networks, whole executors, the sanitizer."""
    for name, section in NETWORKS.items():
        yield Step(f"network-{name}", (place.test(NETWORK), "-r", "compact", "-c", section), 120)
    for name, test in EXECUTORS.items():
        yield Step(f"executor-{name}", (place.test(EXECUTOR), "-r", "compact", test), 120)
    for tool in ("memcheck", "racecheck"):
        yield Step(f"sanitizer-{tool}", ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9",
                                         place.test(KERNELS)), 180)


def tuning(place):
    """Which engines, and what is fused; goes on where it stopped. Then whether those are right."""
    model = place.models[0]
    common = dict(steps=5, seconds=120)
    yield bench(place, "unfused-unrecorded", model, "--fusion", "unfused", "--unrecorded", **common)
    yield bench(place, "fused-unrecorded", model, "--fusion", "fused", "--unrecorded", **common)
    yield bench(place, "untuned", model, "--fusion", "fused")
    yield Step("tune", (place.worker, "tune", model, "--batch", place.batch, "--engine-cache",
                        place.engines), place.tune_seconds)
    yield bench(place, "tuned", model)
    yield Step("engines", (place.test(ENGINES), "-r", "compact"), 300)


def speed(place):
    """Against PyTorch's best, and through a server."""
    model = place.models[0]
    yield bench(place, "alone", model)
    yield from torch(place, model)
    for cores in (4, 8):
        server = (place.build / "bin/phub-server", "--control", "127.0.0.1:0", "--cores", cores)
        for wire in ("fp16", "fp32"):
            yield bench(place, f"server-{wire}-{cores}", model, "--server", "{server}", "--wire-type",
                        wire, "--transport", "shm", server=server)
    for way in TORCH_WAYS:
        yield ranks(place, f"torch-ranks-{way}", "speed", "--way", way, "--description",
                    place.description(model), seconds=100)
    yield bench(place, "bf16", model, "--compute-type", "bf16")
    yield bench(place, "unfused", model, "--fusion", "unfused")
    for other in place.models[1:]:
        yield bench(place, other, other, steps=20)
        yield from torch(place, other, TORCH_MODES[:1])


def torch(place, model, modes=TORCH_MODES):
    for mode in modes:
        yield Step(f"torch-{model}-{mode}",
                   (place.python, HERE / "torch_step.py", place.description(model), "--mode",
                    mode, "--batch", place.batch, "--steps", 50), 180)


def profiles(place):
    """Where the time goes, step by step and kernel by kernel."""
    yield Step("profile", (place.worker, "profile", place.models[0], "--backend", "cuda", "--batch", place.batch,
                           "--compute-type", "fp16", "--engine-cache", place.engines), 120)
    step = (place.worker, "bench", place.models[0], "--backend", "cuda", "--engine-cache",
            place.engines, "--batch", place.batch, "--unrecorded")
    metrics = ("gpu__time_duration.sum,dram__bytes.sum,"
               "l1tex__throughput.avg.pct_of_peak_sustained_active")
    yield Step("kernel-times", ("ncu", "--clock-control", "none", "--csv", "--launch-skip", 900,
                                "--launch-count", 900, "--metrics", metrics, *step, "--steps", 2,
                                "--warm-up", 1), 300)
    yield Step("apply-backward", ("ncu", "--clock-control", "none", "--set", "full", "--kernel-name",
                                  "regex:apply_backward", "--launch-count", 4, *step, "--steps", 1,
                                  "--warm-up", 0), 150)


STAGES = {stage.__name__: stage for stage in (sanity, training, correctness, tuning, speed, profiles)}


def site_packages(python=sys.executable):
    """Of a Python with PyTorch, without starting it: its wheels have cuDNN and NCCL."""
    import subprocess
    find = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')"
    done = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False)
    origin = done.stdout.strip()
    return pathlib.Path(origin).parents[1] if origin else None

"""A folder as a run leaves it: what the programs really wrote, and what others put there."""

import os
import pathlib

import processes
from processes import run

OWNED = "document.title='owned'"
EVIL_NAME = f"<img src=x onerror={OWNED}>.json"
EVIL_TEXT = f"</title></style><script>{OWNED}</script>"

# What the page shows, by file.
SHOWN = {"curve.svg", "dollars.json", "evil.svg", "exchange.json", "lenet.json", "machine.json", "metrics.jsonl",
         "simulate.json", "step.svg", EVIL_NAME}
# What it does not, and a word of why.
NOT_SHOWN = {"cut.json": "neither JSON nor SVG", "empty.json": "empty", "fifo": "FIFO", "inner": "folder",
             "later.json": "pigeons", "notes.txt": "neither JSON nor SVG", "?.json": "empty"}


def make(folder):
    folder = pathlib.Path(folder)
    source = pathlib.Path(__file__).parents[2]

    def program(name, *arguments):
        done = run(processes.BIN / name, *map(str, arguments))
        assert done.returncode == 0, (name, arguments, done.stderr)
        return done.stdout

    def write(name, text):
        (folder / name).write_text(text, encoding="utf-8")

    exchange = program("phub-bench", "exchange", "--transport", "shm,tcp", "--workers", "2,3", "--elements", "8192",
                       "--iterations", "4", "--blocks", "2", "--json")
    write("exchange.json", exchange)
    write("dollars.json", program("phub-bench", "dollars", "--prices", source / "configs" / "prices.textproto",
                                  "--curve", "gpu-speed", "--sensitivity", "25", "--svg", folder / "curve.svg",
                                  "--json"))
    write("lenet.json", program("phub-worker", "profile", "lenet", "--batch", "8", "--steps", "3", "--json"))
    write("simulate.json", program("phub-bench", "simulate", folder / "lenet.json", "--workers", "2,64", "--json"))
    program("phub-bench", "simulate", folder / "lenet.json", "-N", "8", "--shape", "ring", "--policy", "wfbp",
            "--gantt", folder / "step.svg")
    program("phub-worker", "train", processes.CONFIG, "--local", "--epochs", "1",
            "--metrics", folder / "metrics.jsonl")
    write("machine.json", run("lscpu", "--json").stdout)

    write(EVIL_NAME, exchange.splitlines()[0].replace('"phub"', f'"{EVIL_TEXT}"'))
    write("evil.svg", '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="parent.'
          f'{OWNED}"><script>parent.{OWNED}</script><image href="http://127.0.0.1:9/x.png"/></svg>')
    write("cut.json", exchange.splitlines()[0][:100])
    write("later.json", '{"bench":"pigeons","seconds":1}\n')
    write("notes.txt", "Monday: all well.\n")
    write("empty.json", "")
    with open(os.path.join(os.fsencode(folder), b"\xff.json"), "wb"):
        pass
    os.mkfifo(folder / "fifo")
    (folder / "inner").mkdir()

"""Runs commands one after the other within a budget of seconds, and loses nothing of what they said.

Each step has a time limit and a process group of its own, which ends with it: a child that holds a
pipe open keeps nobody waiting, as output goes to files. After every step what is known is on the
disk; a step that worked is not run again, one that failed or was left out is.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import time

GRACE = 5          # seconds between SIGTERM and SIGKILL
LEAST = 15         # seconds that a step needs to be begun
WORKED, FAILED, LEFT_OUT = "worked", "failed", "left out"


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    command: tuple
    seconds: int = 120               # its limit
    environment: dict = dataclasses.field(default_factory=dict)  # beside what is inherited
    server: tuple = ()               # runs beside it; {server} in the command is its address

    def words(self):
        return [str(word) for word in self.command]


def end_group(process):
    """Ends the process with all that it started."""
    for kind, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        if kind == signal.SIGKILL:
            return


class Results:
    """In a folder: results.json, a log for each step, and logs.tar.gz of all."""

    def __init__(self, folder, copies):
        self.folder = pathlib.Path(folder)
        self.copies = copies             # where what comes back is copied to, or None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "results.json"
        self.all = json.loads(self.file.read_text()) if self.file.exists() else {"steps": {}}

    def worked(self, name):
        return self.all["steps"].get(name, {}).get("result") == WORKED

    def log_of(self, name):
        return self.folder / f"{name}.log"

    def note(self, name, entry):
        self.all["steps"][name] = entry
        self.save()

    def save(self):
        unfinished = self.file.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self.all, indent=1) + "\n")
        unfinished.replace(self.file)
        archive = self.folder / "logs.tar.gz"
        with tarfile.open(archive.with_suffix(".tmp"), "w:gz", compresslevel=5) as logs:
            for file in sorted(self.folder.iterdir()):
                if file.is_file() and file.suffix not in (".tmp", ".gz"):
                    logs.add(file, file.name)
        archive.with_suffix(".tmp").replace(archive)
        if self.copies is not None and self.copies != self.folder:
            for file in (self.file, archive, *self.folder.glob("*.jsonl")):
                shutil.copy(file, self.copies)


class Runner:
    def __init__(self, results, budget, again=False):
        self.results = results
        self.end = time.monotonic() + budget
        self.again = again

    def left(self):
        return self.end - time.monotonic()

    def run(self, step):
        """Whether it worked, now or before."""
        if self.results.worked(step.name) and not self.again:
            print(f"{'before':8} {'':5} {step.name}", flush=True)
            return True
        if self.left() < LEAST:
            self.results.note(step.name, {"result": LEFT_OUT, "said": "the time is over"})
            print(f"{LEFT_OUT:8} {'':5} {step.name}", flush=True)
            return False
        began = time.monotonic()
        entry = self.outcome(step)
        entry["seconds"] = round(time.monotonic() - began, 1)
        entry["command"] = step.words()
        self.results.note(step.name, entry)
        print(f"{entry['result']:8} {entry['seconds']:4.0f}s {step.name:28} {entry['said'][:100]}",
              flush=True)
        return entry["result"] == WORKED

    def outcome(self, step):
        environment = {**os.environ, **step.environment}
        server, address = None, ""
        try:
            if step.server:
                server, address = self.start_server(step, environment)
                if not address:
                    return {"result": FAILED, "said": "the server did not start"}
            words = [word.replace("{server}", address) for word in step.words()]
            return self.run_words(step, words, environment)
        finally:
            if server is not None:
                end_group(server)

    def run_words(self, step, words, environment):
        log = self.results.log_of(step.name)
        limit = min(step.seconds, self.left())
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output,
                                           stderr=subprocess.STDOUT, env=environment,
                                           start_new_session=True)
            except OSError as error:
                return {"result": FAILED, "said": str(error)}
            try:
                status = process.wait(limit)
                said = f"exit status {status}: " if status else ""
            except subprocess.TimeoutExpired:
                status, said = None, f"not done after {limit:.0f} s: "
            end_group(process)
        lines = log.read_text(errors="replace").strip().splitlines() or [""]
        entry = {"result": WORKED if status == 0 else FAILED, "said": said + lines[-1]}
        try:
            entry["json"] = json.loads(lines[-1])
        except ValueError:
            pass
        return entry

    def start_server(self, step, environment):
        """The process and its address, "" if it told none."""
        log = self.results.log_of(f"{step.name}-server")
        with log.open("wb") as output:
            server = subprocess.Popen([str(word) for word in step.server], stdin=subprocess.DEVNULL,
                                      stdout=output, stderr=subprocess.STDOUT, env=environment,
                                      start_new_session=True)
        end = time.monotonic() + min(30, self.left())
        while time.monotonic() < end and server.poll() is None:
            for word in log.read_text(errors="replace").split():
                if word.startswith("control="):
                    return server, word.removeprefix("control=")
            time.sleep(0.05)
        return server, ""

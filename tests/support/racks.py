"""Racks of real servers on this machine, which know each other by their configuration, and workers.

Set processes.BIN before use.
"""
import pathlib
import re
import signal
import tempfile
import unittest

import processes
from processes import DEADLINE, Server, find, free_port, until

CONFIG = processes.CONFIG.read_text(encoding="utf-8").replace(
    '"data/mnist10k"', f'"{processes.CONFIG.parent / "data" / "mnist10k"}"')


def free_ports(count):
    """That differ."""
    ports = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


class RacksTest(unittest.TestCase):
    """Servers in racks, and workers; all of them end with the test."""
    rack_transport = "tcp"  # between the racks' servers, as between hosts

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.servers = {}  # by rack, in order
        self.workers = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.workers:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()
        for servers in self.servers.values():
            for server in servers:
                if server:
                    server.close()

    def lay_out(self, racks="ab", servers=1, listed=None, more=""):
        """Addresses of `servers` in each of the racks; nothing starts. `listed`: the racks that the
        servers know, else all."""
        ports = iter(free_ports(len(racks) * servers))
        self.addresses = {rack: [f"127.0.0.1:{next(ports)}" for _ in range(servers)] for rack in racks}
        self.listed = listed or racks
        self.more = f'rack_transport: "{self.rack_transport}"\n{more}'
        self.servers = {rack: [None] * servers for rack in racks}

    def start_server(self, rack, place=0, *words, known_as=None, listed=None, servers=None, more="",
                     cores=2):
        """`known_as`: the rack that it says it is in; `listed`: the racks that it knows; `servers`: by
        rack, of those that it knows other servers of."""
        known = self.addresses | (servers or {})
        entries = "".join(
            f'  racks {{ name: "{name}" servers: {list(known[name])} }}\n'.replace("'", '"')
            for name in listed or self.listed)
        path = self.folder / f"server-{rack}{place}.textproto"
        path.write_text(f'rack: "{known_as or rack}"\ncontrol_address: "{self.addresses[rack][place]}"\n'
                        f'directory {{\n{entries}}}\n{self.more}{more}', encoding="utf-8")
        with open(self.folder / f"log-{rack}{place}", "w", encoding="utf-8") as log:
            server = Server("--config", path, *words, control=self.addresses[rack][place], log=log,
                            level="info", cores=cores)
        self.servers[rack][place] = server
        return server

    def start_racks(self, racks="ab", servers=1, more="", cores=None):
        """`cores`: by rack, of each of its servers."""
        self.lay_out(racks, servers, more=more)
        for rack in racks:
            for place in range(servers):
                self.start_server(rack, place, cores=(cores or {}).get(rack, 2))

    def log(self, rack, place=0):
        return (self.folder / f"log-{rack}{place}").read_text(encoding="utf-8")

    def config(self, **fields):
        """A worker's configuration: configs/mnist.textproto, but for these fields of the top level,
        and `rule`, and `train` and `security`, which are blocks."""
        text = CONFIG
        if "rule" in fields:
            text = text.replace('"momentum"', f'"{fields.pop("rule")}"', 1)
        if "train" in fields:
            text = text.replace("train {", "train { " + fields.pop("train"), 1)
        block = fields.pop("security", "")
        text += f"security {{ {block} }}\n" if block else ""
        text += "".join(f"{name}: {value}\n" for name, value in fields.items())
        path = self.folder / f"worker{len(list(self.folder.iterdir()))}.textproto"
        path.write_text(text, encoding="utf-8")
        return path

    def start_worker(self, rack, index, racks, *more, config=None, transport="tcp"):
        """Worker `index` of the job, at the servers of `rack`. `racks`: "a:2,b:2"."""
        addresses = [word for address in self.addresses[rack][1:] for word in ("--server", address)]
        count = sum(int(part.split(":")[1]) for part in racks.split(","))
        first = Place(self.addresses[rack][0])
        process = processes.worker(first, index, count, transport, *addresses,
                                   *(("--racks", racks) if "," in racks else ()), *more, config=config)
        self.workers.append(process)
        return process

    def start_job(self, racks, *more, checkpoint=None, config=None, transport="tcp"):
        """All workers of a job, by rack. Worker 0 writes the checkpoint."""
        started, index = {}, 0
        for part in racks.split(","):
            rack, count = part.split(":")
            started[rack] = []
            for _ in range(int(count)):
                words = ("--checkpoint", checkpoint) if checkpoint and index == 0 else ()
                started[rack].append(self.start_worker(rack, index, racks, *more, *words,
                                                       config=config, transport=transport))
                index += 1
        return started

    def finish(self, started):
        """These end well; what worker 0 said."""
        said = [process.communicate(timeout=DEADLINE) for process in all_of(started)]
        for process, (_, error) in zip(all_of(started), said):
            self.assertEqual(process.returncode, 0, error)
        return said[0][0]

    def train(self, racks, *more, name, **how):
        """The bytes of worker 0's checkpoint, and what it said."""
        checkpoint = self.folder / f"{name}.safetensors"
        said = self.finish(self.start_job(racks, "--job", name, *more, checkpoint=checkpoint, **how))
        return checkpoint.read_bytes(), said

    def errors(self, started):
        """What they said when they failed, each within the deadline."""
        said = []
        for process in all_of(started):
            said.append(process.communicate(timeout=DEADLINE)[1])
            self.assertIn(process.returncode, (1, 2), said[-1])
        return said

    def all_say(self, started, pattern):
        for error in self.errors(started):
            self.assertRegex(error, pattern)

    def wait_until_it_trains(self, job="mnist", rounds=3):
        for servers in self.servers.values():
            for server in servers:
                until(lambda server=server: rounds_of(server, job) > rounds, f"{job} trains")


class Place:
    """A server's address, whether or not it is there."""

    def __init__(self, control):
        self.control = control


def all_of(started):
    if isinstance(started, dict):
        return [process for processes_of in started.values() for process in processes_of]
    return list(started)


def rounds_of(server, job):
    done = processes.run(processes.BIN / "phubctl", "--server", server.control, "--json", "job",
                         "inspect", job)
    if done.returncode != 0:
        return 0
    return int(find(find(processes.json.loads(done.stdout), "statistics"), "rounds") or 0)


def accuracy(said):
    """Of the test images, in percent, as worker 0 said it last."""
    return float(re.findall(r"test accuracy ([0-9.]+) %", said)[-1])

"""Clipping by global norm with a job of two servers of two cores each, by real processes.

Usage: clipping_test.py BIN
"""
import json
import pathlib
import signal
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, JobTest, PATIENT, Server, temporary_folder, until  # noqa: E402

WORKERS = 2
STEPS = "25"


def tensors(path):
    """Of a safetensors file of fp32: every number, by name."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    result = {}
    for name, tensor in json.loads(data[8:8 + size]).items():
        if name == "__metadata__" or tensor["dtype"] != "F32":
            continue
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        result[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return result


class ClippingTest(JobTest):
    server_options = PATIENT

    def setUp(self):
        super().setUp()
        self.folder = temporary_folder(self)
        self.servers = [self.server, self.another(*PATIENT)]

    def another(self, *options):
        server = Server(*options)
        self.addCleanup(server.close)
        return server

    def config(self, clip_norm):
        path = self.folder / f"worker-{clip_norm}.textproto"
        if path.exists():  # another worker may be reading it
            return path
        text = processes.CONFIG.read_text().replace(
            '"data/mnist10k"', f'"{processes.CONFIG.parent / "data" / "mnist10k"}"')
        path.write_text(text.replace("optimizer {", f"optimizer {{ clip_norm: {clip_norm}", 1))
        return path

    def begin(self, servers, transport, *more, clip_norm=0.5):
        also = [word for server in servers[1:] for word in ("--server", server.control)]
        started = [processes.worker(servers[0], index, WORKERS, transport, *also, *more,
                                    config=self.config(clip_norm)) for index in range(WORKERS)]
        self.workers += started
        return started

    def checkpoint(self, name, servers, transport, **options):
        """What was trained in some steps."""
        file = self.folder / name
        self.finish(self.begin(servers, transport, "--job", name, "--max-steps", STEPS, "--checkpoint",
                               file, **options))
        return file

    def test_two_servers_clip_as_one_does_over_every_transport_and_encrypted(self):
        over_shm = self.checkpoint("shm", self.servers, "shm")
        over_tcp = self.checkpoint("tcp", self.servers, "tcp")
        self.assertEqual(over_shm.read_bytes(), over_tcp.read_bytes())
        security = self.folder / "server.textproto"
        security.write_text('heartbeat_deadline_ms: 600000 security { tokens: "off" encrypt_data: true }')
        sealed = [self.another("--config", security) for _ in range(2)]
        encrypted = self.checkpoint("encrypted", sealed, "tcp")
        self.assertEqual(encrypted.read_bytes(), over_tcp.read_bytes())
        for server in (*self.servers, *sealed):
            self.assertEqual(set(server.drops().values()), {0})

        # The norm's last bits are another order's, and clipping is not nothing.
        one = tensors(self.checkpoint("one", self.servers[:1], "tcp"))
        unclipped = tensors(self.checkpoint("unclipped", self.servers[:1], "tcp", clip_norm=1e6))
        both = tensors(over_tcp)
        self.assertEqual(set(one), set(both))
        apart = {name: max(map(lambda a, b: abs(a - b), one[name], both[name])) for name in one}
        self.assertLess(max(apart.values()), 1e-4, apart)
        moved = max(max(map(lambda a, b: abs(a - b), one[name], unclipped[name])) for name in one)
        self.assertGreater(moved, 1e-3)

    def test_votes_and_clipping_go_together_over_two_servers(self):
        started = self.begin(self.servers, "auto", "--job", "voted", "--max-steps", STEPS,
                             "--loss-scale", "dynamic", "--wire-type", "fp16")
        self.finish(started)
        for server in self.servers:
            self.assertEqual(set(server.drops().values()), {0})

    def test_a_worker_that_is_killed_ends_the_job_at_both_servers_by_name(self):
        for transport in ("shm", "tcp"):
            name = f"killed-{transport}"
            keeps, dies = self.begin(self.servers, transport, "--job", name)
            until(lambda: all(f'"{name}"' in server.text("job", "list") for server in self.servers),
                  "the job is there")
            until(lambda: int(processes.find(self.servers[1].ctl("job", "inspect", name), "rounds")
                              or 0) > 5, "it trains")
            dies.send_signal(signal.SIGKILL)
            _, error = keeps.communicate(timeout=DEADLINE)
            self.assertNotEqual(keeps.returncode, 0)
            self.assertIn("worker 1", error)
            dies.communicate()


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)

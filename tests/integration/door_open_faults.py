#!/usr/bin/env python3
"""Faults at the door that are proved and not mended: each case here FAILS. Not part of the test run.
Usage: door_open_faults.py BIN"""
import pathlib
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import processes  # noqa: E402
import strangers  # noqa: E402
from processes import DEADLINE, Server  # noqa: E402

processes.BIN = pathlib.Path(sys.argv.pop(1))


def frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def head(method):
    """Of a call, HPACK without its tables."""
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "x",
              "content-type": "application/grpc", "te": "trailers"}
    return b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) +
                    value.encode() for name, value in fields.items())


class Caller:
    """HTTP/2 by hand: a connection of which one call has succeeded."""

    def __init__(self, address):
        self.stream = socket.create_connection(address, timeout=5)
        self.window, self.next = 65_535, 3
        self.stream.sendall(strangers.PREFACE + strangers.SETTINGS +
                            frame(1, 4, 1, head("/phub.control.Admin/ListJobs")) +
                            frame(0, 1, 1, bytes(5)))
        while self.read()[:2] != (1, 1):  # the trailers
            pass

    def read(self):
        """The type of the next frame, and whether it ends its call."""
        front = self.whole(9)
        body = self.whole(int.from_bytes(front[:3], "big"))
        if front[3] == 8 and front[5:9] == bytes(4):
            self.window += int.from_bytes(body, "big")
        if front[3] == 4 and not front[4] & 1:
            self.stream.sendall(frame(4, 1, 0, b""))
        return front[3], front[4] & 1

    def whole(self, count):
        got = b""
        while len(got) < count:
            more = self.stream.recv(count - len(got))
            if not more:
                raise ConnectionResetError
            got += more
        return got

    def half_call(self, method, count):
        message = b"\0" + struct.pack(">I", 120_000) + b"x" * (count - 5)
        self.stream.sendall(frame(1, 4, self.next, head(method)))
        for at in range(0, len(message), 15_000):
            part = message[at:at + 15_000]
            while self.window < len(part):
                self.read()
            self.window -= len(part)
            self.stream.sendall(frame(0, 0, self.next, part))
        self.next += 2


class Faults(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)

    def caller(self):
        caller = Caller(strangers.address_of(self.server.control))
        self.addCleanup(caller.stream.close)
        return caller

    def test_half_messages_of_a_known_caller_take_no_memory_that_others_need(self):
        """A tenant's token is enough: gRPC's one GiB is everybody's, and known connections are
        not counted to tenants (control_service.cc kBytesInWork, control_listener.cc know)."""
        before = self.server.resident()
        for _ in range(60):
            caller = self.caller()
            for _ in range(90):
                caller.half_call("/phub.control.Rendezvous/Heartbeat", 60_000)
        self.assertLess(self.server.resident() - before, 200 << 10)  # KiB

    def test_a_join_whose_messages_do_not_come_is_ended(self):
        """control_service_join.cc, JoinCall: nothing bounds the time between its messages, and what
        has come stays, up to 1 GiB a tenant."""
        caller = self.caller()
        caller.half_call("/phub.control.Rendezvous/Join", 10)
        caller.stream.settimeout(70)
        try:
            while caller.read() != (1, 1):
                pass
        except TimeoutError:
            self.fail("the join still waits after 70 s")

    def test_garbage_from_one_address_does_not_hold_up_joins_from_another(self):
        """door.cc: one budget for all addresses, so all wait in the system's queue, first come
        first served: at 700 connections a second a join takes 2 to 16 s in place of 0.4."""
        def join(name):
            start = time.monotonic()
            worker = processes.worker(self.server, 0, 1, "tcp", "--max-steps", "2", "--job", name)
            _, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, error)
            return time.monotonic() - start

        quiet = join("quiet")
        flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(self.server.data),
                                  strangers.hello(strangers.random.Random(1), version=1).hex()])
        self.addCleanup(flood.wait)
        self.addCleanup(flood.kill)
        time.sleep(3)
        beside = [join(f"beside-{i}") for i in range(3)]
        self.assertLess(max(beside), 4 * quiet + 1, (quiet, beside))


FLOOD = """
import collections, socket, sys, time
kept = collections.deque(maxlen=200)
while True:
    stream = socket.socket()
    stream.bind(("127.0.0.7", 0))
    stream.setblocking(False)
    stream.connect_ex(("127.0.0.1", int(sys.argv[1])))
    try:
        stream.send(bytes.fromhex(sys.argv[2]))
    except OSError:
        pass
    kept.append(stream)
    time.sleep(0.0005)
"""


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Strangers at a server's ports, on this host: connections that are wrong in every way.

Usage: strangers.py --control HOST:PORT --data PORT --pid PID [--http HOST:PORT] --count N
                    [--rate N] [--held N] [--seed N]

Makes N connections, one way after the other, and keeps the last `held` of them open until the end.
Prints a line of JSON: how many of each way, the seconds, its own seconds of CPU.
"""
import argparse
import array
import collections
import json
import os
import pathlib
import random
import re
import socket
import ssl
import struct
import time

PATIENCE = 0.3  # for a reply that a way waits for
HELLO = struct.Struct("<IIQIIIIQ16sII")
MAGIC, VERSION, TCP, SHM = 0x48424850, 3, 0, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"


def hello(rng, magic=MAGIC, version=VERSION, kind=TCP, job=1):
    return HELLO.pack(magic, version, job, 1, rng.randrange(8), rng.randrange(4), 64, 4096,
                      rng.randbytes(16), kind, 0) + rng.randbytes(32)  # and a mark


def silent(_stream, _rng):
    """Says nothing."""


def reset(stream, _rng):
    """Is reset as soon as it is there."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def garbage(stream, rng):
    stream.sendall(rng.randbytes(rng.randrange(1, 4096)))


def web(stream, _rng):
    stream.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


def half_hello(stream, rng):
    stream.sendall(hello(rng)[:20])


def old_hello(stream, rng):
    stream.sendall(hello(rng, version=1))


def wrong_proof(stream, rng):
    stream.sendall(hello(rng, job=rng.randrange(1, 99)))
    stream.recv(16)
    stream.sendall(rng.randbytes(32))
    stream.recv(48)


def no_proof(stream, rng):
    stream.sendall(hello(rng))
    stream.recv(16)


def with_descriptors(stream, rng):
    fds = array.array("i", [0] * 200)
    stream.sendmsg([hello(rng, kind=SHM)[:30]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


def proof_with_descriptors(stream, rng):
    stream.sendall(hello(rng, kind=SHM))
    stream.recv(16)
    fds = array.array("i", [0] * 200)
    stream.sendmsg([rng.randbytes(32)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])


def half_tls(stream, rng):
    stream.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(40))


def tls(stream, _rng):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.wrap_socket(stream, do_handshake_on_connect=True).close()


def half_preface(stream, _rng):
    stream.sendall(PREFACE[:10])


def settled(stream, _rng):
    """HTTP/2 that is right, and then nothing."""
    stream.sendall(PREFACE + SETTINGS)


def bad_frames(stream, rng):
    stream.sendall(PREFACE + SETTINGS + rng.randbytes(500))


def slow_head(stream, _rng):
    stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ")


def long_head(stream, _rng):
    stream.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000)


ANYWHERE = [silent, reset, garbage]
WAYS = {
    "data": ANYWHERE + [web, half_hello, old_hello, no_proof, wrong_proof],
    "shm": [silent, garbage, half_hello, wrong_proof, with_descriptors, proof_with_descriptors],
    "control": ANYWHERE + [web, half_tls, tls, half_preface, settled, bad_frames],
    "http": ANYWHERE + [slow_head, long_head, half_tls],
}


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


def shm_socket(pid):
    """The server's unix socket in the abstract namespace, None without shm."""
    found = re.search(rf"@(phub-{pid}-\d+)", pathlib.Path("/proc/net/unix").read_text())
    return "\0" + found[1] if found else None


def targets(control, data, pid, http=None):
    places = {"control": address_of(control), "data": ("127.0.0.1", data), "shm": shm_socket(pid)}
    if http:
        places["http"] = address_of(http)
    return {port: place for port, place in places.items() if place}


def connect(place):
    if isinstance(place, str):
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(PATIENCE)
        stream.connect(place)
        return stream
    return socket.create_connection(place, timeout=PATIENCE)


def storm(places, count, rate=None, held=256, seed=1):
    """{"data silent": n, ...} of what was tried, "not let in" among them."""
    rng = random.Random(seed)
    ways = [(port, way) for port in places for way in WAYS[port]]
    kept = collections.deque(maxlen=held)
    tried = collections.Counter()
    start = time.monotonic()
    for number in range(count):
        port, way = ways[number % len(ways)]
        try:
            stream = connect(places[port])
        except OSError:
            tried["not let in"] += 1
            continue
        try:
            way(stream, rng)
        except (OSError, ValueError):  # it closed while we were still talking
            pass
        tried[f"{port} {way.__name__}"] += 1
        if len(kept) == held:
            kept.popleft().close()
        kept.append(stream)
        if rate:
            time.sleep(max(0.0, start + (number + 1) / rate - time.monotonic()))
    for stream in kept:
        stream.close()
    return dict(tried)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", required=True)
    parser.add_argument("--data", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--http")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--held", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    start = time.monotonic()
    tried = storm(targets(words.control, words.data, words.pid, words.http), words.count,
                  words.rate, words.held, words.seed)
    times = os.times()
    print(json.dumps({"tried": tried, "seconds": time.monotonic() - start,
                      "cpu_seconds": times.user + times.system}), flush=True)


if __name__ == "__main__":
    main()

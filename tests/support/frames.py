"""HTTP/2 frames made by hand, and floods of them that no client of gRPC's would send."""
import select
import socket
import struct
import threading
import time

IP_BIND_ADDRESS_NO_PORT = 24  # linux/in.h
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM = ACK = 1
END_HEADERS = 4


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def head(method):
    """Of a call, HPACK without its tables."""
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "x",
              "content-type": "application/grpc", "te": "trailers"}
    return b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) +
                    value.encode() for name, value in fields.items())


CALL = head("/phub.control.Admin/ListJobs")
GREETING = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)


def calls(count, ends):
    return b"".join(frame(HEADERS, END_HEADERS, 2 * number + 1, CALL) + ends(2 * number + 1)
                    for number in range(count))


def resets():
    """Calls that are given up as soon as they have begun."""
    return GREETING + calls(30_000, lambda stream: frame(RESET, 0, stream, bytes(4)))


def endless_head():
    """One header block that goes on: 32 MiB of small fields."""
    field = b"\0\x04name\x7f\x87\x01" + b"v" * 262
    body = field * (16_384 // len(field))
    return (GREETING + frame(HEADERS, 0, 1, CALL) + frame(CONTINUATION, 0, 1, body) * 2048)


def unacknowledged_calls():
    """As many calls as fit, by a client that has not heard how many it may have."""
    return PREFACE + frame(SETTINGS, 0, 0) + calls(30_000, lambda _: b"")


def pings():
    """Each wants a reply; nobody reads them."""
    return GREETING + frame(PING, 0, 0, bytes(8)) * 350_000


def settings():
    return GREETING + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535)) * 350_000


def crumbs():
    """Requests in frames of one byte."""
    one = frame(HEADERS, END_HEADERS, 1, CALL) + frame(DATA, 0, 1, b"\0" + struct.pack(">I", 120_000))
    return GREETING + one + frame(DATA, 0, 1, b"x") * 100_000


def half_requests():
    """Requests that are announced and do not come whole, of 60 KiB each."""
    begin = b"\0" + struct.pack(">I", 120_000)
    return GREETING + b"".join(
        frame(HEADERS, END_HEADERS, stream, CALL) + frame(DATA, 0, stream, begin) +
        frame(DATA, 0, stream, b"x" * 15_000) * 4 for stream in range(1, 400, 2))


def idle_frames():
    """Frames of a kind that nobody knows, empty ones, and priorities."""
    some = frame(0x42, 0, 0, b"") + frame(2, 0, 1, bytes(5)) + frame(DATA, 0, 1, b"")
    return GREETING + frame(HEADERS, END_HEADERS, 1, CALL) + some * 100_000


FLOODS = (resets, endless_head, unacknowledged_calls, pings, settings, crumbs, half_requests,
          idle_frames)


class Flood(threading.Thread):
    """Sends all of the bytes on each of its connections, and reads nothing. A connection is over when
    it was sent all, or when the server ended it, or when the server has taken nothing from any for
    `stall` seconds. New connections follow until `seconds` have passed. They come from another address
    than the test's own then: a server lets nobody in for a while from where so many have failed."""

    def __init__(self, address, count, words, wrap=None, seconds=0, stall=3):
        super().__init__(daemon=True)
        self.source = ("127.0.0.2", 0) if seconds else None
        self.address, self.count, self.words, self.wrap = address, count, words, wrap
        self.seconds, self.stall, self.sent, self.streams = seconds, stall, 0, []
        self.open()

    def connect(self):
        stream = socket.socket()
        stream.settimeout(60)
        if self.source:
            # The port is chosen at connect, so that ports of other connections may be used again.
            stream.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            stream.bind(self.source)
        stream.connect(self.address)
        return stream

    def open(self):
        while len(self.streams) < self.count:
            stream = self.connect()
            stream = self.wrap(stream) if self.wrap else stream
            stream.setblocking(False)
            self.streams.append(stream)

    def run(self):
        end = time.monotonic() + self.seconds
        self.storm()
        while time.monotonic() < end:
            self.close()
            try:
                self.open()
            except OSError:  # the server takes no more of them for now
                pass
            self.storm()

    def storm(self):
        at = {stream: 0 for stream in self.streams}
        last = time.monotonic()
        while at and time.monotonic() - last < self.stall:
            _, ready, _ = select.select([], list(at), [], 0.1)
            for stream in ready:
                try:
                    sent = stream.send(self.words[at[stream]:at[stream] + 65_536])
                except (BlockingIOError, InterruptedError):
                    continue
                except OSError as error:  # also TLS that waits
                    if "WANT" in type(error).__name__.upper() + str(error).upper():
                        continue
                    del at[stream]
                    continue
                last = time.monotonic()
                self.sent += sent
                at[stream] += sent
                if at[stream] == len(self.words):
                    del at[stream]

    def close(self):
        while self.streams:
            self.streams.pop().close()

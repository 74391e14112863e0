"""Whom a rank of the backend "phub" believes, and at which address the others reach it.

Usage: peers_test.py LIBRARY BIN
"""
import errno
import os
import socket
import sys
import time
import unittest
import unittest.mock

import launched
from launched import DEADLINE, together

try:
    import torch
    import torch.distributed as dist
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub.torch.distributed  # noqa: E402
from phub.torch.distributed import _addresses, _board, _group, _messages, _peers, _trust  # noqa: E402
from torch_cases import RANK  # noqa: E402


def begin():
    dist.init_process_group("phub")


def fails(call, *texts, kind=RuntimeError):
    try:
        call()
    except kind as error:
        assert all(text in str(error) for text in texts), error
    else:
        raise AssertionError(f"it did not fail: {texts}")


def strangers():
    """A stranger who knows all that is in the store, and no more, is sent away. Nothing else changes."""
    begin()
    there = torch.zeros(1)
    if RANK == 0:
        dist.recv(there, 1)
        group = dist.distributed_c10d._get_default_group()
        board = group._peers._board._board
        port, host, _ = board.read("peer 0", 60).split(" ")[1:]
        hello = _peers._HELLO.pack(1, bytes(32))
        known = bytes.fromhex(board.read("secret of the peers", 0) or "")  # which earlier versions have there
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n" * 10, hello, hello + bytes(64), known + bytes([1, 0, 0, 0])):
            with socket.create_connection((host, int(port))) as stranger:
                try:
                    stranger.sendall(said)
                    stranger.shutdown(socket.SHUT_WR)
                    answer = b""
                    while more := stranger.recv(1000):
                        answer += more
                    assert len(answer) in (0, 96), answer  # a nonce and a signature, for a hello
                except OSError as error:  # who is sent away at once finds the connection reset at any of the three
                    assert error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN), error
        dist.recv(there, 1)
    else:
        dist.send(there, 0)
        dist.send(there, 0)
    dist.barrier()


def forgeries():
    """What somebody else writes into the store is not believed."""
    begin()
    later = dist.new_group([0, 1])
    dist.barrier()
    forged = "not written by a rank of the group"
    own = dist.distributed_c10d._get_default_group()
    if RANK == 0:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            board = later._peers._board._board
            board.write("peer 1", f"{listener.getsockname()[1]} 127.0.0.1 {socket.gethostname()}")
            fails(lambda: dist.send(torch.ones(1), 1, group=later), forged)
            listener.setblocking(False)
            fails(listener.accept, kind=BlockingIOError)
    dist.barrier()
    if RANK == 0:
        own._monitor._board._board.write("monitored barrier 0, rank 1", "")
        fails(lambda: own.monitored_barrier(60), forged)
    dist.barrier()


class PeersTest(unittest.TestCase):
    def all_end_well(self, function):
        for status, _, error in together(self, function):
            self.assertEqual(status, 0, error)

    def test_strangers(self):
        self.all_end_well(strangers)

    def test_what_others_write_into_the_store(self):
        self.all_end_well(forgeries)

    def test_who_answers_at_an_address_must_be_the_rank(self):
        trust, others = _trust.Trust(bytes(32)), _trust.Trust(bytes(31) + b"1")
        hello = _peers._HELLO.pack(0, bytes(32))
        proofs = {_peers._Proof(*what, 1.0).of(end)
                  for what in ((trust, 1, hello, bytes(32)), (others, 1, hello, bytes(32)), (trust, 2, hello, bytes(32)),
                               (trust, 1, hello, bytes(31) + b"1"), (trust, 1, _peers._HELLO.pack(2, bytes(32)), bytes(32)))
                  for end in ("answers", "connects")}
        self.assertEqual(len(proofs), 10)
        ways = unittest.mock.Mock(_rank=0, _patience=DEADLINE, _trust=trust)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            stream = socket.create_connection(listener.getsockname())
            with stream, listener.accept()[0] as stranger:
                stranger.sendall(bytes(96))
                with self.assertRaisesRegex(phub.Error, "no rank of the group"):
                    _peers._Ways._prove(ways, stream, 1, time.monotonic() + DEADLINE)

    def test_who_is_displaced_by_strangers_tries_again(self):
        trust = _trust.Trust(bytes(32))
        door = _peers._Door((socket.AF_INET, "127.0.0.1"), trust, 1, 2, _messages.Mailbox(1))
        self.addCleanup(door.close)
        ways = unittest.mock.Mock(_rank=0, _patience=DEADLINE, _trust=trust)
        tries = []

        def prove(stream, *arguments):
            tries.append(arguments)
            if len(tries) < 3:
                stream.shutdown(socket.SHUT_RDWR)
            _peers._Ways._prove(ways, stream, *arguments)
        ways._prove = prove
        _peers._Ways._introduced(ways, "127.0.0.1", door.port, 1).close()
        self.assertEqual(len(tries), 3)

    def test_a_job_of_another_run_is_refused(self):
        board = _board.Board(dist.HashStore())
        with unittest.mock.patch.dict(os.environ, PHUB_JOB="run-a"):
            name = _group._agree_on_name(board, 0, DEADLINE)
            self.assertEqual(_group._agree_on_name(board, 1, DEADLINE), name)
        with unittest.mock.patch.dict(os.environ, PHUB_JOB="run-b"):
            with self.assertRaisesRegex(phub.Error, "names the job 'run-a-.*PHUB_JOB is 'run-b'"):
                _group._agree_on_name(board, 1, DEADLINE)

    def own_address(self, servers, chosen="", **names):
        """With these names and what each of them is here."""
        real = socket.getaddrinfo

        def look_up(host, *arguments, **named):
            return real(names.get(host, host), *arguments, **named)
        with unittest.mock.patch.object(socket, "getaddrinfo", look_up), \
                unittest.mock.patch.dict(os.environ, PHUB_PEER_ADDRESS=chosen):
            return _addresses.own_address(servers)

    def test_own_address(self):
        here = (socket.AF_INET, "127.0.0.1")
        self.assertEqual(self.own_address("127.0.0.1:7077,10.0.0.1:7077"), here)
        self.assertEqual(self.own_address("localhost:7077"), here)
        for chosen, found in (("::1", (socket.AF_INET6, "::1")), ("::1/128", (socket.AF_INET6, "::1")), ("lo", here),
                              ("127.0.0.1", here), ("127.0.0.0/8", here), ("host", here)):
            self.assertEqual(self.own_address("127.0.0.1:7077", chosen, host="127.0.0.1"), found)
        for chosen, said in (("203.0.113.0/24", r"no address in 203.0.113.0/24; it has .*127.0.0.1 \(lo\)"),
                             ("10.0.0.0/99", "is no network"), ("no-such-interface", "is no interface of this host")):
            with self.assertRaisesRegex(phub.Error, f"PHUB_PEER_ADDRESS: .*{said}"):
                self.own_address("127.0.0.1:7077", chosen)

    def test_a_host_whose_name_is_a_loopback_address(self):
        """As Debian's installer has it: other hosts know the name as another address."""
        outside = [each for _, each in _addresses._of_interfaces() if not _addresses.is_loopback(each[1])]
        found = self.own_address("debian:7077", debian="127.0.1.1")
        if outside:
            self.assertFalse(_addresses.is_loopback(found[1]), found)
        with unittest.mock.patch.object(_addresses, "_of_interfaces", lambda: [("eth9", (socket.AF_INET, "10.9.8.7"))]), \
                unittest.mock.patch.object(_addresses, "_ANYWHERE", ()), unittest.mock.patch.dict(os.environ, MASTER_ADDR=""):
            self.assertEqual(self.own_address("debian:7077", debian="127.0.1.1")[1], "10.9.8.7")

    def test_a_port_is_opened_at_each_address_of_this_host(self):
        """Also at those of one link, which a host has where IPv6 is on."""
        for _, found in _addresses._of_interfaces():
            with self.subTest(found):
                door = _peers._Door(found, _trust.Trust(bytes(32)), 0, 2, _messages.Mailbox(1))
                self.addCleanup(door.close)
                socket.create_connection((found[1], door.port), timeout=DEADLINE).close()

    def test_an_address_of_one_link_has_each_hosts_zone(self):
        zone = socket.if_indextoname(1)
        self.assertEqual(_addresses._with_zone(("fe80::1", 7077, 0, 1)), f"fe80::1%{zone}")
        self.assertEqual(_addresses._with_zone(("2001:db8::1", 7077, 0, 0)), "2001:db8::1")
        self.assertEqual(_addresses.reachable("fe80::2%eth0", "fe80::1%eth1", False), "fe80::2%eth1")
        self.assertEqual(_addresses.reachable("fe80::2%eth0", "fe80::1%eth1", True), "fe80::2%eth0")
        self.assertEqual(_addresses.reachable("10.0.0.1", "fe80::1%eth1", False), "10.0.0.1")
        with self.assertRaisesRegex(phub.Error, "PHUB_PEER_ADDRESS"):
            _addresses.reachable("fe80::2%eth0", "10.0.0.1", False)


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

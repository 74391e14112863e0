"""A server whose disk is full: it starts, takes things away, and refuses what it cannot write.

Usage: full_disk_test.py BIN. Exit status 77 where no file system may be mounted.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from disk import MIB, Disk, may_mount  # noqa: E402
from processes import Server, run  # noqa: E402


class FullDiskTest(unittest.TestCase):
    def setUp(self):
        self.disk = Disk(16)
        self.addCleanup(self.disk.close)

    def start(self):
        server = Server("--state", self.disk.path / "state", "--transports", "tcp")
        self.addCleanup(server.close)
        return server

    def jobs(self, server):
        return {job["spec"]["name"] for job in server.ctl("job", "list").get("jobs", [])
                if "waiting" in str(job).lower()}

    def ctl(self, server, *words):
        return run(processes.BIN / "phubctl", "--server", server.control, *words)

    def test_a_full_disk_keeps_neither_the_server_nor_administrators_out(self):
        server = self.start()
        server.ctl("tenant", "create", "red")
        server.ctl("tenant", "set", "default", "--connections", "2000", "--jobs", "600")
        for name in ("kept", "closed", "later"):
            server.ctl("job", "create", name)
        self.disk.fill()
        refused = None
        for i in range(490):  # until what SQLite still had room for is used
            refused = self.ctl(server, "job", "create", f"more{i}")
            if refused.returncode != 0:
                break
        self.assertEqual(refused.returncode, 1)
        self.assertIn("room in state_folder", refused.stderr)
        more = self.jobs(server) - {"kept", "closed", "later"}
        self.disk.fill()
        server.ctl("job", "close", "closed")
        server.close()
        self.disk.fill()
        for _ in range(3):
            server = self.start()
            self.assertEqual(self.jobs(server), {"kept", "later"} | more)
            server.close()
            self.disk.fill()
        server = self.start()
        server.ctl("tenant", "delete", "red")
        server.ctl("job", "close", "later")
        server.close()
        self.disk.make_room()
        server = self.start()
        self.assertEqual(self.jobs(server), {"kept"} | more)
        server.ctl("job", "create", "again")
        server.close()
        self.assertEqual((self.disk.path / "state" / "reserve").stat().st_size, 4 * MIB)

    def test_a_first_start_on_a_full_disk_says_so(self):
        self.disk.fill()
        done = run(processes.BIN / "phub-server", "--control", "127.0.0.1:0", "--data",
                   "127.0.0.1:0", "--cores", "1", "--state", self.disk.path / "state")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "room|No space left|full")
        self.disk.make_room()
        self.start()


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    if not may_mount():
        print("skipped: only root may mount a file system")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

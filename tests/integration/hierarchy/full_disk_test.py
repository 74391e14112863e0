"""A job that spans racks, and one rack's disk that is full in the middle of a snapshot.

Usage: full_disk_test.py BIN. Exit status 77 where no file system may be mounted.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from disk import MIB, Disk, may_mount  # noqa: E402
from processes import run, until  # noqa: E402
from racks import RacksTest, rounds_of  # noqa: E402


class FullDiskTest(RacksTest):
    def setUp(self):
        super().setUp()
        self.disk = Disk(24)
        self.addCleanup(self.disk.close)
        self.lay_out()
        self.start_server("a", 0, "--state", self.folder / "state-a")
        self.start_server("b", 0, "--state", self.disk.path / "state")

    def snapshot(self):
        a, b = (self.servers[rack][0] for rack in "ab")
        return run(processes.BIN / "phubctl", "--server", a.control, "snapshot", "demo", "--also", b.control)

    def goes_on(self):
        for rack in "ab":
            server = self.servers[rack][0]
            before = rounds_of(server, "demo")
            until(lambda s=server, n=before: rounds_of(s, "demo") > n + 2, f"rack {rack} goes on")

    def test_a_snapshot_that_one_rack_has_no_room_for(self):
        self.start_job("a:1,b:1", "--job", "demo")
        self.wait_until_it_trains("demo")
        before = set((self.disk.path / "state").rglob("*"))
        for room in (0, MIB // 2, MIB):  # less than a snapshot of this model takes
            self.disk.fill(but=room)
            refused = self.snapshot()
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn(self.addresses["b"][0], refused.stderr)
            self.assertRegex(refused.stderr, "room|No space left|full")
            self.goes_on()
            left = {path for path in (self.disk.path / "state").rglob("*") if path.suffix != ".log"}
            self.assertEqual(left - before, set())
            self.disk.make_room()
        taken = self.snapshot()
        self.assertEqual(taken.returncode, 0, taken.stderr)
        rounds = {self.servers[rack][0].ctl("snapshots")["snapshots"][-1]["round"] for rack in "ab"}
        self.assertEqual(len(rounds), 1)
        self.goes_on()


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    if not may_mount():
        print("skipped: only root may mount a file system")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)

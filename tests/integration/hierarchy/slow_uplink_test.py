"""A rack whose replies come over a slow uplink, in a network namespace of its own.

Usage: slow_uplink_test.py BIN; exits 77 (skipped) where there is no right to make one.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from racks import RacksTest  # noqa: E402

INSIDE = "PHUB_TEST_IN_NAMESPACE"
SLOW = "2mbit"  # 1.7 MB of parameters, of which this rack has the half to send


def enter_namespace():
    """Begins again within a namespace, or ends where that cannot be."""
    within = ["unshare", "--net", "sh", "-c", "ip link set lo up && tc qdisc add dev lo root handle 1: "
              "htb default 10 && exec \"$@\"", "sh"]
    able = shutil.which("unshare") and shutil.which("tc") and shutil.which("ip")
    if not able or subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        print("SKIPPED: no network namespace with tc can be made here (CAP_NET_ADMIN, CAP_SYS_ADMIN)")
        sys.exit(77)
    os.environ[INSIDE] = "yes"
    os.execvp(within[0], [*within, sys.executable, "-B", *sys.argv])


def slow_down(port):
    """What comes from this port."""
    for words in ("class add dev lo parent 1: classid 1:10 htb rate 10gbit quantum 60000",
                  f"class add dev lo parent 1: classid 1:20 htb rate {SLOW} burst 64k",
                  f"filter add dev lo parent 1: protocol ip u32 match ip sport {port} 0xffff flowid 1:20"):
        subprocess.run(["tc", *words.split()], check=True)


class SlowUplink(RacksTest):
    def test_workers_that_finish_early_do_not_end_it_for_a_rack_that_still_receives(self):
        self.start_racks()
        slow_down(self.servers["a"][0].data)
        # Rack a has all replies at once and leaves; those of rack b take seconds more.
        started = self.start_job("a:1,b:1", "--max-steps", "1", transport="shm",
                                 config=self.config(train="evaluate: false"))
        self.finish(started["a"])
        self.assertIsNone(started["b"][0].poll())
        self.finish(started["b"])


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter_namespace()
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

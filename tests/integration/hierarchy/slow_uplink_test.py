"""A rack whose replies come over a slow uplink, in a network namespace of its own.

Usage: slow_uplink_test.py BIN; exits 77 (skipped) where there is no right to make one.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
import slow_network  # noqa: E402
from racks import RacksTest  # noqa: E402

SLOW = "2mbit"  # 1.7 MB of parameters, of which this rack has the half to send


class SlowUplink(RacksTest):
    def test_workers_that_finish_early_do_not_end_it_for_a_rack_that_still_receives(self):
        self.start_racks()
        slow_network.slow_down(SLOW, [f"sport {self.servers['a'][0].data}"])
        # Rack a has all replies at once and leaves; those of rack b take seconds more.
        started = self.start_job("a:1,b:1", "--max-steps", "1", transport="shm",
                                 config=self.config(train="evaluate: false"))
        self.finish(started["a"])
        self.assertIsNone(started["b"][0].poll())
        self.finish(started["b"])


if __name__ == "__main__":
    slow_network.enter()
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

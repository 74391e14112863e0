"""Faults of jobs that span racks and run: every worker everywhere ends with an error that says which rack.

Usage: faults_test.py BIN
"""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE  # noqa: E402
from racks import RacksTest  # noqa: E402

TWO = "a:2,b:2"
THREE = "a:1,b:1,c:1"


class Faults(RacksTest):
    def start(self, racks=TWO, more="heartbeat_deadline_ms: 30000\n"):
        names = [part.split(":")[0] for part in racks.split(",")]
        self.start_racks("".join(names), more=more)
        started = self.start_job(racks, config=self.config(timeout_ms=20000))
        self.wait_until_it_trains()
        return started

    def check_next_job(self, racks=TWO):
        """What failed has left nothing that the next job of that name meets."""
        self.finish(self.start_job(racks, "--max-steps", "3"))

    def test_a_racks_server_is_killed(self):
        started = self.start(THREE)
        self.servers["b"][0].process.kill()
        self.all_say(started["a"] + started["c"], r"rack b \(.*\) (is gone|was lost)")
        self.all_say(started["b"], f"{self.addresses['b'][0]}.* gone")
        self.servers["b"][0].close()
        self.start_server("b")
        self.check_next_job(THREE)

    def test_a_racks_server_stands_still(self):
        started = self.start(more="heartbeat_deadline_ms: 6000\n")
        stopped = self.servers["b"][0].process
        self.addCleanup(stopped.kill)
        stopped.send_signal(signal.SIGSTOP)
        self.all_say(started["a"], r"rack b \(.*\) was lost: no (heartbeat|reply) for 6000 ms")
        self.check_next_job("a:1")
        stopped.send_signal(signal.SIGCONT)
        self.all_say(started["b"], f"rack a|no heartbeat|{self.addresses['b'][0]}")
        self.check_next_job()

    def test_a_worker_of_another_rack_is_killed(self):
        started = self.start(THREE)
        started["b"][0].kill()
        self.all_say(started["a"] + started["c"], r"rack b: worker 1 \(.*\) was lost")
        self.check_next_job(THREE)

    def test_an_administrator_closes_it_in_one_rack(self):
        started = self.start()
        self.servers["a"][0].table("job", "close", "mnist")
        self.all_say(started["a"], "closed by an administrator")
        self.all_say(started["b"], "rack a: it was closed by an administrator")
        self.check_next_job()

    def test_a_server_is_drained_in_one_rack(self):
        started = self.start(more="drain_timeout_ms: 500 heartbeat_deadline_ms: 30000\n")
        drained = self.servers["b"][0].process
        drained.send_signal(signal.SIGTERM)
        self.assertEqual(drained.wait(timeout=DEADLINE), 0)
        self.all_say(started["b"], "the server was drained")
        self.all_say(started["a"], "rack b: the server was drained")
        self.check_next_job("a:1")

    def test_a_worker_is_asked_to_stop(self):
        started = self.start()
        started["b"][1].send_signal(signal.SIGTERM)
        self.assertIn("worker 3 was asked to stop", self.finish(started))


class FaultsOnOneHost(Faults):
    rack_transport = "shm"


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

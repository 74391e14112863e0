"""Racks that go on by themselves (rack_rounds): one that stands still or dies holds up no other.

Usage: going_on_test.py BIN
"""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import until  # noqa: E402
from racks import RacksTest, accuracy, rounds_of  # noqa: E402

RACKS = "a:2,b:2"
STEPS = 600


class GoingOn(RacksTest):
    def going_on(self, **fields):
        return self.config(order='"arrival"', rack_local_steps=5, timeout_ms=60000,
                           rack_rounds="{ quorum: 1 wait_ms: 100 }", **fields)

    def rounds(self, rack):
        return rounds_of(self.servers[rack][0], "mnist")

    def send(self, rack, number):
        for process in [self.servers[rack][0].process, *self.started[rack]]:
            process.send_signal(number)

    def stop_and_continue(self, stopped, other):
        """`stopped` stands still, with its workers, until `other` has made a hundred rounds more."""
        self.send(stopped, signal.SIGSTOP)
        before = self.rounds(other)
        until(lambda: self.rounds(other) > before + 100, f"rack {other} goes on")
        self.send(stopped, signal.SIGCONT)
        before = self.rounds(stopped)
        until(lambda: self.rounds(stopped) > before + 10, f"rack {stopped} goes on")

    def test_a_rack_that_stands_still_holds_up_no_other(self):
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        self.started = self.start_job(RACKS, "--max-steps", str(STEPS), config=self.going_on())
        self.wait_until_it_trains()
        self.stop_and_continue("b", "a")
        self.stop_and_continue("a", "b")
        self.assertGreater(accuracy(self.finish(self.started)), 85)
        for rack in "ab":
            self.assertEqual(self.rounds(rack), STEPS + 1)  # with the one of the initial parameters

    def check_lost_rack(self, lost, other):
        """All processes of rack `lost` die, and the other rack trains to its end."""
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        self.started = self.start_job(RACKS, "--max-steps", "300", config=self.going_on())
        self.wait_until_it_trains()
        self.send(lost, signal.SIGKILL)
        self.finish(self.started[other])
        self.assertEqual(self.rounds(other), 301)
        self.assertRegex(self.log(other), f'event=rack_left_behind.* rack="{lost}"')

    def test_a_rack_goes_on_without_the_second_rack(self):
        self.check_lost_rack("b", other="a")

    def test_a_rack_goes_on_without_the_first_rack(self):
        self.check_lost_rack("a", other="b")

    def read_until(self, process, word):
        """The line of what a worker says, as a failure or a note, that has this word."""
        for line in process.stderr:
            if word in line:
                return line
        return self.fail(f"the worker ended without a word of {word!r}")

    def test_worker_0_names_a_lost_rack(self):
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        self.started = self.start_job(RACKS, config=self.going_on())
        self.wait_until_it_trains()
        self.send("b", signal.SIGKILL)
        self.assertIn("rack b was lost", self.read_until(self.started["a"][0], "lost"))
        self.started["a"][0].send_signal(signal.SIGTERM)
        self.finish(self.started["a"])

    def test_without_worker_0_the_first_of_the_other_rack_saves(self):
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        model = self.folder / "model.safetensors"
        self.started = self.start_job(RACKS, "--checkpoint", model, config=self.going_on())
        self.wait_until_it_trains()
        self.send("a", signal.SIGKILL)
        self.assertIn(str(model), self.read_until(self.started["b"][0], "this worker evaluates"))
        self.started["b"][1].send_signal(signal.SIGTERM)
        self.assertIn("stopped as asked", self.finish(self.started["b"]))
        self.assertTrue(model.exists())

    def test_a_rack_whose_job_fails_is_lost_to_the_other(self):
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        self.started = self.start_job(RACKS, "--max-steps", "300", config=self.going_on())
        self.wait_until_it_trains()
        self.started["b"][1].kill()
        self.finish(self.started["a"])
        self.assertRegex(self.errors(self.started["b"][:1])[0], "worker 3 .* was lost")
        self.assertRegex(self.log("a"), 'event=rack_left_behind.* rack="b"')

    def test_of_three_racks_a_lost_one_ends_the_job(self):
        self.start_racks("abc", more="heartbeat_deadline_ms: 120000\n")
        self.started = self.start_job("a:1,b:1,c:1", config=self.going_on())
        self.wait_until_it_trains()
        self.send("b", signal.SIGKILL)
        self.all_say(self.started["a"] + self.started["c"], "rack b")

    def check_planned_end(self, behind, asked):
        """Rack `behind` has made fewer rounds when a worker of rack `asked` is asked to stop."""
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        self.started = self.start_job(RACKS, config=self.going_on())
        self.wait_until_it_trains()
        self.stop_and_continue(behind, "a" if behind == "b" else "b")
        self.started[asked][1].send_signal(signal.SIGTERM)
        self.finish(self.started)
        for rack in "ab":
            self.assertEqual((self.rounds(rack) - 1) % 5, 0, "a rack ends with an exchange")
        self.assertNotEqual(self.rounds("a"), self.rounds("b"))

    def test_a_planned_end_while_the_first_rack_is_behind(self):
        self.check_planned_end("a", asked="b")

    def test_a_planned_end_while_the_second_rack_is_behind(self):
        self.check_planned_end("b", asked="a")

    def test_a_quorum_within_racks(self):
        self.start_racks(more="heartbeat_deadline_ms: 120000\n")
        config = self.going_on(rounds='{ quorum: 2 late: "drop" grace_ms: 50 }')
        self.started = self.start_job("a:3,b:3", "--max-steps", "200", config=config)
        self.wait_until_it_trains()
        self.started["a"][2].send_signal(signal.SIGSTOP)
        before = self.rounds("a")
        until(lambda: self.rounds("a") > before + 50, "rack a goes on without a worker")
        late_by = self.servers["a"][0].table("job", "inspect", "mnist").split("LATE BY", 1)[1].split("\n\n")[0]
        self.assertEqual([line.split()[0] for line in late_by.splitlines()[1:]], ["0", "1", "2"])
        self.started["a"][2].send_signal(signal.SIGCONT)
        self.assertGreater(accuracy(self.finish(self.started)), 80)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

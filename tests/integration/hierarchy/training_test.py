"""Training of jobs that span racks, with real servers and workers: the same bits from run to run, and
what one rack learns.

Usage: training_test.py BIN
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from racks import RacksTest, accuracy, rounds_of  # noqa: E402

STEPS = ("--max-steps", "12")
SOME = ("--rack-density", "0.05")  # of the elements of racks' sums


class Training(RacksTest):
    def twice(self, racks, *more, steps=STEPS, **how):
        """Two runs give the same bits, which are returned."""
        first, _ = self.train(racks, *steps, *more, name="first", **how)
        second, _ = self.train(racks, *steps, *more, name="second", **how)
        self.assertEqual(first, second)
        return first

    def test_two_racks_of_two_learn_what_one_rack_of_four_does(self):
        self.start_racks()
        steps = ("--max-steps", "124")
        _, alone = self.train("a:4", *steps, name="alone")
        _, joined = self.train("a:2,b:2", *steps, name="joined")
        self.assertGreater(accuracy(alone), 80)
        self.assertLess(abs(accuracy(joined) - accuracy(alone)), 2)
        rounds = {rounds_of(self.servers[rack][0], "joined") for rack in "ab"}
        self.assertEqual(rounds, {125})  # with the one of the initial parameters
        self.twice("a:2,b:2")

    def test_three_racks_have_the_same_bits_by_every_shape(self):
        self.start_racks("abc")
        for shape in ("spread", "chain", "multicolour"):
            self.twice("a:1,b:2,c:1", "--rack-shape", shape)
        self.twice("a:1,b:2,c:1", "--rack-shape", "hybrid", "--rack-hybrid-bytes", "16384")

    def test_two_servers_a_rack(self):
        self.start_racks(servers=2)
        self.twice("a:2,b:1")

    def test_one_worker_a_rack_over_shm(self):
        self.start_racks()
        over_shm = self.twice("a:1,b:1", transport="shm")
        over_tcp, _ = self.train("a:1,b:1", *STEPS, name="tcp")
        self.assertEqual(over_shm, over_tcp)

    def test_racks_on_one_host_share_memory(self):
        self.start_racks(servers=2)
        over_tcp, _ = self.train("a:1,b:2", *STEPS, name="tcp")
        some_over_tcp, _ = self.train("a:1,b:2", *STEPS, *SOME, name="some_tcp")
        self.end()
        self.rack_transport = "auto"
        self.start_racks(servers=2)
        over_shm = self.twice("a:1,b:2")
        self.assertIn("transport=shm", self.log("a"))
        self.assertEqual(over_shm, over_tcp)
        self.assertEqual(self.twice("a:1,b:2", *SOME), some_over_tcp)
        self.assertNotRegex(self.log("a"), "event=rack_transport.* transport=tcp")

    def test_racks_with_other_cores_have_the_bits_of_racks_with_as_many(self):
        self.start_racks("abc", servers=2)
        shapes = ("spread", "chain", "multicolour")
        alike = [self.train("a:1,b:2,c:1", *STEPS, "--rack-shape", shape, name=shape)[0]
                 for shape in shapes]
        self.end()
        self.rack_transport = "auto"
        self.start_racks("abc", servers=2, cores={"a": 1, "b": 3, "c": 2},
                         more="allow_oversubscription: true\n")
        for shape, bits in zip(shapes, alike):
            self.assertEqual(self.train("a:1,b:2,c:1", *STEPS, "--rack-shape", shape, name=shape)[0],
                             bits)
        self.assertIn("transport=tcp", self.log("a"))

    def test_racks_with_other_cores_are_joined_by_tcp_only(self):
        self.rack_transport = "shm"
        self.start_racks(cores={"b": 1})
        self.all_say(self.start_job("a:1,b:1"),
                     "rack_transport: shm is for servers with as many cores")

    def test_fp16_with_a_loss_scale_that_is_voted(self):
        self.start_racks()
        config = self.config(train="loss_scale { dynamic { initial: 1024 growth_steps: 4 } }")
        self.twice("a:2,b:1", "--wire-type", "fp16", config=config)

    def test_rule_lars(self):
        self.start_racks()
        self.twice("a:1,b:2", config=self.config(rule="lars"))

    def test_a_job_of_one_rack_beside_it_is_left_alone(self):
        self.start_racks()
        beside = self.start_job("a:2", "--job", "beside", "--max-steps", "40")
        self.twice("a:1,b:1")
        self.finish(beside)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

"""A program in C is a worker of a job that spans racks, by options that it gives by name.

Usage: c_program_test.py BIN
"""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE  # noqa: E402
from racks import RacksTest, rounds_of  # noqa: E402

RACKS = "racks=a:2,b:1"


class CProgram(RacksTest):
    def train(self, job, *options):
        """What the three workers say."""
        self.workers = [subprocess.Popen(
            [processes.BIN / "example-training", self.addresses[rack][0], "3", f"job={job}", RACKS, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rack in "aab"]
        said = [worker.communicate(timeout=DEADLINE) for worker in self.workers]
        return [(worker.returncode, *words) for worker, words in zip(self.workers, said)]

    def test_workers_of_all_racks_reach_the_same(self):
        self.start_racks("ab")
        for job, *options in (("plain",), ("encoded", "encoding=int8"), ("rounded", "rack_wire_type=bf16", "rack_shape=chain"),
                              ("compressed", "rack_compress.density=1"), ("local", "rack_local_steps=5")):
            with self.subTest(job):
                ended = self.train(job, *options)
                self.assertEqual([status for status, _, _ in ended], [0] * 3, ended)
                self.assertEqual(len({said.partition("slope")[2] for _, said, _ in ended}), 1, ended)
                for rack in "ab":
                    self.assertEqual(rounds_of(self.servers[rack][0], job), 51)  # the first has the initial parameter

    def test_what_contradicts_is_refused_at_once(self):
        self.lay_out()
        for options, wrong in ((("rack_local_steps=5", "rack_wire_type=bf16"), "rack_local_steps: 5 contradicts rack_wire_type: bf16"),
                               (("rack_compres.density=0.1",), "did you mean rack_compress.density?"),
                               (("racks=a:1",), "two racks or more"),
                               (("encoding",), '"encoding" is not NAME=VALUE')):
            with self.subTest(wrong):
                for status, _, error in self.train("refused", *options):
                    self.assertIn(status, (1, 2))
                    self.assertIn(wrong, error)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=2)

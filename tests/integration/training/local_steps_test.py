"""Trainings of workers that make steps of their own between exchanges, by real processes.

Usage: local_steps_test.py BIN
"""
import json
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, until  # noqa: E402

DATA = pathlib.Path(__file__).parents[3] / "configs" / "data" / "mnist10k"
CONFIG = """
%(job)s
model { name: "lenet" }
data { format: "idx" path: "%(data)s" }
optimizer { rule: "%(rule)s" learning_rate: %(rate)s %(rest)s }
train { epochs: %(epochs)d batch: 32 evaluate: %(evaluate)s %(train)s }
"""
WORKERS = 2
STEPS = 8000 // (WORKERS * 32)  # of an epoch


def parameters(path):
    """All floats of a safetensors file."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


class LocalSteps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = Server()
        self.addCleanup(self.server.close)

    def start(self, job, train, *more, rule="momentum", rate=0.01, epochs=1, evaluate=True, rounds=""):
        config = self.folder / f"{job}.textproto"
        config.write_text(CONFIG % {"job": rounds, "data": DATA, "rule": rule, "rate": rate, "rest": "",
                                    "epochs": epochs, "evaluate": "true" if evaluate else "false", "train": train})
        return [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", self.server.control,
             "--workers", str(WORKERS), "--index", str(index), "--job", job,
             "--checkpoint", self.folder / f"{job}-{index}",
             "--metrics", self.folder / f"{job}.metrics-{index}", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(WORKERS)]

    def train(self, *arguments, **named):
        """Worker 0's accuracy on the test images, in per cent; nothing without evaluation."""
        workers = self.start(*arguments, **named)
        said = [worker.communicate(timeout=DEADLINE) for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0] * WORKERS, [errors for _, errors in said])
        found = re.search(r"test accuracy ([\d.]+) %", said[0][0])
        return float(found[1]) if found else None

    def stop_and_go_on(self, train, **named):
        workers = self.start("stopped", train, "--checkpoint-steps", "10", epochs=1000, evaluate=False, **named)
        model = self.folder / "stopped-0"
        until(model.exists, "a checkpoint")
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        errors = [worker.communicate(timeout=DEADLINE)[1] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0, 0], errors)
        data = model.read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        end = int(header["__metadata__"]["next_step"]) + 30
        self.train("on", train, "--resume", model, "--restart-momentum", "--max-steps", str(end),
                   epochs=1000, evaluate=False, **named)

    def bytes_pushed(self, job):
        """By worker 0, in the whole training."""
        lines = (self.folder / f"{job}.metrics-0").read_text().splitlines()
        return json.loads(lines[-1])["bytes_pushed"]


class Deltas(LocalSteps):
    def test_with_one_local_step_deltas_are_gradients_but_for_rounding(self):
        steps = "max_steps: 40"
        named = {"rule": "sgd", "rate": 0.002, "evaluate": False}
        self.train("gradients", steps, **named)
        self.train("deltas", steps + ' payload: "delta" outer { rule: "sgd" learning_rate: 1 }', **named)
        pairs = list(zip(parameters(self.folder / "gradients-0"), parameters(self.folder / "deltas-0")))
        self.assertGreater(len(pairs), 400_000)
        self.assertLess(max(abs(a - b) for a, b in pairs), 1e-4)
        self.assertEqual(self.bytes_pushed("gradients"), self.bytes_pushed("deltas"))

    def test_local_steps_learn_as_well_with_a_part_of_the_bytes(self):
        dense = self.train("dense", "", epochs=2)
        outer = 'payload: "delta" local_steps: 25 outer { fragments: 4 overlap_steps: 3 }'
        fragments = self.train("fragments", outer, epochs=2)
        self.assertGreater(dense, 95)
        self.assertGreater(fragments, 95)
        # Initial parameters, 250 / 25 exchanges of each key, and what is out of turn at the end.
        self.assertLess(self.bytes_pushed("fragments"), self.bytes_pushed("dense") * 13 / (2 * STEPS + 1))

    def test_the_same_run_gives_the_same_bits_and_all_workers_end_with_them(self):
        train = ('max_steps: 70 payload: "delta" local_steps: 16 '
                 'outer { fragments: 3 overlap_steps: 5 learning_rate: 0.9 momentum: 0.5 }')
        for job in ("first", "second"):
            self.train(job, train, evaluate=False)
        first, second = (parameters(self.folder / f"{job}-0") for job in ("first", "second"))
        self.assertEqual(first, second)

    def test_a_16_bit_wire_carries_deltas(self):
        train = 'payload: "delta" local_steps: 10 outer { rule: "momentum" momentum: 0.5 }'
        self.assertGreater(self.train("half", train, "--wire-type", "bf16"), 93)

    def test_workers_that_are_stopped_together_leave_a_checkpoint_to_go_on_from(self):
        self.stop_and_go_on('payload: "delta" local_steps: 12 outer { fragments: 2 momentum: 0.5 }')


ASYNCHRONOUS = 'workers: 2 order: "arrival" rounds { quorum: 1 late: "add" }'
TURNS = 'workers: 2 order: "arrival" rounds { quorum: 1 late: "add" turns: true }'


class Weights(LocalSteps):
    """Elastic averaging: workers push their parameters."""

    def test_every_kind_of_round_learns(self):
        for job, named in (("synchronous", {}), ("asynchronous", {"rounds": ASYNCHRONOUS}), ("turns", {"rounds": TURNS}),
                           ("overlapped", {"more": "outer { overlap_steps: 1 }"}),
                           ("descent", {"rule": "sgd", "rate": 0.02})):
            with self.subTest(job=job):
                more = named.pop("more", "")
                self.assertGreater(self.train(job, f'payload: "weights" {more}', epochs=2, **named), 95)
        self.assertRegex(self.server.table("job", "inspect", "turns"), r"rounds\.turns +true\n")
        self.assertNotIn("rounds.turns", self.server.table("job", "inspect", "asynchronous"))

    def test_the_same_run_gives_the_same_bits_with_and_without_overlap(self):
        train = 'max_steps: 70 payload: "weights" local_steps: 2 outer { fragments: 2 overlap_steps: %d }'
        for job, overlap in (("first", 0), ("second", 0), ("overlapped", 2)):
            self.train(job, train % overlap, evaluate=False)
        first = parameters(self.folder / "first-0")
        self.assertEqual(first, parameters(self.folder / "second-0"))
        self.assertEqual(first, parameters(self.folder / "overlapped-0"))

    def test_in_turns_time_decides_nothing(self):
        for job in ("first", "second"):
            self.train(job, 'max_steps: 40 payload: "weights"', evaluate=False, rounds=TURNS)
        self.assertEqual(parameters(self.folder / "first-0"), parameters(self.folder / "second-0"))

    def test_a_16_bit_wire_carries_weights(self):
        self.assertGreater(self.train("half", 'payload: "weights"', "--wire-type", "bf16"), 93)

    def test_workers_that_are_stopped_together_leave_a_checkpoint_to_go_on_from(self):
        self.stop_and_go_on('payload: "weights" outer { overlap_steps: 1 }')

    def test_so_do_workers_that_take_turns(self):
        self.stop_and_go_on('payload: "weights"', rounds=TURNS)


class Compressed(LocalSteps):
    def test_what_replicas_and_passes_add_up_is_pushed_compressed(self):
        steps = "max_steps: 10 groups: 2 accumulate: 2"
        self.train("whole", steps, evaluate=False)
        self.train("some", steps + " compress { density: 0.1 }", evaluate=False)
        self.assertLess(3 * self.bytes_pushed("some"), self.bytes_pushed("whole"))


class Shares(LocalSteps):
    def run_with(self, job, *shares, rule="sgd", rest=""):
        workers = []
        for index, share in enumerate(shares):
            config = self.folder / f"{job}-{index}.textproto"
            config.write_text(CONFIG % {"job": "", "data": DATA, "rule": rule, "rate": 0.002, "rest": rest,
                                        "epochs": 1, "evaluate": "false",
                                        "train": f"max_steps: 40 {share}"})
            workers.append(subprocess.Popen(
                [processes.BIN / "phub-worker", "train", config, "--server", self.server.control,
                 "--workers", str(WORKERS), "--job", job, "--index", str(index),
                 "--checkpoint", self.folder / f"{job}-{index}",
                 "--metrics", self.folder / f"{job}.metrics-{index}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        errors = [worker.communicate(timeout=DEADLINE)[1] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0] * WORKERS, errors)
        batches = [json.loads((self.folder / f"{job}.metrics-{index}").read_text().splitlines()[0])["batch"]
                   for index in range(WORKERS)]
        self.assertEqual(sum(batches), 64)
        return batches

    def test_unequal_parts_make_the_steps_of_equal_ones_but_for_rounding(self):
        self.assertEqual(self.run_with("even", "", ""), [32, 32])
        self.assertEqual(self.run_with("uneven", 'share: "1"', 'share: "3"'), [16, 48])
        pairs = list(zip(parameters(self.folder / "even-0"), parameters(self.folder / "uneven-0")))
        self.assertGreater(len(pairs), 400_000)
        self.assertLess(max(abs(a - b) for a, b in pairs), 1e-4)

    def test_the_meeting_before_has_nothing_of_the_jobs_rule_and_encoding(self):
        more = 'compress { encoding: "int8" }'
        self.assertEqual(self.run_with("rule", f'share: "1" {more}', f'share: "3" {more}', rule="adamw",
                                       rest="beta1: 0.8 clip_norm: 5"), [16, 48])

    def test_measured_shares_divide_the_batch(self):
        self.assertGreater(min(self.run_with("auto", 'share: "auto"', 'share: "auto"')), 0)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main()

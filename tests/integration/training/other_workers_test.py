"""A training goes on with other workers and batches, and with what it has not used. Usage: other_workers_test.py BIN"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run  # noqa: E402
from trainings import Running  # noqa: E402

SAMPLES = 96
EPOCHS = 3


class OtherWorkers(Running):
    def place_of(self, checkpoint):
        """The steps behind it, and the samples that they took."""
        data = (self.folder / checkpoint).read_bytes()
        facts = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        self.assertEqual(int(facts["samples"]), SAMPLES)
        return int(facts["next_step"]), int(facts["samples_used"])

    def test_alone_with_another_batch(self):
        config, half, joined = self.config(), self.folder / "half", self.folder / "joined"
        self.train(config, "--local", "--checkpoint", half, "--max-steps", "17")
        self.assertEqual(self.place_of("half"), (17, 17 * 8))
        more = ("--local", "--checkpoint", joined, "--batch", "5", "--accumulate", "3")
        said = self.train(config, *more, "--resume", half).stdout
        steps = (EPOCHS * SAMPLES - 17 * 8) // 15
        self.assertEqual(self.place_of("joined"), (17 + steps, 17 * 8 + 15 * steps))
        self.assertEqual([line.split("/")[0] for line in said.splitlines() if line.startswith("epoch")],
                         ["epoch 2", "epoch 3"])
        # Back in the midst of an epoch, with one batch a step.
        self.train(config, *more[:3], "--epochs", "4", "--accumulate", "1", "--resume", joined)
        used = 17 * 8 + 15 * steps
        last = ((EPOCHS + 1) * SAMPLES - used) // 4
        self.assertEqual(self.place_of("joined"), (17 + steps + last, used + 4 * last))

    def test_samples_of_another_set_are_refused_with_both_figures(self):
        config, half = self.config(), self.folder / "half"
        self.train(config, "--local", "--checkpoint", half, "--max-steps", "17")
        config.write_text(config.read_text().replace(f"synthetic_images: {SAMPLES}", "synthetic_images: 97"))
        done = run(processes.BIN / "phub-worker", "train", config, "--local", "--resume", half)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"train.resume: checkpoint {half} has used samples of a set of {SAMPLES}, and data has 97 training images",
                      done.stderr)

    def workers(self, server, config, count, *more):
        running = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, "--server", server.control, "--workers", str(count),
             "--index", str(index), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for index in range(count)]
        for worker in running:
            _, errors = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, errors)

    def test_through_a_server_with_another_number_of_workers(self):
        server = Server("--state", self.folder / "state")
        self.addCleanup(server.close)
        config, half, joined = self.config("adam"), self.folder / "half", self.folder / "joined"
        self.workers(server, config, 2, "--job", "first", "--checkpoint", half, "--snapshot", "--max-steps", "8")
        self.assertEqual(self.place_of("half"), (8, 8 * 16))
        name = json.loads(run(processes.BIN / "phubctl", "--server", server.control, "--json", "snapshots").stdout)
        file = name["snapshots"][0]["file"]
        done = run(processes.BIN / "phubctl", "--server", server.control, "restore", file, "--as", "on", "--workers", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.workers(server, config, 3, "--job", "on", "--batch", "3", "--checkpoint", joined, "--resume", half)
        steps = (EPOCHS * SAMPLES - 8 * 16) // 18
        self.assertEqual(self.place_of("joined"), (8 + steps, 8 * 16 + 18 * steps))

    def test_through_a_server_from_its_snapshot_alone(self):
        """The servers know what their rounds have used."""
        server = Server("--state", self.folder / "state")
        self.addCleanup(server.close)
        config, joined = self.config("adam"), self.folder / "joined"
        self.workers(server, config, 2, "--job", "first", "--checkpoint", self.folder / "half", "--snapshot", "--max-steps", "8")
        listed = json.loads(run(processes.BIN / "phubctl", "--server", server.control, "--json", "snapshots").stdout)
        file = listed["snapshots"][0]["file"]
        for name, count, batch in (("three", 3, 5), ("alone", 1, 16)):
            done = run(processes.BIN / "phubctl", "--server", server.control, "restore", file, "--as", name,
                       "--workers", str(count))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.workers(server, config, count, "--job", name, "--batch", str(batch), "--checkpoint", joined)
            size = 2 * batch * count
            steps = (EPOCHS * SAMPLES - 8 * 16) // size
            self.assertEqual(self.place_of("joined"), (8 + steps, 8 * 16 + size * steps), name)

    def test_workers_that_would_use_other_samples_are_refused(self):
        server = Server()
        self.addCleanup(server.close)
        config, other = self.config(), self.folder / "other.textproto"
        other.write_text(config.read_text().replace(f"synthetic_images: {SAMPLES}", "synthetic_images: 120"))
        running = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", each, "--server", server.control, "--workers", "2", "--index",
             str(index)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for index, each in enumerate((config, other))]
        ended = [(worker.communicate(timeout=DEADLINE)[1], worker.returncode) for worker in running]
        self.assertTrue(all(code != 0 for _, code in ended), ended)
        said = " ".join(errors for errors, _ in ended)
        self.assertRegex(said, f"samples: .*16 samples a step, at position 0 after round 0, of a set of {SAMPLES} with seed 5")
        self.assertRegex(said, "at position 0 after round 0, of a set of 120 with seed 5")


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

"""Trainings by real processes: stopped and resumed, alone and through servers; what they write.

Usage: running_test.py BIN
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, run, until  # noqa: E402
from trainings import Running  # noqa: E402


class Alone(Running):
    def test_a_run_in_two_halves_ends_with_the_bits_of_a_whole_one(self):
        for rule in ("sgd", "momentum", "lars", "adamw", "adagrad", "lamb"):
            config = self.config(rule)
            whole, half, joined = (self.folder / name for name in ("whole", "half", "joined"))
            self.train(config, "--local", "--checkpoint", whole)
            # 36 steps; the middle one is in the middle of an epoch.
            self.train(config, "--local", "--checkpoint", half, "--max-steps", "17")
            self.train(config, "--local", "--checkpoint", joined, "--resume", half)
            self.assertNotEqual(self.bytes_of("half"), self.bytes_of("whole"))
            self.assertEqual(self.bytes_of("joined"), self.bytes_of("whole"), rule)
            if rule != "sgd":
                self.assertEqual(self.bytes_of("joined.optimizer-36"), self.bytes_of("whole.optimizer-36"))

    def test_a_run_that_was_stopped_by_a_signal_or_killed_goes_on_where_it_was(self):
        config, whole, part = self.config(), self.folder / "whole", self.folder / "part"
        steps = ("--epochs", "100", "--max-steps", "900")
        self.train(config, "--local", "--checkpoint", whole, *steps)
        for number, resume in ((signal.SIGTERM, ()), (signal.SIGKILL, ("--resume", part))):
            process = subprocess.Popen(
                [processes.BIN / "phub-worker", "train", config, "--local", "--checkpoint", part,
                 "--checkpoint-steps", "10", *steps, *resume],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            before = part.stat().st_mtime_ns if part.exists() else 0
            until(lambda: part.exists() and part.stat().st_mtime_ns != before, "a checkpoint")
            process.send_signal(number)
            _, errors = process.communicate(timeout=DEADLINE)
            self.assertIn(process.returncode, (0, -signal.SIGKILL), errors)
        done = run(processes.BIN / "phub-worker", "train", config, "--local", "--checkpoint", part,
                   "--resume", part, *steps)
        if "the training ends at step 900" not in done.stderr:  # it was there before the signals came
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.bytes_of("part"), self.bytes_of("whole"))
        self.assertEqual(self.bytes_of("part.optimizer-900"), self.bytes_of("whole.optimizer-900"))

    def test_the_last_checkpoints_stay_and_can_be_resumed_from_and_so_does_the_best(self):
        config, model = self.config(), self.folder / "model.safetensors"
        whole = self.folder / "whole.safetensors"
        self.train(config, "--local", "--checkpoint", whole)
        text = self.train(config, "--local", "--checkpoint", model, "--checkpoint-steps", "5", "--checkpoint-last", "2",
                          "--checkpoint-best").stdout

        def kept():
            return sorted(path.name for path in self.folder.glob("model.step-*"))
        self.assertEqual(kept(), ["model.step-35.optimizer-35.safetensors", "model.step-35.safetensors",
                                  "model.step-36.optimizer-36.safetensors", "model.step-36.safetensors"])
        self.train(config, "--local", "--checkpoint", model, "--resume", self.folder / "model.step-35.safetensors",
                   "--checkpoint-last", "3")
        self.assertEqual(model.read_bytes(), whole.read_bytes())
        self.assertEqual(len(kept()), 4)
        best = max(float(accuracy) for accuracy in re.findall(r"test ([0-9.]+) %", text))
        done = run(processes.BIN / "phub-worker", "eval", config, "--checkpoint",
                   self.folder / "model.best.safetensors", "--json")
        self.assertAlmostEqual(100 * json.loads(done.stdout)["top1"], best, delta=0.01)
        for words, field in ((("--checkpoint-last", "2"), "checkpoint_last"), (("--checkpoint-best",), "checkpoint_best")):
            done = run(processes.BIN / "phub-worker", "train", config, "--local", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"train.{field}: ", done.stderr)

    def test_images_are_predicted_as_the_evaluation_sees_them(self):
        config, model = self.config(), self.folder / "model"
        self.train(config, "--local", "--checkpoint", model, "--max-steps", "12")
        image = self.folder / "one.ppm"
        image.write_bytes(b"P6 # made by hand\n12 12\n255\n" + bytes(range(144)) * 3)
        predict = (processes.BIN / "phub-worker", "predict", config)
        done = run(*predict, image, image, "--checkpoint", model, "--top", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second = json.loads(done.stdout)["images"]
        self.assertEqual(first["classes"], second["classes"])
        shares = [guess["probability"] for guess in first["classes"]]
        self.assertEqual(shares, sorted(shares, reverse=True))
        done = run(*predict, image, "--checkpoint", model, "--top", "10")
        self.assertRegex(done.stdout, rf"^{image}: {first['classes'][0]['class']} \([0-9.]+ %\), ")
        self.assertEqual(done.stdout.count("%"), 10)
        for data, what in ((b"P5 12 12 255\n" + bytes(144), "give a PPM file"), (b"P6 12 12 255\n", "bytes of pixels"),
                           (b"\x89PNG", "neither JPEG nor PNG"), (b"P7 1 1", "neither PGM nor PPM"), (b"P6 12 12 65535\n", "its maximum is 65535"),
                           (b"P6 9999999999 1 255\n", "no width"), (b"P6 0 1 255\n", "0 x 1 pixels")):
            image.write_bytes(data)
            done = run(*predict, image, "--checkpoint", model)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(what, done.stderr)
        done = run(*predict, self.folder / "nowhere.ppm", "--checkpoint", model)
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere.ppm", done.stderr)

    def test_evaluation_says_what_the_training_said(self):
        config = self.config()
        text = self.train(config, "--local", "--checkpoint", self.folder / "model").stdout
        done = run(processes.BIN / "phub-worker", "eval", config, "--checkpoint",
                   self.folder / "model", "--json", "--batch", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["images"], 24)
        self.assertIn(f"test accuracy {100 * said['top1']:.2f} %", text)
        self.assertGreaterEqual(said["top5"], said["top1"])
        self.assertGreater(said["loss"], 0)

    def test_what_a_killed_writer_left_goes_with_the_next_checkpoint(self):
        left = self.folder / "model.optimizer-3.safetensors.tmp.1.0"
        left.write_bytes(b"half of it")
        self.train(self.config(), "--local", "--checkpoint", self.folder / "model.safetensors", "--max-steps", "2")
        self.assertFalse(left.exists())


class ThroughServers(Running):
    WORKERS = 2

    def setUp(self):
        super().setUp()
        self.servers = [Server("--state", self.folder / f"state{i}") for i in range(2)]
        for server in self.servers:
            self.addCleanup(server.close)

    def launch(self, config, job, *more):
        """Both workers, to their end; worker 0 has the options `more`."""
        addresses = [word for server in self.servers for word in ("--server", server.control)]
        workers = [subprocess.Popen(
            [processes.BIN / "phub-worker", "train", config, *addresses, "--workers", str(self.WORKERS),
             "--index", str(index), "--job", job, *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(self.WORKERS)]
        return [(process.communicate(timeout=DEADLINE)[1], process.returncode) for process in workers]

    def succeed(self, *arguments):
        for errors, code in self.launch(*arguments):
            self.assertEqual(code, 0, errors)

    def snapshots_in(self, checkpoint):
        """What the checkpoint says that servers keep, as [(file, address)]."""
        data = self.bytes_of(checkpoint)
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        words = header["__metadata__"]["snapshots"].replace(",", "").split()
        return list(zip(words[0::3], words[2::3]))

    def test_a_job_that_was_stopped_with_a_snapshot_goes_on_bit_by_bit(self):
        # 18 steps: two workers have twice the images a step. The first half ends within an epoch.
        for rule, wire in (("nesterov", "fp32"), ("momentum", "fp16"), ("adam", "bf16")):
            config = self.config(rule, wire)
            whole, half, joined = (self.folder / name for name in ("whole", "half", "joined"))
            self.succeed(config, "whole" + wire, "--checkpoint", whole)
            self.succeed(config, "half" + wire, "--checkpoint", half, "--snapshot", "--max-steps", "8")
            kept = self.snapshots_in("half")
            self.assertEqual([address for _, address in kept], [server.control for server in self.servers])
            for errors, code in self.launch(config, "fresh", "--resume", half):
                self.assertEqual(code, 2, errors)
                self.assertIn(f"({kept[0][0]} at {kept[0][1]}, ", errors)
                self.assertIn("--restart-momentum", errors)
            for file, address in kept:
                done = run(processes.BIN / "phubctl", "--server", address, "restore", file, "--as", "on" + wire)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.succeed(config, "on" + wire, "--checkpoint", joined, "--resume", half)
            self.assertEqual(self.bytes_of("joined"), self.bytes_of("whole"), (rule, wire))

    def test_a_worker_that_waits_for_others_is_stopped_at_once(self):
        """It would wait for an hour."""
        addresses = [word for server in self.servers for word in ("--server", server.control)]
        config = self.config()
        config.write_text("timeout_ms: 3600000\n" + config.read_text())
        for more in ((), ("--share", "2")):
            name = "alone" + str(len(more))
            job = name + (".shares" if more else "")
            worker = subprocess.Popen(
                [processes.BIN / "phub-worker", "train", config, *addresses, "--workers", "2", "--job",
                 name, *more],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(worker.kill)
            until(lambda job=job: any(f" {job} " in server.table("job", "list") for server in self.servers),
                  "it has joined")
            worker.send_signal(signal.SIGINT)
            _, errors = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, errors)
            self.assertIn("stopped as asked; ", errors)
            self.assertIn("interrupted while it waited", errors)

    def test_workers_that_are_stopped_together_leave_a_checkpoint_and_the_exit_code_says_so(self):
        config, model = self.config(), self.folder / "model"
        for stop, folder_is_there, code in ((signal.SIGTERM, True, 0), (signal.SIGTERM, False, 1)):
            name = "stop" + str(code)
            parts = self.folder / name
            parts.mkdir()
            model = parts / "model"
            command = [processes.BIN / "phub-worker", "train", config, "--workers", "2", "--job", name,
                       "--checkpoint", model, "--checkpoint-steps", "10", "--epochs", "100000",
                       *[word for server in self.servers for word in ("--server", server.control)]]
            workers = [subprocess.Popen([*command, "--index", str(index)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True) for index in range(2)]
            until(lambda: model.exists(), "a checkpoint")
            if not folder_is_there:
                for worker in workers:
                    worker.send_signal(signal.SIGSTOP)
                for worker in workers:
                    os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
                shutil.rmtree(parts)
                for worker in workers:
                    worker.send_signal(signal.SIGCONT)
            for worker in workers:
                worker.send_signal(stop)
            errors = [worker.communicate(timeout=DEADLINE)[1] for worker in workers]
            self.assertEqual(workers[0].returncode, code, errors)
            self.assertEqual(model.exists(), folder_is_there)
            if folder_is_there:
                done = run(processes.BIN / "phub-worker", "eval", config, "--checkpoint", model)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_folder_that_cannot_be_written_is_found_before_training(self):
        done = run(processes.BIN / "phub-worker", "train", self.config(), "--local",
                   "--checkpoint", self.folder / "nowhere" / "model")
        self.assertEqual(done.returncode, 2)
        self.assertIn("train.checkpoint: cannot write in", done.stderr)

    def test_a_checkpoint_that_is_no_file_is_found_before_training(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for path, is_what in ((self.folder, "a folder"), (fifo, "a device or a FIFO")):
            done = run(processes.BIN / "phub-worker", "train", self.config(), "--local",
                       "--checkpoint", path)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"is {is_what}: give the name of a file", done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertTrue(fifo.is_fifo())

    def test_without_a_state_folder_a_snapshot_is_refused_with_the_cure(self):
        server = Server()
        self.addCleanup(server.close)
        done = run(processes.BIN / "phub-worker", "train", self.config(), "--server", server.control,
                   "--checkpoint", self.folder / "model", "--snapshot", "--max-steps", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"train.snapshot: server {server.control}: this server keeps no state", done.stderr)
        self.assertIn("state_folder (--state FOLDER)", done.stderr)
        # Before the first step: nothing is trained that could not be saved.
        self.assertEqual(done.stdout, "")
        self.assertEqual(list(self.folder.glob("model*")), [])
        done = run(processes.BIN / "phub-worker", "train", self.config(), "--local",
                   "--checkpoint", self.folder / "model", "--snapshot")
        self.assertEqual(done.returncode, 2)
        self.assertIn("train.snapshot: needs servers", done.stderr)

    def test_a_snapshot_that_is_refused_costs_itself_and_is_told(self):
        kept = self.folder / "state" / "snapshots" / "default"
        kept.mkdir(parents=True)
        (kept / "other.000000000001.safetensors").write_text("")
        config = self.folder / "server.textproto"
        config.write_text(f'state_folder: "{self.folder / "state"}" snapshots_of_tenant: 1')
        server = Server("--config", config)
        self.addCleanup(server.close)
        done = self.train(self.config(), "--server", server.control, "--checkpoint",
                          self.folder / "model", "--checkpoint-steps", "9", "--snapshot")
        refusal = 'tenant "default" has 1 snapshots, and snapshots_of_tenant allows 1'
        self.assertEqual(done.stderr.count(refusal), 4, done.stderr)  # 36 steps
        self.assertIn("the model of step 36 is in", done.stderr)
        self.assertFalse((self.folder / "model").exists())
        self.assertTrue((self.folder / "model.without-snapshot").exists())
        explained = server.table("job", "explain", "run")
        self.assertIn("Of 4 snapshots 4 failed, and training went on without them", explained)
        self.assertIn(refusal, explained)
        inspected = server.ctl("job", "inspect", "run")
        self.assertEqual(int(processes.find(inspected, "snapshots")["failed"]), 4)

    def test_servers_may_be_named_by_the_command_line_alone(self):
        config = self.config()
        text = config.read_text()
        config.write_text(text.replace("optimizer {", "optimizer { ema_decay: 0.9", 1))
        done = run(processes.BIN / "phub-worker", "train", config, "--local")
        self.assertEqual(done.returncode, 2)
        self.assertIn("optimizer.ema_decay: needs servers", done.stderr)

    def test_the_command_lines_workers_and_rule_reach_the_checks(self):
        config = self.config()
        config.write_text(config.read_text() + 'order: "arrival" rounds { quorum: 2 }\n')
        text = config.read_text()
        config.write_text(text.replace("loss_scale { dynamic { initial: 1024 growth_steps: 4 } }", ""))
        worker = (processes.BIN / "phub-worker", "train", config, "--server", "127.0.0.1:1", "--check")
        done = run(*worker, "--workers", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        # What no option mends is told with its place in the file.
        for more in ((), ("--workers", "2")):
            done = run(*worker, *more)
            self.assertEqual(done.returncode, 2)
            self.assertIn("rounds.quorum: 2 of ", done.stderr)
        self.assertRegex(run(*worker).stderr, r"train\.textproto:\d+:\d+: rounds\.quorum")
        for words, code in ((("--rule", "adamw", "--learning-rate", "0.1"), 0), (("--momentum", "0.5"), 0),
                            (("--rule", "adam", "--momentum", "0.5"), 2), (("--learning-rate", "0"), 2),
                            (("--threads", "auto"), 0), (("--threads", "many"), 2), (("--threads", "0"), 2),
                            (("--timeout-ms", "0"), 2), (("--timeout-ms", "1000"), 0)):
            done = run(*worker, "--workers", "3", *words)
            self.assertEqual(done.returncode, code, (words, done.stderr))

    def test_without_servers_nothing_is_compressed(self):
        done = run(processes.BIN / "phub-worker", "train", self.config(), "--local",
                   "--compress", "sparse", "--loss-scale", "128")
        self.assertEqual(done.returncode, 2)
        self.assertIn("train.compress: needs servers", done.stderr)

    def test_shares_that_are_none_are_refused_by_their_fields(self):
        for words, field in ((("--density", "2"), "train.compress.density"),
                             (("--racks", "a:1,b:1", "--rack-density", "2"), "rack_compress.density")):
            done = run(processes.BIN / "phub-worker", "train", self.config(), "--server",
                       "127.0.0.1:1", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{field}: 2 is not above 0 and at most 1", done.stderr)


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)

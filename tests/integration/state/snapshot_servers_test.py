"""A job across two servers: snapshots of both at one round, and training that goes on from them.

Usage: snapshot_servers_test.py BIN
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from processes import DEADLINE, JobTest, Server, find, until  # noqa: E402

WORKERS = 2
STEPS_MORE = 15


class SnapshotServers(JobTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server_options = ("--state", self.folder / "state0")
        super().setUp()
        self.servers = [self.server, Server("--state", self.folder / "state1")]
        self.addCleanup(self.servers[1].close)

    def launch(self, job, *more, checkpoint=None, count=WORKERS):
        started = [processes.worker(
            self.servers[0], index, count, "auto", "--server", self.servers[1].control, "--job", job,
            *more, *(("--checkpoint", checkpoint) if checkpoint and index == 0 else ()))
            for index in range(count)]
        self.workers += started
        return started

    def rounds(self, server, job):
        return int(find(server.ctl("job", "inspect", job), "rounds") or 0)

    def ctl(self, server, *words):
        return subprocess.run([processes.BIN / "phubctl", "--server", server.control, *words],
                              capture_output=True, text=True, timeout=DEADLINE)

    def snapshot(self, job):
        """Takes one of both servers; the round, and the file of each server."""
        done = self.ctl(self.servers[0], "--json", "snapshot", job, "--also", self.servers[1].control)
        self.assertEqual(done.returncode, 0, done.stderr)
        decoder, text, replies = json.JSONDecoder(), done.stdout.strip(), []
        while text:
            reply, end = decoder.raw_decode(text)
            replies.append(reply["snapshot"])
            text = text[end:].lstrip()
        rounds = {int(reply["round"]) for reply in replies}
        self.assertEqual(len(rounds), 1, replies)
        return rounds.pop(), [reply["file"] for reply in replies]

    def restore(self, files, name):
        for server, file in zip(self.servers, files):
            done = self.ctl(server, "restore", file, "--as", name)
            self.assertEqual(done.returncode, 0, done.stderr)

    def trained(self, job):
        """A job that trains, once it has some rounds behind it."""
        workers = self.launch(job)
        until(lambda: all(f'"{job}"' in server.text("job", "list") for server in self.servers), "it is there")
        until(lambda: self.rounds(self.servers[1], job) > 5, "it trains")
        return workers

    def stop(self, workers):
        for process in workers:
            process.send_signal(signal.SIGTERM)
        self.finish(workers)

    def check_goes_on(self, files, first_round):
        """A restored job ends with the bits of one that trained without a break."""
        steps = str(first_round - 1 + STEPS_MORE)
        again, whole = self.folder / "again.safetensors", self.folder / "whole.safetensors"
        self.restore(files, "again")
        self.finish(self.launch("again", "--max-steps", steps, checkpoint=again))
        self.finish(self.launch("whole", "--max-steps", steps, checkpoint=whole))
        self.assertEqual(again.read_bytes(), whole.read_bytes())

    def test_a_job_of_two_servers_goes_on_from_its_snapshot_bit_by_bit(self):
        workers = self.trained("demo")
        taken, files = self.snapshot("demo")
        self.stop(workers)
        self.check_goes_on(files, taken)

    def test_a_job_that_waits_without_workers_goes_on_from_a_snapshot_with_more_of_them(self):
        workers = self.trained("demo")
        taken, files = self.snapshot("demo")
        self.stop(workers)
        more = WORKERS + 1
        for server, file in zip(self.servers, files):
            done = self.ctl(server, "job", "create", "again", "--workers", str(WORKERS))
            self.assertEqual(done.returncode, 0, done.stderr)
            job_id = find(server.ctl("job", "inspect", "again"), "jobId")
            done = self.ctl(server, "restore", file, "--as", "again", "--workers", str(more))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("it waited under that name without workers", done.stdout)
            self.assertIn(f"its workers were {WORKERS} and are {more}", done.stdout)
            self.assertEqual(find(server.ctl("job", "inspect", "again"), "jobId"), job_id)
        self.finish(self.launch("again", "--max-steps", str(taken + 3), count=more))
        self.assertEqual({self.rounds(server, "again") for server in self.servers}, {taken + 4})

    def test_a_snapshot_is_deleted_and_then_cannot_be_restored(self):
        workers = self.trained("demo")
        _, (file, _) = self.snapshot("demo")
        self.stop(workers)
        server = self.servers[0]
        kept = (self.folder / "state0" / "snapshots" / file).stat().st_size
        done = self.ctl(server, "--json", "snapshot", "delete", file)
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, {"bytes": kept}), done.stderr)
        self.assertNotIn(file, self.ctl(server, "snapshots").stdout)
        for words in (("snapshot", "delete", file), ("restore", file)):
            refused = self.ctl(server, *words)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f'there is no snapshot "{file}"', refused.stderr)
        self.assertEqual(self.ctl(server, "snapshot").returncode, 2)
        self.assertEqual(self.ctl(server, "snapshot", "delete").returncode, 2)

    def test_snapshots_of_jobs_that_are_over_expire(self):
        kept = self.folder / "state2" / "snapshots"
        (kept / "default").mkdir(parents=True)
        (kept / "by hand").mkdir()
        files = [kept / name / "gone.000000000007.safetensors" for name in ("default", "by hand")]
        for file in files:
            file.write_text("")
            os.utime(file, (0, 0))
        config = self.folder / "expires.textproto"
        config.write_text(f'state_folder: "{self.folder / "state2"}" snapshots_expire_s: 3600')
        server = Server("--config", config)
        self.addCleanup(server.close)
        until(lambda: not files[0].exists(), "a tenant's snapshot has expired")
        self.assertTrue(files[1].exists())

    def test_it_goes_on_beside_the_job_that_was_copied_and_on_servers_with_other_loads(self):
        self.trained("demo")
        taken, files = self.snapshot("demo")
        self.check_goes_on(files, taken)

    def test_where_one_server_has_no_room_what_each_did_is_said(self):
        self.trained("demo")
        one, other = self.servers
        other.table("tenant", "set", "default", "--disk-mib", "1")
        done = self.ctl(one, "snapshot", "demo", "--also", other.control)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"server {one.control}: it took default/demo\.\S+; "
                                      rf"server {other.control}: .*needs \d+ MiB on the disk")

    def test_snapshots_of_different_rounds_are_refused_by_their_rounds(self):
        workers = self.trained("demo")
        _, early = self.snapshot("demo")
        _, late = self.snapshot("demo")
        self.stop(workers)
        self.restore([early[0], late[1]], "again")
        errors = ""
        for process in self.launch("again", "--max-steps", "1000"):
            errors += process.communicate(timeout=DEADLINE)[1]
            self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, r"has \d+ rounds behind it at server \S+ and \d+ at server")


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)

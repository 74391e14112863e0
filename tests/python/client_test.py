"""phub.Client and phub.numpy: results, errors, interrupts, forks. Usage: client_test.py LIBRARY BIN"""
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

import launched
from launched import DEADLINE, ROOT, Server, free_port, processes, say_when_in, start, temporary_folder, together

try:
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub  # noqa: E402
import phub.numpy  # noqa: E402
from phub import _environment, _library  # noqa: E402


def client(**options):
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return phub.Client(phub.Options(workers=workers, worker_index=rank, **options))


def sums(wire_type):
    with client(rule="sum", wire_type=wire_type) as mine:
        mine.register_keys([phub.Key("a", 3), phub.Key("b", 20_000)])
        own = mine.worker_index + 1
        for _ in range(3):
            phub.numpy.push(mine, "a", numpy.full(3, own))
            both = phub.numpy.push_pull(mine, "b", numpy.arange(20_000.0).reshape(100, 200) % 512 * own)
            assert (phub.numpy.pull(mine, "a") == 3).all()
            assert (both == numpy.arange(20_000.0).reshape(100, 200) % 512 * 3).all()


def steps():
    with client(rule="sgd", learning_rate=1.0) as mine:
        mine.register_keys([phub.Key("w", 2)])
        phub.numpy.gradient(mine, 0)[:] = 10 if mine.worker_index == 0 else 99
        mine.initialise()
        assert (phub.numpy.parameter(mine, "w") == 10).all()
        for rate, expected in ((1.0, 8), (0.5, 7)):
            mine.set_hyper(rate)
            assert (phub.numpy.push_pull(mine, "w", numpy.array([2, 2])) == expected).all()


def grows():
    """Keys that come while others are under way; the names go on working, and lists must be the same."""
    with client(rule="sum") as mine:
        mine.register_keys([phub.Key("a", 3)])
        phub.numpy.push(mine, "a", numpy.full(3, 1.0))
        mine.add_keys([phub.Key("b", 5), phub.Key("c", 2)])
        mine.add_keys([phub.Key("d", 7)])
        assert (phub.numpy.pull(mine, "a") == 2).all()
        for key, elements in (("d", 7), ("b", 5), ("a", 3), ("c", 2)):
            phub.numpy.push(mine, key, numpy.arange(elements) + mine.worker_index)
        mine.wait_all()
        assert (phub.numpy.parameter(mine, "d") == 2 * numpy.arange(7) + 1).all()
        try:
            mine.add_keys([phub.Key("e", 1 + mine.worker_index)])
        except phub.Error as error:
            assert 'keys[0] ("e") elements' in str(error), error
        else:
            raise AssertionError("other lists were taken")


def adds(own):
    """The sum of both ranks of this run, whose own number it is."""
    with client(rule="sum") as mine:
        mine.register_keys([phub.Key("w", 1)])
        print(phub.numpy.push_pull(mine, "w", numpy.array([float(own)]))[0])


def stops():
    """Worker 1 asks for the end; both stop after the same step, which each prints."""
    with client(rule="sum") as mine:
        mine.register_keys([phub.Key("w", 2)])
        assert mine.ending is None
        step, is_last = 0, False
        while not is_last:
            step += 1
            mine.push("w")
            if step == 3 and mine.worker_index == 1:
                mine.end("enough")
            is_last = mine.is_last(step)
            mine.wait("w")
        assert mine.ending == "enough"
        print(step, flush=True)


def waits():
    """Worker 1 pushes nothing; worker 0 is interrupted in its wait, and says so."""
    mine = client(rule="sum", timeout=10 * DEADLINE)
    mine.register_keys([phub.Key("w", 2)])
    if mine.worker_index == 1:
        signal.pause()
    mine.push("w")
    try:
        print("waiting", flush=True)
        mine.wait("w")
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def joins():
    mine = client(timeout=10 * DEADLINE)
    try:
        say_when_in("_call_beside", "joining")
        mine.register_keys([phub.Key("w", 2)])
    except KeyboardInterrupt:
        try:
            mine.push("w")
        except phub.Error as error:
            print(error, flush=True)


class LibraryTest(unittest.TestCase):
    def test_it_is_found_in_a_prefix_of_ones_own(self):
        """Where the programs of the same installation are in PATH, or where the package itself is."""
        prefix = temporary_folder(self)
        (prefix / "bin").mkdir()
        (prefix / "bin/phub-server").symlink_to("/bin/true")
        (prefix / "lib").mkdir()
        shutil.copy(os.environ["PHUB_LIBRARY"], prefix / f"lib/libphub.so.{_library.ABI}")
        package = shutil.copytree(ROOT / "worker/torch/phub", prefix / "lib/python3/site-packages/phub")
        for more in ({"PYTHONPATH": str(ROOT / "worker/torch"), "PATH": f"{prefix}/bin"}, {"PYTHONPATH": str(package.parent)}):
            environ = {name: value for name, value in {**os.environ, **more}.items() if name != "PHUB_LIBRARY"}
            done = subprocess.run(launched.program("from phub import _library; print(_library.load()._name)"), env=environ,
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.stdout, f"{prefix}/lib/libphub.so.{_library.ABI}\n", done.stderr)


class ClientTest(unittest.TestCase):
    def all_end_well(self, ended):
        for status, _, error in ended:
            self.assertEqual(status, 0, error)

    def test_sums(self):
        for wire_type in ("fp32", "fp16"):
            with self.subTest(wire_type):
                self.all_end_well(together(self, sums, wire_type))

    def test_steps(self):
        self.all_end_well(together(self, steps))

    def test_keys_are_added(self):
        self.all_end_well(together(self, grows))

    def test_two_runs_at_once_are_two_jobs(self):
        server = Server(*processes.PATIENT, cores=1)
        self.addCleanup(server.close)
        ports = {run: str(free_port()) for run in (1, 10)}
        def begin(run, rank):
            running.append((run, start(adds, run, rank=rank, workers=2, server=server, MASTER_ADDR="127.0.0.1", MASTER_PORT=ports[run])))

        def have_joined():
            return sum(len(job.get("members", [])) for job in server.ctl("job", "list")["jobs"]) == 2

        running = []
        begin(1, rank=0)
        begin(10, rank=1)
        processes.until(have_joined, "a rank of each run has joined")
        begin(1, rank=1)
        begin(10, rank=0)
        for run, worker in running:
            said, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual((worker.returncode, said), (0, f"{2.0 * run}\n"), error)

    def test_a_jobs_name_is_the_runs_own(self):
        def named(workers=2, **environ):
            with unittest.mock.patch.dict(os.environ, environ, clear=True), unittest.mock.patch.dict(_environment._made, clear=True):
                return _environment.job("client", workers)

        at = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
        self.assertEqual(named(RANK="0", **at), named(RANK="1", **at))
        others = [named(**at), named(**{**at, "MASTER_PORT": "2"}), named(MASTER_ADDR="a", MASTER_PORT="1"),
                  named(**at, TORCHELASTIC_RUN_ID="a"), named(SLURM_JOB_ID="1", SLURM_STEP_ID="0"),
                  named(SLURM_JOB_ID="1", SLURM_STEP_ID="1"), named(workers=1), named(workers=1)]
        self.assertEqual(len(set(others)), len(others))
        self.assertEqual(named(PHUB_JOB="mine", **at), "mine-client")
        with self.assertRaisesRegex(phub.Error, "job: nothing in the environment.*phubrun or torchrun.*PHUB_JOB"):
            named(MASTER_ADDR="a", SLURM_JOB_ID="1")

    def test_a_rank_of_another_run_with_the_same_name_is_refused(self):
        server = Server(*processes.PATIENT, cores=1)
        self.addCleanup(server.close)

        def begin(run, rank, port):
            return start(adds, run, rank=rank, workers=2, server=server, PHUB_JOB="same", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)

        first = [begin(1, 0, "1")]
        processes.until(lambda: (server.ctl("job", "list").get("jobs") or [{}])[0].get("members"), "rank 0 has joined")
        _, error = begin(10, 1, "2").communicate(timeout=DEADLINE)
        self.assertRegex(error, r'ALREADY_EXISTS: .*job "same-client" is another run\'s, of which is worker 0 .*PHUB_JOB')
        for worker in [*first, begin(1, 1, "1")]:
            said, error = worker.communicate(timeout=DEADLINE)
            self.assertEqual((worker.returncode, said), (0, "2.0\n"), error)

    def test_the_second_run_of_a_name_is_told_how_to_get_another(self):
        mine = self.one(job="same")
        mine.register_keys([phub.Key("w", 1)])
        with phub.Client(mine.options.replace()) as second:
            with self.assertRaisesRegex(phub.Error, 'ALREADY_EXISTS: .*"same" has all of its 1 workers.*another run.*PHUB_JOB'):
                second.register_keys([phub.Key("w", 1)])

    def test_all_stop_after_the_same_step(self):
        ended = together(self, stops)
        self.all_end_well(ended)
        steps = {int(said) for _, said, _ in ended}
        self.assertEqual(len(steps), 1, steps)
        self.assertGreaterEqual(steps.pop(), 3)

    def one(self, **options):
        server = Server(cores=1)
        self.addCleanup(server.close)
        mine = phub.Client(phub.Options(servers=server.control, rule="sum", **options))
        self.addCleanup(mine.close)
        return mine

    def test_errors_have_the_librarys_message(self):
        mine = self.one()
        with self.assertRaisesRegex(phub.Error, "register_keys"):
            mine.push(0)
        with self.assertRaisesRegex(phub.Error, "not registered"):
            mine.gradient(0)
        mine.register_keys([phub.Key("w", 2)])
        with self.assertRaisesRegex(phub.Error, "key 7 does not exist"):
            mine.push(7)
        with self.assertRaisesRegex(phub.Error, "key v is not registered"):
            mine.push("v")
        with self.assertRaisesRegex(ValueError, "2 elements, the array 3"):
            phub.numpy.push(mine, "w", numpy.zeros(3))
        with self.assertRaisesRegex(phub.Error, "rmsprop"):
            phub.Client(phub.Options(servers="127.0.0.1:1", rule="rmsprop"))
        os.environ.pop("PHUB_SERVERS", None)
        with self.assertRaisesRegex(phub.Error, "PHUB_SERVERS"):
            phub.Client(phub.Options())
        with self.assertRaisesRegex(phub.Error, "^learning_rat: there is no such option; did you mean learning_rate"):
            phub.Client(phub.Options(servers="127.0.0.1:1", learning_rat=1))

    def test_what_a_field_does_not_take_is_named(self):
        """A number for a text's address would end the process; one that is too large would be another."""
        for field, value, why in (("job", 5, "5 is not a text"), ("rule", b"sum", "is not a text"),
                                  ("workers", "two", "'two' is not a whole number"), ("workers", 2.5, "2.5 is not a whole number"),
                                  ("workers", -1, "-1 is not a whole number, 0 or more"),
                                  ("chunk_bytes", 2**32 + 32768, '"4295000064" is not a whole number, at most 4294967295'),
                                  ("learning_rate", "fast", '"fast" is not a number'),
                                  ("checksums", 1, '"1" is not true or false'), ("momentum", object(), "neither a text"),
                                  ("timeout", -1, "-1 is not a number of seconds"), ("timeout", "long", "is not a number of seconds"),
                                  ("servers", 5, '5 is not "host:port"'), ("job", "a\0b", "has a NUL")):
            with self.subTest(field=field, value=value), self.assertRaisesRegex(phub.Error, f"^{field}: .*{re.escape(why)}"):
                phub.Client(phub.Options(**{"servers": "127.0.0.1:1", field: value}))
        for options, why in (({"timeout_ms": 5}, "timeout_ms: say timeout"), ({"learning_rate": {}}, "learning_rate: is an empty group"),
                             ({"rounds.quorum": 2}, "say rounds={'quorum': 2}"), ({"momentum": 10**5000}, "momentum: the number is too large"),
                             ({"rounds": 3}, "rounds: is a group of fields")):
            with self.subTest(options=why), self.assertRaisesRegex(phub.Error, why):
                phub.Client(phub.Options("127.0.0.1:1", "wrong", **options))
        with self.assertRaisesRegex(phub.Error, '^rounds.staleness: "-1" is not a whole number'):
            phub.Client(phub.Options(servers="127.0.0.1:1", rounds={"staleness": -1}))
        folder = temporary_folder(self)
        with self.assertRaisesRegex(phub.Error, f"{folder} has none of ca.pem"):
            phub.Client(phub.Options(servers="127.0.0.1:1", credentials=folder))

    def test_what_a_key_does_not_take_is_named(self):
        """C would take the lowest bits of a number, and a name up to its NUL."""
        mine = self.one()
        for name, elements, decay, message in (
                ("a", 2**64 + 5, 0, 'keys[1].elements: "a" has 18446744073709551621, which is too large'),
                ("a", 5.0, 0, 'keys[1].elements: "a" has 5.0, which is not a whole number'), ("a", 0, 0, "has 0, which is below 1"),
                ("a", -1, 0, "has -1, which is below 1"), ("a", "5", 0, "has '5', which is not a whole number"),
                ("a\0b", 5, 0, "keys[1].name: 'a\\x00b' has a NUL"), (7, 5, 0, "keys[1].name: 7 is not a text"),
                ("\ud800", 5, 0, "is not UTF-8"), ("a", 5, "much", "keys[1].weight_decay: 'much' is not a number"),
                ("a", 5, 1e300, "keys[1].weight_decay: 1e+300 is too large")):
            with self.subTest(name=name, elements=elements), self.assertRaisesRegex(phub.Error, re.escape(message)):
                mine.register_keys([phub.Key("first", 1), phub.Key(name, elements, decay)])
        with self.assertRaisesRegex(phub.Error, r"keys\[0\].name: has 258 bytes of UTF-8, at most 256"):
            self.one().register_keys([phub.Key("\u00e9" * 129, 1)])
        mine.register_keys([phub.Key("first", numpy.int64(3))])
        self.assertEqual(list(phub.numpy.push_pull(mine, numpy.int64(0), numpy.ones(3))), [1, 1, 1])
        for key, message in ((-1, "key -1 does not exist"), (2**32, "key 4294967296 does not exist"),
                             (2**32 - 1, "does not exist"), (0.0, "key 0.0 is neither a name nor a number")):
            for call in (mine.push, mine.wait, mine.gradient, mine.was_skipped):
                with self.subTest(key=key), self.assertRaisesRegex(phub.Error, message):
                    call(key)
        for call, field in ((mine.set_hyper, "learning_rate"), (mine.set_samples, "samples")):
            self.assertRaisesRegex(phub.Error, f"^{field}: 'fast' is not a number", call, "fast")

    def test_steps_that_no_training_has_are_refused_and_nothing_is_lost_by_it(self):
        mine = self.one()
        mine.register_keys([phub.Key("w", 2)])
        mine.report_steps(2.0, 1.0, 0.5, steps=10, samples=320)
        for call, message in (
                (lambda: mine.report_steps(1.0, 0.7, 0.4), "step_waits.exchange_ns"),
                (lambda: mine.report_steps(-1.0, 0.0, 0.0), "step_waits.step_ns"),
                (lambda: mine.report_steps(1.0, math.nan, 0.0), "step_waits.input_ns"),
                (lambda: mine.report_steps(1.0, 0.0, 0.0, steps=-1), "steps: -1 is below 0"),
                (lambda: mine.report_steps(1.0, 0.0, 0.0, samples=2**64), "samples: .* too large"),
                (lambda: mine.report_steps(1.0, 0.0, 0.0, steps=0.5), "steps: 0.5 is not a whole number")):
            with self.subTest(message), self.assertRaisesRegex(phub.Error, message):
                call()
        self.assertEqual(list(phub.numpy.push_pull(mine, "w", numpy.array([1, 2]))), [1, 2])

    def test_a_view_outlives_the_close(self):
        mine = self.one()
        mine.register_keys([phub.Key("w", 2)])
        result = phub.numpy.push_pull(mine, "w", numpy.array([1, 2]))
        view = phub.numpy.parameter(mine, "w")
        with self.assertRaisesRegex(ValueError, "read-only"):
            view[0] = 1
        mine.close()
        self.assertEqual(list(view), list(result))
        with self.assertRaisesRegex(phub.Error, "closed"):
            mine.push("w")
        with self.assertRaisesRegex(phub.Error, "closed"):
            phub.numpy.parameter(mine, "w")

    def test_a_views_shape_is_its_holders(self):
        mine = self.one()
        mine.register_keys([phub.Key("w", 6)])
        phub.numpy.gradient(mine, "w").shape = (2, 3)
        self.assertEqual(phub.numpy.gradient(mine, 0).shape, (6,))

    def test_a_forked_child_is_refused_and_does_no_harm(self):
        mine = self.one()
        mine.register_keys([phub.Key("w", 2)])
        child = os.fork()
        if child == 0:
            status = 1
            try:
                mine.push("w")
            except phub.ForkedError:
                status = 0
            finally:
                del mine  # which must not leave the parent's job
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(list(phub.numpy.push_pull(mine, "w", numpy.array([1, 2]))), [1, 2])

    def interrupt(self, function, said, workers):
        """The output of worker 0, which has said where it is."""
        server = Server(cores=1)
        self.addCleanup(server.close)
        running = [start(function, rank=rank, workers=2, server=server, PHUB_JOB="one") for rank in range(workers)]
        self.assertEqual(running[0].stdout.readline(), said)
        running[0].send_signal(signal.SIGINT)
        output, error = running[0].communicate(timeout=DEADLINE)
        self.assertEqual(running[0].returncode, 0, error)
        for other in running[1:]:
            other.kill()
            other.communicate()
        return output

    def test_ctrl_c_in_a_wait(self):
        self.assertEqual(self.interrupt(waits, "waiting\n", 2), "interrupted\n")

    def test_ctrl_c_in_a_join(self):
        self.assertIn("interrupted in phub_register_keys", self.interrupt(joins, "joining\n", 1))

    def test_a_join_that_is_interrupted_at_any_moment_leaves_no_connection(self):
        def join(moment):
            mine = phub.Client(phub.Options(servers=server.control, rule="sum", workers=2, job=f"job{moment}"))
            threading.Timer(moment % 20 / 1000, mine.interrupt).start()
            with self.assertRaisesRegex(phub.Error, "interrupted"):
                mine.register_keys([phub.Key("w", 2)])
            mine.close()

        def descriptors(process):
            return len(os.listdir(f"/proc/{process}/fd"))

        server = Server(*processes.PATIENT, cores=1)
        self.addCleanup(server.close)
        ends = os.getpid(), server.process.pid
        join(0)
        before = [descriptors(end) for end in ends]
        for moment in range(1, 150):
            join(moment)
        for end, count in zip(ends, before):
            processes.until(lambda end=end, count=count: descriptors(end) <= count + 1, "connections are closed")


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

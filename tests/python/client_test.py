"""phub.Client and phub.numpy: results, errors, interrupts, forks. Usage: client_test.py LIBRARY BIN"""
import os
import re
import signal
import sys
import threading
import unittest

import launched
from launched import DEADLINE, Server, processes, say_when_in, start, temporary_folder, together

try:
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub  # noqa: E402
import phub.numpy  # noqa: E402


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
        with self.assertRaisesRegex(TypeError, "learning_rat"):
            phub.Options(learning_rat=1)  # type: ignore[call-arg]

    def test_what_a_field_does_not_take_is_named(self):
        """A number for a text's address would end the process; one that is too large would be another."""
        for field, value, why in (("job", 5, "5 is not a text"), ("rule", b"sum", "is not a text"),
                                  ("workers", "two", "'two' is not a whole number"), ("workers", 2.5, "2.5 is not a whole number"),
                                  ("workers", -1, "-1 is below 0"), ("chunk_bytes", 2**32 + 32768, "4295000064 is too large"),
                                  ("staleness", -1, "-1 is below 0"), ("learning_rate", "fast", "'fast' is not a number"),
                                  ("timeout", -1, "-1 is not a number of seconds"), ("timeout", "long", "is not a number of seconds"),
                                  ("servers", 5, '5 is not "host:port"')):
            with self.subTest(field=field, value=value), self.assertRaisesRegex(phub.Error, f"^{field}: .*{re.escape(why)}"):
                phub.Client(phub.Options(**{"servers": "127.0.0.1:1", field: value}))
        folder = temporary_folder(self)
        with self.assertRaisesRegex(phub.Error, f"{folder} has none of ca.pem"):
            phub.Client(phub.Options(servers="127.0.0.1:1", credentials=folder))

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
        running = [start(function, rank=rank, workers=2, server=server) for rank in range(workers)]
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

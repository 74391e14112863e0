"""Options of a job by keyword: racks, encodings and rounds. Usage: job_options_test.py BIN"""
import os
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from launched import DEADLINE, main, processes, start, together  # noqa: E402
from racks import RacksTest  # noqa: E402

try:
    import numpy
except ImportError:
    print("skipped: needs numpy (apt-get install python3-numpy)")
    sys.exit(77)

import phub  # noqa: E402
import phub.numpy  # noqa: E402
from phub import _environment  # noqa: E402

RANKS = 2
ELEMENTS = 8192


def client(**options):
    options.setdefault("workers", RANKS)
    return phub.Client(phub.Options(worker_index=int(os.environ["RANK"]), rule="sgd", learning_rate=1.0,
                                    gradient_scale=1.0, transport="tcp", **options))


def descend(mine):
    """Both push one in every 16th place, so that what is kept back is nothing, and each step takes two there."""
    mine.register_keys([phub.Key("w", ELEMENTS)])
    mine.initialise()
    step = numpy.zeros(ELEMENTS)
    step[::16] = 1
    for made in (1, 2, 3):
        reached = phub.numpy.push_pull(mine, "w", step)
        assert (reached == -2 * made * step).all(), (made, reached[:32])


def encodes(encoding):
    with client(encoding=encoding, compress={"density": 0.25} if encoding == "sparse" else None) as mine:
        descend(mine)


def spans(density):
    options = {"racks": {"a": 1, "b": 1}, "job": "spans", "workers": 1}  # those of the racks are all
    if float(density):
        options["rack_compress"] = {"density": float(density), "error_feedback": True}
    with client(**options) as mine:
        descend(mine)


def goes_on():
    """A round has one push, and late ones are added: each worker's steps are all there in the end."""
    with client(order="arrival", rounds={"quorum": 1, "late": "add"}, checksums=True) as mine:
        mine.register_keys([phub.Key("w", 8)])
        mine.initialise()
        before = phub.numpy.parameter(mine, "w")[0]
        for _ in range(10):
            after = phub.numpy.push_pull(mine, "w", numpy.ones(8))[0]
            assert after <= before - 1, (before, after)
            before = after


class OneRack(unittest.TestCase):
    def all_end_well(self, ended):
        for status, _, error in ended:
            self.assertEqual(status, 0, error)

    def test_pushes_are_encoded(self):
        for encoding in ("dense", "sparse", "int8", "int4"):
            with self.subTest(encoding):
                self.all_end_well(together(self, encodes, encoding))

    def test_rounds_with_a_quorum(self):
        self.all_end_well(together(self, goes_on))

    def test_what_contradicts_is_refused_in_the_servers_words(self):
        for options, words in ((dict(rack_local_steps=4), "rack_local_steps: 4 contradicts racks: nothing"),
                               (dict(learning_rate=0.1), "learning_rate: 0.1 contradicts rule: mean"),
                               (dict(rule="sgd", momentum=0.5), "momentum: 0.5 contradicts rule: sgd"),
                               (dict(rounds={"grace_ms": 5}), "rounds.grace_ms: 5 contradicts rounds.quorum: 0"),
                               (dict(rule="lars", encoding="int8"), "encoding: int8 contradicts rule: lars")):
            with self.subTest(words), self.assertRaisesRegex(phub.Error, words):
                phub.Client(phub.Options("127.0.0.1:1", "refused", RANKS, **options))


class RacksOfTheRun(unittest.TestCase):
    """Those of PHUB_RACKS are a job's where it has all of the run's workers."""
    def racks_of(self, workers, **options):
        return dict(phub.Options("127.0.0.1:1", "job", workers, **options).for_c()).get(b"racks")

    def test_a_job_of_all_workers_is_over_all_racks(self):
        with unittest.mock.patch.dict(os.environ, PHUB_RACKS="a:2,site1/b:1"):
            self.assertEqual(self.racks_of(3), b"a:2,site1/b:1")
            self.assertIsNone(self.racks_of(2))
            self.assertEqual(self.racks_of(3, racks={"a": 1, "c": 2}), b"a:1,c:2")
            for ranks, racks in (((0, 2), "a:1,site1/b:1"), ((0, 1), None), ((2,), None), ((0, 1, 2), "a:2,site1/b:1")):
                self.assertEqual(_environment.racks(len(ranks), ranks), racks)
        for text in ("", "a:3,b:1"):
            with unittest.mock.patch.dict(os.environ, PHUB_RACKS=text):
                self.assertIsNone(self.racks_of(3))


class Racks(RacksTest):
    def test_a_job_spans_racks_and_compresses_between_them(self):
        self.start_racks("ab")
        for density in ("0", "0.25"):
            with self.subTest(density):
                running = [start(spans, density, rank=rank, workers=RANKS, server=self.servers["ab"[rank]][0])
                           for rank in range(RANKS)]
                self.workers += running
                for worker in running:
                    _, error = worker.communicate(timeout=DEADLINE)
                    self.assertEqual(worker.returncode, 0, error)


if __name__ == "__main__":
    unittest.main(argv=main(globals()))

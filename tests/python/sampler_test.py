"""phub.torch.sampler: runs that stop and go on see each sample once in each epoch. Usage: sampler_test.py LIBRARY BIN"""
import collections
import pickle
import random
import sys
import threading
import unittest

import launched
from launched import together

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import phub  # noqa: E402
import phub.torch  # noqa: E402
from phub.samples import SampleStream  # noqa: E402

SAMPLES = 101
FIRST_OF_SEED_7 = [0, 1, 5, 2, 3, 4, 8, 7, 9, 6, 5, 3, 4, 7, 2, 8, 6, 9, 0, 1]  # of ten, as in ledger_test.cc


def sampler(ranks=1, rank=0, batch=4, **more):
    return phub.torch.sampler(range(SAMPLES), batch, rank=rank, world_size=ranks, **more)


def endless(batches):
    while True:
        yield from batches


def trains_and_stops():
    """A rank whose optimizer counts the steps; the loader reads ahead."""
    model = torch.nn.Linear(1, 1)
    optimizer = phub.torch.Optimizer(model.named_parameters(), rule="sgd", lr=1e-6, workers=phub.world_size())
    for wrong in ({"rank": 1 - phub.rank()}, {"world_size": 3}, {"accumulate": 2}):
        try:
            phub.torch.sampler(range(SAMPLES), 5, optimizer=optimizer, **wrong)
        except phub.Error as error:
            assert "and the optimizer has" in str(error), error
        else:
            raise AssertionError(wrong)
    batches = phub.torch.sampler(range(SAMPLES), 5, seed=3, optimizer=optimizer)
    loader = torch.utils.data.DataLoader(torch.arange(float(SAMPLES)).view(-1, 1), batch_sampler=batches, num_workers=2)
    seen = []
    for _ in range(2):
        for batch in loader:
            seen += batch.view(-1).int().tolist()
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if len(seen) == 70:
                break
    other = phub.torch.sampler(range(SAMPLES), 2, optimizer=optimizer)  # which counts in place of the first
    for _ in zip(range(3), other):
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert (batches.used, other.used) == (140, 3 * 4), (batches.used, other.used)
    optimizer.close()
    print(batches.used, *seen)


class SamplerTest(unittest.TestCase):
    def refused(self, text, call):
        with self.assertRaisesRegex(phub.Error, text):
            call()

    def test_the_order_is_phub_workers(self):
        """A change of it breaks runs that go on."""
        stream = SampleStream(10, 7)
        self.assertEqual(sorted(stream.read(10, 10)), list(range(10)))
        self.assertEqual(stream.read(0, 20), FIRST_OF_SEED_7)

    def test_runs_that_stop_anywhere_use_each_sample_once_in_each_epoch(self):
        draw = random.Random(1)
        for run in range(100):
            state, seen = None, []
            while len(seen) < 2 * SAMPLES:
                ranks, batch, accumulate = draw.randint(1, 5), draw.randint(1, 8), draw.randint(1, 2)
                samplers = [sampler(ranks, rank, batch, accumulate=accumulate) for rank in range(ranks)]
                for each in samplers if state else []:
                    each.load_state_dict(state)
                passes = [endless(each) for each in samplers]
                for _ in range(draw.randint(0, 4)):
                    seen += [sample for _ in range(accumulate) for one in passes for sample in next(one)]
                    for each in samplers:
                        each.step()
                state = samplers[0].state_dict()
                self.assertEqual([each.state_dict() for each in samplers], [state] * ranks)
                self.assertEqual(state["used"], len(seen))
            with self.subTest(run):
                self.assertEqual(len(set(seen[:SAMPLES])), SAMPLES)
                self.assertEqual(len(set(seen[SAMPLES:2 * SAMPLES])), SAMPLES)

    def test_a_pass_is_what_is_left_of_an_epoch(self):
        batches = sampler(ranks=2, batch=10)
        self.assertEqual((len(batches), batches.epoch), (5, 0))
        lengths = []
        for _ in range(5):
            lengths.append(sum(1 for _ in batches))
            for _ in range(lengths[-1]):
                batches.step()
        self.assertEqual((lengths, batches.epoch), ([5, 5, 5, 5, 5], 5))
        batches.load_state_dict({"samples": SAMPLES, "seed": 0, "used": 60})
        self.assertEqual((len(batches), len(list(batches))), (2, 2))

    def test_steps_that_nobody_counts_are_named_with_the_cure(self):
        batches = sampler(batch=50)
        first = list(batches)
        self.assertEqual(list(batches), first)  # whoever looks at a batch before the training
        self.refused("two passes were read, and no step was counted; call step", lambda: list(batches))

    def test_steps_that_are_counted_twice_are_named(self):
        batches = sampler(batch=25)
        passed = iter(batches)
        for _ in range(2):
            next(passed)
        batches.step()
        batches.step()
        self.refused("batches for 2 steps were read since this pass over the sampler began, and this is one step more",
                     batches.step)
        self.assertEqual(batches.used, 50)

    def test_a_step_without_a_batch_is_an_error_and_a_copy_counts_its_own(self):
        batches = sampler(batch=25)
        self.refused("step: no batch was read since the sampler was made", batches.step)
        next(iter(batches))
        batches.step()
        copied = pickle.loads(pickle.dumps(batches))
        self.assertEqual((copied.used, next(iter(copied))), (25, next(iter(batches))))
        copied.step()
        self.assertEqual((copied.used, batches.used), (50, 25))

    def test_a_pass_that_is_left_at_any_batch_goes_on_behind_what_was_trained(self):
        data = torch.arange(float(SAMPLES))
        for workers, every in ((0, 1), (2, 4)):
            for leave in range(0, 21, every):
                batches, seen = sampler(batch=5), []
                loader = torch.utils.data.DataLoader(data, batch_sampler=batches, num_workers=workers)
                self.assertEqual(len(loader), 20)
                next(iter(loader))
                for index, batch in enumerate(loader):
                    if index == leave:
                        break
                    self.assertEqual(len(loader), 20)
                    seen += batch.int().tolist()
                    batches.step()
                self.assertEqual(batches.used, len(seen))
                for batch in loader:
                    seen += batch.int().tolist()
                    batches.step()
                self.assertEqual(len(set(seen[:SAMPLES])), min(len(seen), SAMPLES))

    def test_what_makes_no_sense_is_named(self):
        self.refused("a step takes 120 samples .3 ranks, batches of 20, 2 of them., and the data set has 101",
                     lambda: sampler(3, batch=20, accumulate=2))
        self.refused("batch_size: 0 is not from 1", lambda: sampler(batch=0))
        self.refused("batch_size: 2.5 is not a whole number", lambda: sampler(batch=2.5))
        self.refused("rank: 2 is not from 0 to 1", lambda: sampler(2, 2))
        self.refused("seed: -1 is not from 0", lambda: sampler(seed=-1))
        self.refused("samples: 0 is not from 1", lambda: phub.torch.sampler([], 1, rank=0, world_size=1))
        self.refused("dataset: it has no length", lambda: phub.torch.sampler(iter([]), 1))
        self.refused("optimizer: it is none of phub.torch's",
                     lambda: sampler(optimizer=torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)))
        for state, field in (({}, "samples"), (None, "samples"), ({"samples": SAMPLES, "seed": 0}, "used")):
            self.refused(f"the state has no {field}", lambda state=state: sampler().load_state_dict(state))
        self.refused("used: 9223372036854775808 is not from 0",
                     lambda: sampler().load_state_dict({"samples": SAMPLES, "seed": 0, "used": 2**63}))
        self.refused("first: 18446744073709551613 is not from 0", lambda: SampleStream(10).read(2**64 - 3, 6))
        self.refused("samples is 101 here and 5 in the state; go on with the same data set",
                     lambda: sampler().load_state_dict({"samples": 5, "seed": 0, "used": 0}))
        self.refused("seed is 0 here and 2 in the state",
                     lambda: sampler().load_state_dict({"samples": SAMPLES, "seed": 2, "used": 0}))

    def test_any_thread_reads(self):
        stream, wrong = SampleStream(1000, 1), []
        expected = stream.read(0, 5000)

        def read(first):
            for position in range(first, 5000, 40):
                if stream.read(position, 20) != expected[position:position + 20]:
                    wrong.append(position)

        threads = [threading.Thread(target=read, args=(20 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_an_optimizers_steps_are_counted_not_what_a_loader_read(self):
        seen = []
        for status, output, error in together(self, trains_and_stops):
            self.assertEqual(status, 0, error)
            used, *mine = map(int, output.split())
            self.assertEqual((used, len(mine)), (140, 70))
            seen += mine
        times = collections.Counter(seen)
        self.assertEqual((min(times.values()), max(times.values()), len(times)), (1, 2, SAMPLES))


if __name__ == "__main__":
    unittest.main(argv=launched.main(globals()))

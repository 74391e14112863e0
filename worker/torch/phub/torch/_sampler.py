"""Batches of samples for a DataLoader, which a run goes on with where another one stopped."""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import torch.utils.data

from phub import _environment
from phub.errors import Error
from phub.samples import SampleStream, whole
from phub.torch.optimizer import Optimizer


@dataclasses.dataclass
class _Pass:
    first: int    # what was used when it began
    batches: int
    end: int      # what is used once all of it is trained
    given: int = 0
    is_read: bool = False  # to its end


def _agreed(field: str, given: Optional[int], theirs: Optional[int], otherwise: Callable[[], int]) -> int:
    if given is not None and theirs is not None and given != theirs:
        raise Error(f"{field}: {given}, and the optimizer has {theirs}; leave it out")
    if given is None:
        return otherwise() if theirs is None else theirs
    return given


class Sampler(torch.utils.data.Sampler):
    """This rank's batches, for DataLoader(dataset, batch_sampler=...). Each pass over it is what is left of an epoch.

    The order is phub-worker's: each epoch has every sample once. What was used is one number, which state_dict() has. A
    run that loads it goes on with exactly the samples that were not used, with other ranks, batches and DataLoader
    workers too. A step at the end of an epoch that lacks samples takes them from the next epoch, and counts to it.

    dataset: anything with a length. Its order must be the same in each run. It is the whole set, no shard of it.
    batch_size: samples of this rank in a batch; the same at all ranks.
    seed: of the order; the same at all ranks and in each run.
    rank, world_size: what is not given is the optimizer's, or else the environment's RANK and WORLD_SIZE.
    accumulate: batches of a step; the optimizer's, or else 1. With push="step" the optimizer does not know it: say it.
    optimizer: a phub.torch.Optimizer, whose steps are counted, by its last sampler. Without it step() is called after each step, also after
      one that a GradScaler leaves out. A DataLoader reads batches ahead, so batches that were read are not counted.
    A framework that divides samples among ranks itself must not do so (Lightning: use_distributed_sampler=False).
    Raises phub.Error.
    """

    drop_last = False

    def __init__(self, dataset: Any, batch_size: int, *, seed: int = 0, rank: Optional[int] = None,
                 world_size: Optional[int] = None, accumulate: Optional[int] = None,
                 optimizer: Optional[Optimizer] = None) -> None:
        if not hasattr(dataset, "__len__"):
            raise Error("dataset: it has no length, as an iterable one; a sampler wants one that is read by index")
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise Error("optimizer: it is none of phub.torch's; leave it out, and call step() after each of its steps")
        theirs = (None, None, None) if optimizer is None else optimizer.place
        self._ranks = whole("world_size", _agreed("world_size", world_size, theirs[1], _environment.world_size), 1, 2**32)
        self._rank = whole("rank", _agreed("rank", rank, theirs[0], _environment.rank), 0, self._ranks - 1)
        self._accumulate = whole("accumulate", _agreed("accumulate", accumulate, theirs[2], lambda: 1), 1, 2**32)
        self.batch_size = whole("batch_size", batch_size, 1, 2**32)
        self._stream = SampleStream(len(dataset), seed)
        self._step = self.batch_size * self._ranks * self._accumulate
        if self._step > self._stream.samples:
            raise Error(f"batch_size: a step takes {self._step} samples ({self._ranks} ranks, batches of {self.batch_size}, "
                        f"{self._accumulate} of them), and the data set has {self._stream.samples}")
        self._used = 0
        self._pass: Optional[_Pass] = None
        self._passes_in_vain = 0  # that were read to their end without a step
        self._is_counted = optimizer is not None
        if optimizer is not None:
            optimizer.after_step(self._count)

    @property
    def used(self) -> int:
        """Samples that all ranks together have used since the beginning of the training."""
        return self._used

    @property
    def epoch(self) -> int:
        """That of the next step, from 0."""
        return (self._used + self._step - 1) // self._stream.samples

    def step(self) -> None:
        """Counts a step of the training. Raises Error where the optimizer counts them, or nothing was read for it."""
        if self._is_counted:
            raise Error("step: the sampler was given its optimizer, whose steps it counts; leave step() out, or the optimizer")
        if self._pass is None:
            raise Error("step: no batch was read since the sampler was made or its state was loaded; read the step's batches first")
        self._count()

    def set_epoch(self, epoch: int) -> None:
        """Does nothing, for frameworks that call it: the sampler knows its epoch."""

    def __len__(self) -> int:
        """Batches of the pass that is under way, or else of the next one."""
        if self._pass is not None and self._used < self._pass.end:
            return self._pass.batches
        return self._left()

    def __iter__(self) -> Iterator[List[int]]:
        last = self._pass
        self._passes_in_vain = self._passes_in_vain + 1 if last and last.is_read and self._used == last.first else 0
        if self._passes_in_vain > 1:
            raise Error("sampler: two passes were read, and no step was counted; call step() after each step of the training, "
                        "or give the sampler its optimizer")
        batches = self._left()
        mine = self._pass = _Pass(self._used, batches, self._used + batches // self._accumulate * self._step)
        return self._read(mine)

    def _read(self, mine: _Pass) -> Iterator[List[int]]:
        for index in range(mine.batches):
            mine.given = index + 1
            yield self._stream.read(mine.first + (index * self._ranks + self._rank) * self.batch_size, self.batch_size)
        mine.is_read = True

    def _left(self) -> int:
        """Batches that are left of the epoch."""
        return ((self.epoch + 1) * self._stream.samples - self._used) // self._step * self._accumulate

    def _count(self) -> None:
        if self._pass is None:
            return  # the step's batches are none of the sampler's
        steps = -(-self._pass.given // self._accumulate)
        if self._used + self._step > self._pass.first + steps * self._step:
            raise Error(f"step: batches for {steps} steps were read since this pass over the sampler began, and this is one "
                        f"step more; a step is {self._accumulate} batches, and each is counted once")
        self._used += self._step

    def __getstate__(self) -> Dict[str, Any]:
        """A copy counts its own steps."""
        return {**self.__dict__, "_is_counted": False, "_pass": None}

    def state_dict(self) -> Dict[str, int]:
        """What was used; the same at all ranks."""
        return {"samples": self._stream.samples, "seed": self._stream.seed, "used": self._used}

    def load_state_dict(self, state_dict: Dict[str, int]) -> None:
        """Goes on behind what was used; the next pass is what is left of that epoch. Raises Error for another data set or
        seed."""
        for field, mine in self.state_dict().items():
            if not isinstance(state_dict, Mapping) or field not in state_dict:
                raise Error(f"load_state_dict: the state has no {field}; give what the sampler's state_dict() returned")
            if field != "used" and state_dict[field] != mine:
                raise Error(f"load_state_dict: {field} is {mine} here and {state_dict[field]} in the state; go on with the "
                            "same data set and seed")
        self._used, self._pass = whole("used", state_dict["used"], 0, 2**48), None

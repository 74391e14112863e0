"""DistributedDataParallel's all-reduce over PHub.

A key is a bucket, and a job knows its keys before it runs; DDP knows its buckets only after the first iteration, when
it has seen in which order gradients come. So the first iteration is the process group's own all-reduce. The second
one's buckets are what they stay (with static_graph the third one's; then there is a second job): when the last of them
is there the job is joined, and from then on each is pushed when DDP has it ready. What comes back is waited for in the
last bucket's hook, when nothing is left to compute.

With shared_buckets a bucket's memory becomes the client's then (_remap), so that nothing is copied to be pushed.
"""
import hashlib
from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from phub import _environment
from phub.client import Client, Key
from phub.errors import Error
from phub.options import Options
from phub.torch import _callbacks, _remap, _tensors


# float32 is what is exchanged: it has all of these, and their sums are rounded once.
_EXACT = (torch.float32, torch.float16, torch.bfloat16)


def _refusal(bucket: Any) -> Optional[Error]:
    """Why a bucket is not exchanged."""
    shapes = ", ".join(str(tuple(each.shape)) for each in bucket.parameters())
    if bucket.buffer().layout != torch.strided:
        return Error(f"ddp_hook: the parameter of shape {shapes} has sparse gradients, which are not exchanged; make its module "
                     "with sparse=False, or train without the hook")
    if bucket.buffer().dtype not in _EXACT:
        return Error(f"ddp_hook: parameters of shape {shapes} have gradients of {bucket.buffer().dtype}, which float32 would "
                     "round; train them in float32, or without the hook")
    return None


class _Reduced:
    """One bucket of this iteration, and the future that DDP has of it."""

    def __init__(self, buffer: torch.Tensor) -> None:
        self.buffer = buffer
        self.failure: Optional[BaseException] = None
        self.end: Any = torch.futures.Future()
        # An error that is raised in `then` is the one that both 1.13 and 2 hand on to who called backward.
        self.future: Any = self.end.then(lambda _: self._get())

    def _get(self) -> torch.Tensor:
        if self.failure is not None:
            raise self.failure
        return self.buffer


class _Reducer:
    def __init__(self, process_group: Any, options: Options, shares: bool) -> None:
        self._group = process_group
        self._options = options
        self._shares = shares
        self._is_first_iteration = True
        self._client: Optional[Client] = None
        self._jobs = 0  # that were joined
        self._gradients: List[torch.Tensor] = []  # by bucket, as the results: the client's memory
        self._results: List[torch.Tensor] = []
        self._shared: List[Optional[torch.Tensor]] = []  # the bucket whose memory is the gradient's; kept, as its pages are
        self._reduced: List[_Reduced] = []  # of this iteration so far
        self._failure: Optional[BaseException] = None

    def reduce(self, bucket: Any) -> Any:
        """One bucket, in DDP's order. The future of its mean."""
        refusal = _refusal(bucket)
        if refusal is not None:
            refused = _Reduced(bucket.buffer().detach())
            refused.failure = refusal
            _callbacks.complete_and_wait([refused.end])
            return refused.future
        if self._is_first_iteration:
            self._is_first_iteration = not bucket.is_last()
            return default_hooks.allreduce_hook(self._group, bucket)
        if bucket.index() == 0 and self._reduced:
            self._end(Error("ddp_hook: the last backward pass ended before all of its buckets were there"))
        mine = _Reduced(bucket.buffer().detach())
        self._reduced.append(mine)
        if self._failure is None:
            try:
                self._exchange(bucket.is_last())
            except Exception as failure:  # backward is C++, and learns it from the futures
                self._failure = failure
            except BaseException:  # Ctrl-C: a future would make a RuntimeError of it, and so does 1.13's backward itself
                self._end(Error("ddp_hook: a backward pass was interrupted"))
                raise
        if bucket.is_last():
            self._end(self._failure)
        return mine.future

    def _exchange(self, is_last: bool) -> None:
        if self._client is not None and not self._is_as_joined(is_last):
            self._leave()
        if self._client is not None:
            self._push(len(self._reduced) - 1)
        elif is_last:
            self._join()
            for index in range(len(self._reduced)):
                self._push(index)
        if is_last:
            self._finish()

    def _join(self) -> None:
        name = self._options.job if self._jobs == 0 else f"{self._options.job}-again{self._jobs}"
        self._jobs += 1
        client = Client(self._options.replace(job=name))
        sizes = [each.buffer.numel() for each in self._reduced]
        item = _tensors.item_bytes(client)
        # Whole pages, so that each begins on one.
        client.register_keys([Key(f"bucket{index}", _remap.pages_of(size * item) // item)
                              for index, size in enumerate(sizes)])
        self._gradients = [_tensors.gradient(client, index)[:size] for index, size in enumerate(sizes)]
        self._results = [_tensors.parameter(client, index)[:size] for index, size in enumerate(sizes)]
        self._shared = [
            each.buffer if self._shares and _remap.share(each.buffer, gradient, self._options.workers) else None
            for each, gradient in zip(self._reduced, self._gradients)]
        self._client = client

    def _is_as_joined(self, is_last: bool) -> bool:
        index = len(self._reduced) - 1
        count = len(self._gradients)
        is_there = index + 1 == count if is_last else index + 1 < count
        return is_there and self._reduced[index].buffer.numel() == self._gradients[index].numel()

    def _leave(self) -> None:
        """DDP has other buckets now. What of them was pushed already is so once more, in the next job."""
        assert self._client is not None
        self._gradients, self._results, self._shared = [], [], []
        self._client.close()
        self._client = None

    def _push(self, index: int) -> None:
        buffer, shared = self._reduced[index].buffer, self._shared[index]
        if shared is None or shared.data_ptr() != buffer.data_ptr():
            self._gradients[index].copy_(buffer)
        assert self._client is not None
        self._client.push(index)

    def _finish(self) -> None:
        assert self._client is not None
        for index, (each, result) in enumerate(zip(self._reduced, self._results)):
            self._client.wait(index)
            # Into the bucket, which PyTorch's wrappers of hooks read, while servers add up later ones.
            each.buffer.copy_(result)

    def _end(self, failure: Optional[BaseException]) -> None:
        ended, self._reduced = self._reduced, []
        self._failure = failure
        for each in ended:
            each.failure = failure
        _callbacks.complete_and_wait([each.end for each in ended])


def ddp_hook(process_group: Any = None, shared_buckets: bool = False, **options: Any) -> Callable[[Any, Any], Any]:
    """A hook for DistributedDataParallel.register_comm_hook(None, hook): the mean of each bucket by PHub's servers.

    The first iteration uses `process_group` (None: the default one), as does DDP itself for buffers and first
    parameters; the job is joined in the second. `options` are Options' fields; `servers` comes from PHUB_SERVERS, rank
    and number of workers from the process group. Each hook is a job of its own. Gradients are float32, float16 or bfloat16;
    others, and sparse ones, are an error. Errors are raised by backward, as
    RuntimeError with the message of the Error, and are final.

    `shared_buckets`: on the CPU, where /dev/shm has room for a bucket of each of the host's workers, buckets are the memory
    that is pushed, which saves a copy. A forked child shares them: what it writes to gradients is written here.
    """
    given = {"workers": dist.get_world_size(process_group), "worker_index": dist.get_rank(process_group), **options}
    given.setdefault("rule", "mean")
    if given.get("racks") is None:
        given["racks"] = _environment.racks(given["workers"], _ranks_of(process_group))
    reducer = _Reducer(process_group, Options(**_environment.options(_kind_of(process_group), given)), shared_buckets)

    def phub_hook(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        return reducer.reduce(bucket)

    return phub_hook


def _kind_of(process_group: Any) -> str:
    """Two groups of a run have two jobs."""
    if process_group is None or process_group is dist.group.WORLD:
        return "ddp"
    return f"ddp-{hashlib.sha256(str(_ranks_of(process_group)).encode()).hexdigest()[:8]}"


def _ranks_of(process_group: Any) -> List[int]:
    """Among all of the run."""
    size = dist.get_world_size(process_group)
    if process_group is None or process_group is dist.group.WORLD:
        return list(range(size))
    return [dist.get_global_rank(process_group, rank) for rank in range(size)]

"""The process group: each collective as sums of float32 (_reduce) or as bytes that everybody has (Exchange.gather)."""
from __future__ import annotations

import datetime
import os
import uuid
from typing import Any, Callable, List, Optional, Sequence, TypeVar, Union

import torch
import torch.distributed as dist

from phub.errors import Error
from phub.options import Options
from phub.torch.distributed import _peers, _reduce, _sparse
from phub.torch.distributed._board import Board
from phub.torch.distributed._compiled import never_compiled
from phub.torch.distributed._exchange import Exchange
from phub.torch.distributed._host import HostCopy, Moment, flat, overlap
from phub.torch.distributed._messages import Receive, Send
from phub.torch.distributed._monitor import Monitor
from phub.torch.distributed._names import BackendOfPyTorch, Named, with_new_names
from phub.torch.distributed._trust import Agreement, SignedBoard, Trust
from phub.torch.distributed._work import Collective, GroupThread, Pending, Several

_SECONDS_MAX = 3600.0  # that the servers wait for a start
_NAME = "phub_job"
_Begun = TypeVar("_Begun", bound=Pending)


@never_compiled
@with_new_names
class Calls:
    """What torch.distributed calls. Collectives are made in the order of the calls, by a thread of the group's own.
    What a call raises at once was not begun, and is the caller's; what its work raises is final for the group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta, label: str,
                 racks: Optional[str] = None) -> None:
        """`label`: of this group alone among those of its run, the same at every rank. `racks`: of its ranks, if several."""
        super().__init__(rank, size)  # type: ignore[call-arg]  # of PyTorch's class
        self._rank, self._size = rank, size
        self._seconds = min(timeout.total_seconds(), _SECONDS_MAX)
        first = _first_group()
        board = Board(store)
        job = _agree_on_name(board if first is None else SignedBoard(board, first.trust, label, self._seconds), rank,
                             self._seconds)
        options = Options(job=job, workers=size, worker_index=rank, rule="sum", timeout=self._seconds, racks=racks)
        servers = options.addresses()
        self._thread = GroupThread(Exchange(options))
        if size == 1:
            self.trust = Trust.alone()
        elif first is not None:
            self.trust = first.trust.for_group(job, self._seconds)
        else:
            self.trust = Trust()
            self._thread.add(Agreement(self.trust, rank == 0))
        signed = SignedBoard(board, self.trust, job, self._seconds)
        self._peers = _peers.Peers(signed, self.trust, rank, size, servers, self._seconds)
        self._monitor = Monitor(signed, rank, size)
        self._coalesced: Optional[List[Pending]] = None  # what was begun since _start_coalescing

    def getBackendName(self) -> str:
        return "phub"

    def name(self) -> str:
        return "phub"

    def _begin(self, tensors: Sequence[torch.Tensor], call: Callable[[Exchange], None]) -> Collective:
        return self._begun(self._thread.add(Collective(call, list(tensors))))

    def _begun(self, work: _Begun) -> _Begun:
        if self._coalesced is not None:  # without what is over: an end that never comes keeps no tensors
            self._coalesced = [*(each for each in self._coalesced if not each.is_success()), work]
        return work

    # ---- reductions ---------------------------------------------------------------------------------

    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Collective:
        if any(tensor.layout == torch.sparse_coo for tensor in tensors):
            return self._sum_sparse(tensors, _op_of(opts))
        return self._reduce(tensors, _op_of(opts), None)

    def _sum_sparse(self, tensors: List[torch.Tensor], op: str) -> Collective:
        for tensor in tensors:
            _sparse.check(tensor, op)

        moments = [Moment(tensor) for tensor in tensors]

        def call(exchange: Exchange) -> None:
            for tensor, moment in zip(tensors, moments):
                with moment.later():
                    tensor.copy_(_sparse.summed(exchange, tensor, self._rank, self._size))
        return self._begin(tensors, call)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> Collective:
        return self._reduce(tensors, _op_of(opts), None)

    def reduce(self, tensors: List[torch.Tensor], opts: Any) -> Collective:
        return self._reduce(tensors, _op_of(opts), opts.rootRank)

    def _reduce(self, tensors: List[torch.Tensor], op: str, root: Optional[int]) -> Collective:
        copies = [HostCopy(tensor) for tensor in tensors]
        for tensor in tensors:
            _reduce.check(tensor, op)

        def call(exchange: Exchange) -> None:
            owns = [copy.get() for copy in copies]
            if overlap(tensors):  # all are read before one is written
                owns = [own.clone() for own in owns]
            for copy, own in zip(copies, owns):
                is_wanted = root is None or root == self._rank
                total = _reduce.reduced(exchange, own, op, self._rank, self._size, in_place=is_wanted)
                if is_wanted:
                    copy.put(total)
        return self._begin(tensors, call)

    def reduce_scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any = None) -> Collective:
        return self._reduce_scatter(outputs[0], inputs[0], _op_of(opts))

    def reduce_scatter_tensor_coalesced(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor],
                                        opts: Any = None) -> Several:
        return Several([self._reduce_scatter_base(output, source, opts) for output, source in zip(outputs, inputs)])

    def _reduce_scatter_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Collective:
        return self._reduce_scatter(output, list(flat(source).chunk(self._size)), _op_of(opts))

    def _reduce_scatter(self, output: torch.Tensor, parts: List[torch.Tensor], op: str) -> Collective:
        _check_parts(parts, self._size, "reduce_scatter")
        _reduce.check(output, op)
        own, copies = HostCopy(output, is_read=False), [HostCopy(part) for part in parts]

        def call(exchange: Exchange) -> None:
            whole = torch.cat([copy.get() for copy in copies])
            total = _reduce.reduced(exchange, whole, op, self._rank, self._size)
            own.put(total.split([copy.numel() for copy in copies])[self._rank])
        return self._begin([output], call)

    # ---- copies -------------------------------------------------------------------------------------

    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> Collective:
        copies = [HostCopy(tensor) for tensor in tensors]
        is_root = opts.rootRank == self._rank

        def call(exchange: Exchange) -> None:
            for copy in copies:
                mine = copy.get()
                received = exchange.broadcast(_reduce.raw(mine), is_root)
                if not is_root:
                    copy.put(received.view(mine.dtype))
        return self._begin(tensors, call)

    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Collective:
        pairs = list(zip(outputs, inputs))
        for output, _ in pairs:
            _check_parts(output, self._size, "all_gather")
        return self._gather(pairs)

    def allgather_coalesced(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor],
                            opts: Any = None) -> Collective:
        # One list for each rank of what it has.
        return self._gather([([ranks[i] for ranks in outputs], each) for i, each in enumerate(inputs)])

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None) -> Collective:
        if output.numel() != self._size * source.numel():
            raise ValueError(f"phub: all_gather of {source.numel()} elements into {output.numel()}; it takes as many as all "
                             f"{self._size} ranks have")
        return self._gather([([output], source)])

    def allgather_into_tensor_coalesced(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor],
                                        opts: Any = None) -> Collective:
        return self._gather([([output], source) for output, source in zip(outputs, inputs)])

    def gather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any) -> Collective:
        is_root = opts.rootRank == self._rank
        if is_root:
            _check_parts(outputs[0], self._size, "gather")
        return self._gather([(outputs[0] if is_root else [], inputs[0])])

    def gather_into_tensor(self, output: torch.Tensor, source: torch.Tensor, opts: Any) -> Collective:
        return self._gather([([output] if opts.rootRank == self._rank else [], source)])

    def _gather(self, pairs: Any) -> Collective:
        """(outputs, input): all ranks' inputs, one after another, into the outputs; none: they are not wanted here."""
        copies = []
        for outputs, source in pairs:
            for output in outputs:
                if output.dtype != source.dtype:
                    raise TypeError(f"phub: a gather of {source.dtype} into {output.dtype}")
            wanted = source.numel() if len(outputs) == self._size else self._size * source.numel()
            if any(each.numel() != wanted for each in outputs):
                raise ValueError(f"phub: a gather of {source.numel()} elements of each of {self._size} ranks into tensors "
                                 f"of {[each.numel() for each in outputs]}")
            copies.append(([HostCopy(output, is_read=False) for output in outputs], HostCopy(source)))

        def call(exchange: Exchange) -> None:
            for outputs, source in copies:
                own = source.get()
                whole = torch.cat(exchange.gather(_reduce.raw(own), self._rank, self._size)).view(own.dtype)
                for output, part in zip(outputs, whole.split([output.numel() for output in outputs]) if outputs else ()):
                    output.put(part)
        return self._begin([output for outputs, _ in pairs for output in outputs], call)

    def scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Collective:
        is_root = opts.rootRank == self._rank
        parts = [HostCopy(part) for part in (inputs[0] if is_root else [])]
        if is_root:
            _check_parts(inputs[0], self._size, "scatter")
        if any(part.numel() != outputs[0].numel() for part in parts):
            raise ValueError(f"phub: a scatter of {[part.numel() for part in parts]} elements into tensors of "
                             f"{outputs[0].numel()}; give each rank as many")
        own = HostCopy(outputs[0])

        def call(exchange: Exchange) -> None:
            mine = own.get()
            whole = torch.cat([part.get() for part in parts]) if is_root else mine.repeat(self._size)
            received = exchange.broadcast(_reduce.raw(whole), is_root).view(mine.dtype)
            own.put(received[self._rank * mine.numel():(self._rank + 1) * mine.numel()])
        return self._begin(outputs, call)

    def alltoall_base(self, output: torch.Tensor, source: torch.Tensor, output_split: List[int], input_split: List[int],
                      opts: Any = None) -> Collective:
        received = list(output.split(output_split)) if output_split else list(output.chunk(self._size))
        sent = list(source.split(input_split)) if input_split else list(source.chunk(self._size))
        return self.alltoall(received, sent)

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Collective:
        _check_parts(outputs, self._size, "all_to_all")
        _check_parts(inputs, self._size, "all_to_all")
        received, sent = [HostCopy(each, is_read=False) for each in outputs], [HostCopy(each) for each in inputs]

        def call(exchange: Exchange) -> None:
            whole = torch.cat([each.get() for each in sent])
            lengths = torch.tensor([each.numel() for each in sent])
            of_all = [part.view(torch.int64).tolist()
                      for part in exchange.gather(_reduce.raw(lengths), self._rank, self._size)]
            # Everybody sends as much as the one that has most.
            padded = whole.new_zeros(max(sum(each) for each in of_all))
            padded[:whole.numel()] = whole
            for rank, part in enumerate(exchange.gather(_reduce.raw(padded), self._rank, self._size)):
                begin = sum(of_all[rank][:self._rank])
                if received[rank].numel() != of_all[rank][self._rank]:
                    raise Error(f"all_to_all: rank {rank} sends {of_all[rank][self._rank]} elements to this one, which has "
                                f"room for {received[rank].numel()}")
                received[rank].put(part.view(whole.dtype)[begin:begin + of_all[rank][self._rank]])
        return self._begin(outputs, call)

    def barrier(self, opts: Any = None) -> Collective:
        def call(exchange: Exchange) -> None:
            exchange.sum(torch.zeros(1))
        return self._begin([], call)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """As torch.distributed.monitored_barrier. `timeout`: a timedelta, or seconds."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        self._monitor.wait(self._seconds if seconds is None else float(seconds), wait_all_ranks)

    # ---- from one rank to another: not over the servers ----------------------------------------------

    def send(self, tensors: List[torch.Tensor], to: int, tag: int = 0) -> Send:
        return self._begun(self._peers.send(tensors[0], to, tag))

    def recv(self, tensors: List[torch.Tensor], source: int, tag: int = 0) -> Receive:
        return self._begun(self._peers.receive(tensors[0], source, tag))

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Receive:
        return self._begun(self._peers.receive(tensors[0], None, tag))

    def _start_coalescing(self, *_: Any) -> None:
        """What follows until the end may be one; here each goes by itself."""
        self._coalesced = []

    def _end_coalescing(self, *_: Any) -> Several:
        """What is over when all that was begun since is."""
        works, self._coalesced = self._coalesced or [], None
        return Several(works)


class Group(Named, Calls, dist.ProcessGroup):  # type: ignore[misc]
    """A process group whose only backend this is."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta, label: str,
                 racks: Optional[str] = None) -> None:
        super().__init__(store, rank, size, timeout, label, racks)
        self.take_names(rank, size)


class DeviceBackend(Calls, BackendOfPyTorch):  # type: ignore[misc]
    """One of a process group's backends, for tensors of its device. PyTorch hands on nothing of the works that the calls
    return but wait and get_future."""

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        super().monitored_barrier(opts.timeout, wait_all_ranks)


def calls_of(group: Any) -> Optional[Calls]:
    """None: the group's backend for the CPU is not of this kind."""
    if not isinstance(group, Calls) and hasattr(group, "_get_backend"):  # 2
        try:
            group = group._get_backend(torch.device("cpu"))
        except RuntimeError:
            return None
    return group if isinstance(group, Calls) else None


def _op_of(opts: Any) -> str:
    return "SUM" if opts is None else _reduce.name_of(opts.reduceOp)


def _check_parts(parts: Sequence[torch.Tensor], size: int, what: str) -> None:
    if len(parts) != size:
        raise ValueError(f"phub: {what} has {len(parts)} tensors for {size} ranks; give one for each")


def _first_group() -> Optional[Calls]:
    """The one whose secret the others are made of: None for itself, and where it is of another backend."""
    return calls_of(dist.distributed_c10d._get_default_group()) if dist.is_initialized() else None


def _agree_on_name(board: Union[Board, SignedBoard], rank: int, seconds: float) -> str:
    """A name that no other group has, of this run or another."""
    run = os.environ.get("PHUB_JOB", "")
    if rank == 0:
        board.write(_NAME, f"{run or 'torch'}-group-{uuid.uuid4().hex[:12]}")
    name = board.read(_NAME, seconds)
    if name is None:
        raise Error(f"after a timeout of {seconds:g} s rank 0 has not begun the group")
    if run and not name.startswith(f"{run}-group-"):
        raise Error(f"the group's store names the job {name!r}, and this rank's PHUB_JOB is {run!r}: PHUB_JOB must be the same "
                    "at every rank, and the store at MASTER_ADDR this run's own")
    return name

"""A worker's place in a job: keys, push, wait."""
from __future__ import annotations

import ctypes
import math
import operator
import os
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from phub import _library
from phub.errors import Error, ForkedError
from phub.options import Options, text

# A wait looks at signals so often.
_SLICE_MS = 100
# For what was interrupted to end, seconds.
_INTERRUPTED = 10.0
_FLOAT_MAX = 3.4028235677973366e38  # what rounds to more than a 32-bit float has is above it
# In the library's message of what a server refused.
_TAKEN = "ALREADY_EXISTS"


class Key(NamedTuple):
    """What is exchanged under a name; the names of a job are different."""

    name: str
    elements: int
    weight_decay: float = 0.0
    exclude_from_lars: bool = False


def _for_c(index: int, key: Key) -> Tuple[bytes, int, float, bool]:
    """ctypes would take the lowest bits of a number that is too large, and C a name up to its NUL. Raises Error."""
    field = f"keys[{index}]"
    name = text(f"{field}.name", key.name)
    try:
        elements = operator.index(key.elements)
    except TypeError:
        raise Error(f'{field}.elements: "{key.name}" has {key.elements!r}, which is not a whole number') from None
    if not 0 < elements < 2**64:
        raise Error(f'{field}.elements: "{key.name}" has {elements}, which is {"below 1" if elements < 1 else "too large"}')
    return name, elements, _real(f"{field}.weight_decay", key.weight_decay), bool(key.exclude_from_lars)


def _real(field: str, value: Any) -> float:
    """As C's float has it. Raises Error where that is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Error(f"{field}: {value!r} is not a number") from None
    if math.isfinite(number) and abs(number) > _FLOAT_MAX:
        raise Error(f"{field}: {number} is too large for 32 bits")
    return number


def _count(field: str, value: Any) -> int:
    """As C's uint64_t has it. Raises Error where that is none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{field}: {value!r} is not a whole number") from None
    if not 0 <= number < 2**64:
        raise Error(f"{field}: {number} is {'below 0' if number < 0 else 'too large'}")
    return number


def _slice_ms(left_ms: float) -> int:
    return max(1, round(min(left_ms, _SLICE_MS)))


def _destroy(library: ctypes.CDLL, client: int, process: int) -> None:
    if os.getpid() == process:
        library.phub_destroy(client)


def _connect(library: ctypes.CDLL, options: Options) -> int:
    given = options.for_c()
    named = library.phub_options_new()
    try:
        for name, value in given:
            error = ctypes.c_char_p()
            if library.phub_options_set(named, name, value, ctypes.byref(error)) != 0:
                raise Error((error.value or b"").decode(errors="replace"))
        return int(library.phub_connect(named))
    finally:
        library.phub_options_destroy(named)


class _Handle:
    """The client in the library. It lives as long as somebody has a view of its memory, at most until the
    interpreter ends."""

    def __init__(self, options: Options) -> None:
        self.library = _library.load()
        self.process = os.getpid()
        self.client = _connect(self.library, options)
        self.leave = weakref.finalize(self, _destroy, self.library, self.client, self.process)


class Client:
    """A worker of a job, as phub::Client of phub.h (in the sources); what that says of the order of calls holds.

    One thread at a time. Every method raises Error with the library's message. An error of push or wait that comes
    of a server, a worker or the time is final for the job, and names who caused it. What a call refuses leaves the
    job as it is, and so does an error of add_keys or snapshot.
    What waits can be interrupted by a signal's handler, Ctrl-C above all. After register_keys, add_keys, initialise
    or snapshot the client is of no use then, but to be closed; a wait goes on when it is called again. In a forked
    child every method raises ForkedError.
    """

    def __init__(self, options: Options) -> None:
        """Checks the options; register_keys joins the job."""
        self.options = options
        self._indexes: Dict[str, int] = {}
        self._views: Dict[Any, Any] = {}
        self._closed = ""
        self._handle = _Handle(options)
        try:
            self._raise_error()
        except Error:
            self.close()
            raise

    def close(self) -> None:
        """Leaves the job. Arrays that view this client's memory keep it, and the place in the job, until they go."""
        self._closed = self._closed or "this client is closed"
        self._views.clear()
        self.__dict__.pop("_handle", None)

    def interrupt(self) -> None:
        """What waits, and what waits from then on, ends soon with an Error. Any thread; close the client then."""
        handle = self.__dict__.get("_handle")
        if handle is not None and handle.process == os.getpid():
            handle.library.phub_interrupt(handle.client)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def register_keys(self, keys: Sequence[Key]) -> None:
        """Joins the job, and waits until all of its workers have. Called once; keys come in forward order."""
        self._tell_keys("phub_register_keys", keys)

    def add_keys(self, keys: Sequence[Key]) -> None:
        """Adds keys while the job runs. Every worker calls it with the same list, and it waits for them; where lists
        differ, all of them are told the key. Not with clip_norm, a quorum or a nonce; 32 times at most. With a rule that
        has parameters initialise follows. After an error of a server's no keys can be added any more."""
        self._tell_keys("phub_add_keys", keys)

    def gradient(self, key: Union[int, str]) -> ctypes.Array:
        """The memory that push sends, to be written; not between push and wait."""
        return self._memory("phub_gradient", key)

    def parameter(self, key: Union[int, str]) -> ctypes.Array:
        """The memory that has the result after wait, until the next push of the key. Only to be read: to write it may
        end the process."""
        return self._memory("phub_parameter", key)

    def kept_view(self, make: Callable[["Client", int], Any], key: Union[int, str]) -> Any:
        """What make(client, key) returns, made once for each key and kept until the client is closed."""
        index = self._index(key)
        view = self._views.get((make, index))
        if view is None:
            view = self._views[make, index] = make(self, index)
        return view

    def push(self, key: Union[int, str]) -> None:
        self._call("phub_push", self._index(key))

    def wait(self, key: Union[int, str]) -> None:
        self._wait(self._index(key), math.inf)

    def wait_all(self) -> None:
        self._wait(_library.ALL_KEYS, math.inf)

    def wait_for(self, key: Union[int, str], seconds: float) -> bool:
        """Whether it is there within so long. The next call for the same key goes on with this wait."""
        return self._wait(self._index(key), seconds)

    def push_pull(self, key: Union[int, str]) -> None:
        self.push(key)
        self.wait(key)

    def initialise(self) -> None:
        """Of rules with parameters: makes worker 0's gradients everybody's first parameters."""
        self._call_beside("phub_initialise")

    def set_hyper(self, learning_rate: float, momentum: float = 0.0, gradient_scale: float = 0.0) -> None:
        """Of the rounds whose pushes follow. Only worker 0's count. A gradient_scale of 0: a mean."""
        self._call("phub_set_hyper", _real("learning_rate", learning_rate), _real("momentum", momentum),
                   _real("gradient_scale", gradient_scale))

    def set_samples(self, samples: float) -> None:
        """With rounds.weight "samples": images or tokens of each of this worker's pushes that follow."""
        self._call("phub_set_samples", _real("samples", samples))

    def report_steps(self, seconds: float, input_seconds: float, exchange_seconds: float, steps: int = 1,
                     samples: int = 0) -> None:
        """What the steps since the last call took: all of it, the waits for samples, and the waits for the exchange.
        `samples`: that this worker used in them; 0: they are not counted. Servers show it: `phubctl job explain` names
        who waits for what."""
        self._call("phub_report_steps", _count("steps", steps), _count("samples", samples), _real("seconds", seconds),
                   _real("input_seconds", input_seconds), _real("exchange_seconds", exchange_seconds))

    def set_loss_scale(self, loss_scale: float) -> None:
        """In a job that votes, with an encoding: of the gradients that are pushed from now on, if it is not that of the last
        vote. Before the first push of a round."""
        self._call("phub_set_loss_scale", _real("loss_scale", loss_scale))

    def vote(self, overflow: bool, loss_scale: float) -> None:
        """Ends a round of a job that votes, after its last push."""
        self._call("phub_vote", bool(overflow), _real("loss_scale", loss_scale))

    def snapshot(self) -> List[str]:
        """Has every server of every rack keep the job as it is after the last round that was waited for. Returns "FILE at
        SERVER" of each, which `phubctl restore` takes. Needs servers with a state_folder, a rule with parameters, and no
        added keys. Every push has been waited for."""
        files = ctypes.c_char_p()
        self._call_beside("phub_snapshot", ctypes.byref(files))
        return (files.value or b"").decode().splitlines()

    def was_skipped(self, key: Union[int, str]) -> bool:
        return self._get("phub_was_skipped", self._index(key)) != 0

    def end(self, reason: str) -> None:
        """Asks all workers of the job to stop after the same step (is_last); the reason is told to all."""
        self._call("phub_end", reason.encode())

    @property
    def ending(self) -> Optional[str]:
        """Why the job is to end, as planned: a worker or a server was asked to stop. None: it is not."""
        handle = self._usable()
        text = handle.library.phub_ending(handle.client)
        return None if text is None else text.decode(errors="replace")

    def is_last(self, steps: int, ahead: int = 2) -> bool:
        """Asked by each worker after the pushes of step `steps` (the first is 1): whether to stop now, as all others do.
        Worker 0 waits here for the others, `timeout` at most. `ahead` is right where each step needs every worker's
        push of the step before."""
        status = self._get("phub_is_last", steps, ahead)
        if status not in (0, _library.LAST):
            self._raise_error()
        return status == _library.LAST

    @property
    def rounds_before(self) -> int:
        """Rounds that a job restored from a snapshot has behind it."""
        return self._get("phub_rounds_before")

    @property
    def worker_index(self) -> int:
        return self._get("phub_worker_index")

    @property
    def workers(self) -> int:
        return self._get("phub_workers")

    def _tell_keys(self, name: str, keys: Sequence[Key]) -> None:
        array = (_library.Key * len(keys))(*(_for_c(index, key) for index, key in enumerate(keys)))
        try:
            self._call_beside(name, array, len(keys))
        except Error as error:
            # A code at its start says who refused: of a server's, which knows neither options nor environment.
            if _TAKEN not in str(error):
                raise
            raise Error(f"{error}; another run's job may have the name: give this run one of its own, by job=... or PHUB_JOB, "
                        "the same at each of its ranks (where ranks of several launchers are to be one run, run=...)") from None
        first = len(self._indexes)
        self._indexes.update({key.name: first + index for index, key in enumerate(keys)})

    def _usable(self) -> _Handle:
        if self._closed:
            raise Error(self._closed)
        handle = self._handle
        if handle.process != os.getpid():
            raise ForkedError(f"this client belongs to process {handle.process}, which forked this one: make a client "
                              "of its own here, or use it only there")
        return handle

    def _index(self, key: Union[int, str]) -> int:
        self._usable()
        if isinstance(key, str):
            if key not in self._indexes:
                raise Error(f"key {key} is not registered")
            return self._indexes[key]
        try:
            index = operator.index(key)
        except TypeError:
            raise Error(f"key {key!r} is neither a name nor a number") from None
        if not 0 <= index < _library.ALL_KEYS:  # C would take its lowest bits, or all keys
            raise Error(f"key {index} does not exist: keys are counted from 0 on")
        return index

    def _raise_error(self) -> None:
        handle = self._usable()
        message = handle.library.phub_error(handle.client)
        if message is not None:
            raise Error(message.decode(errors="replace"))

    def _get(self, name: str, *arguments: Any) -> int:
        handle = self._usable()
        return getattr(handle.library, name)(handle.client, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        if self._get(name, *arguments) != 0:
            self._raise_error()

    def _memory(self, name: str, key: Union[int, str]) -> ctypes.Array:
        handle = self._usable()
        size = ctypes.c_size_t()
        address = getattr(handle.library, name)(handle.client, self._index(key), ctypes.byref(size))
        if address is None:
            raise Error(f"key {key} is not registered")
        memory = (ctypes.c_char * size.value).from_address(address)
        memory._phub_handle = handle  # type: ignore[attr-defined]  # the memory is the client's
        return memory

    def _wait(self, key: int, seconds: float) -> bool:
        """Whether it is there within so long."""
        handle = self._usable()
        wait_for: Callable[[int, int, int], int] = handle.library.phub_wait_for
        end = time.monotonic() + seconds
        left_ms = seconds * 1000
        status = wait_for(handle.client, key, _slice_ms(left_ms))
        while status == _library.NOT_YET and left_ms > _SLICE_MS:  # between two slices Python's signal handlers run
            left_ms = (end - time.monotonic()) * 1000
            status = wait_for(handle.client, key, _slice_ms(left_ms))
        if status not in (0, _library.NOT_YET):
            self._raise_error()
        return status == 0

    def _call_beside(self, name: str, *arguments: Any) -> None:
        """A call that waits for others and has no slices runs in a thread of its own, so that a signal finds its handler
        here. Then the call is ended; one that goes on all the same, for a server that does not answer, or because
        somebody is in a hurry, is left behind, and the client to it."""
        if threading.current_thread() is not threading.main_thread():
            self._call(name, *arguments)
            return
        handle = self._usable()
        results = []
        is_over = threading.Event()
        left_behind = []

        def call() -> None:
            results.append(getattr(handle.library, name)(handle.client, *arguments))
            is_over.set()
            if left_behind:
                _destroy(handle.library, handle.client, handle.process)

        thread = threading.Thread(target=call, name=name, daemon=True)
        try:
            thread.start()
            while not is_over.wait(_SLICE_MS / 1000):
                pass
        except BaseException as interruption:
            if thread.ident is None and isinstance(interruption, RuntimeError):
                raise  # there can be no more threads
            self._closed = f"this client was interrupted in {name}"
            try:
                self.interrupt()
                is_over.wait(_INTERRUPTED)
            finally:
                if not is_over.is_set():
                    handle.leave.detach()  # the call may still be in the client when the interpreter ends
                    left_behind.append(True)
            raise
        if results != [0]:
            self._raise_error()

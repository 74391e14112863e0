"""Sums of float32 over a job whose keys come as they are needed.

A key is a size: 256 elements, and then each power of two up to 4 Mi. A tensor goes over several of them at once, so that
little is sent in vain; what is larger than the largest goes over it in turns. Ranks call the same collectives in the same
order, so all of them add the same keys at the same time; behind the values is how many the whole collective has, which
must be the same at all.
"""
from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Tuple

import torch

from phub.client import Client, Key
from phub.errors import Error
from phub.options import Options
from phub.torch import _tensors

SMALLEST, LARGEST = 2**8, 2**22  # elements: at most 14 sets of added keys
# Over racks all keys are there from the join on, so none may share a chunk with another: each has a whole one.
_SMALLEST_OVER_RACKS = 2**13
# What may be sent in vain: this part of a tensor, or so many elements, which cost less than a further key.
_VAIN_PART, _VAIN_ELEMENTS = 8, 2**12
# A length is seven digits of 64, and their squares: of at most 4,096 ranks float32 has the sums exactly, and these are of
# equal ones only where ranks * the sum of squares is the square of the sum (Cauchy and Schwarz).
_DIGITS, _DIGIT_BITS = 7, 6
_WORDS = 2 * _DIGITS


def key_size(elements: int, smallest: int = SMALLEST) -> int:
    """Of the smallest key that has room for so many."""
    size = smallest
    while size < min(elements, LARGEST):
        size *= 2
    return size


def key_sizes(elements: int, smallest: int = SMALLEST) -> List[int]:
    """Of the keys that a tensor goes over, one after another; only the last has more room than it needs."""
    in_vain = max(elements // _VAIN_PART, _VAIN_ELEMENTS)
    sizes: List[int] = []
    left = elements
    while left > 0:
        size = key_size(left, smallest)
        if size - left > in_vain and size > smallest:
            size //= 2
        sizes.append(size)
        left -= size
    return sizes


class Exchange:
    """Belongs to one thread, but for stop."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._smallest = _SMALLEST_OVER_RACKS if options.get("racks") else SMALLEST
        self._client: Optional[Client] = None
        self._views: Dict[int, Any] = {}  # by size: the key's gradient and result
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        """What waits ends soon, with an Error. Any thread."""
        self._is_stopped.set()
        client = self._client
        if client is not None:
            client.interrupt()

    def close(self) -> None:
        self._views = {}
        if self._client is not None:
            self._client.close()

    def abandon(self) -> None:
        """The interpreter ends while this is in the library: leave the client alone."""
        handle = None if self._client is None else self._client.__dict__.get("_handle")
        if handle is not None:  # else it is closed: the thread is leaving
            handle.leave.detach()

    def explained(self, failure: BaseException) -> BaseException:
        """With what the servers were told to wait, where they have."""
        if isinstance(failure, Error) and str(failure).startswith("DEADLINE_EXCEEDED"):
            return Error(f"the group's timeout of {self._options.timeout:g} s has passed: {failure}")
        return failure

    def sum(self, values: torch.Tensor, result: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Of all ranks' `values`, flat float32 of the same length everywhere, added in the order of ranks. In `result`, which
        may be `values`, where it is given: fresh memory for each sum costs more than the copy into it."""
        result = torch.empty_like(values) if result is None else result
        sizes = key_sizes(values.numel(), self._smallest)
        for size in sizes:
            if size not in self._views:
                self._add(size)
        under_way: Dict[int, Tuple[int, int]] = {}  # by key: which elements
        begin = 0
        for size in sizes:
            if size in under_way:
                self._take(size, result[slice(*under_way.pop(size))], values.numel())
            under_way[size] = begin, min(begin + size, values.numel())
            self._push(size, values[slice(*under_way[size])], values.numel())
            begin += size
        for size, part in under_way.items():
            self._take(size, result[slice(*part)], values.numel())
        return result

    def _push(self, size: int, values: torch.Tensor, whole: int) -> None:
        gradient = self._views[size][0]
        gradient[:values.numel()].copy_(values)
        gradient[size:].copy_(length_words(whole))
        assert self._client is not None
        self._client.push(f"{size} elements")

    def _take(self, size: int, result: torch.Tensor, whole: int) -> None:
        assert self._client is not None
        self._wait(self._client, f"{size} elements")
        parameter = self._views[size][1]
        if not are_equal(parameter[size:], self._options.workers):
            raise Error(f"ranks have tensors of different sizes in one collective; this one's has {whole} elements")
        result.copy_(parameter[:result.numel()])

    def _add(self, size: int) -> None:
        sizes = [size]
        if self._client is None:
            if self._smallest != SMALLEST:  # such a job takes no keys later
                sizes = [2**power for power in range(self._smallest.bit_length() - 1, LARGEST.bit_length())]
            self._client = Client(self._options)
            self._client.register_keys([_key(each) for each in sizes])
        else:
            self._client.add_keys([_key(size)])
        for each in sizes:
            name = _key(each).name
            self._views[each] = _tensors.gradient(self._client, name), _tensors.parameter(self._client, name)

    def _wait(self, client: Client, key: str) -> None:
        while not client.wait_for(key, 0.1):
            if self._is_stopped.is_set():
                raise Error("the group was left while a collective was under way")

    # ---- what is not to be added: bytes, each 16 bits of which are an integer in a float32 ----------

    def gather(self, own: torch.Tensor, rank: int, ranks: int) -> List[torch.Tensor]:
        """Every rank's bytes, as many at each. Exact: beside one rank's integers the others have zeros."""
        words = words_of(own)
        length = words.numel()
        all_words = torch.zeros(ranks * length)
        all_words[rank * length:(rank + 1) * length] = words
        return [bytes_of(part, own.numel()) for part in self.sum(all_words).split(length or 1)] if length else [own] * ranks

    def broadcast(self, own: torch.Tensor, is_root: bool) -> torch.Tensor:
        """The root's bytes, of which there are as many at each."""
        words = words_of(own) if is_root else torch.zeros((own.numel() + 1) // 2)
        return bytes_of(self.sum(words), own.numel())


def _key(size: int) -> Key:
    return Key(f"{size} elements", size + _WORDS)


def length_words(elements: int) -> torch.Tensor:
    digits = [elements >> _DIGIT_BITS * i & 2**_DIGIT_BITS - 1 for i in range(_DIGITS)]
    return torch.tensor(digits + [digit * digit for digit in digits], dtype=torch.float32)


def are_equal(sums: torch.Tensor, ranks: int) -> bool:
    """Whether these are the sums of as many equal lengths."""
    words = [int(word) for word in sums.tolist()]
    return all(ranks * squares == total * total for total, squares in zip(words[:_DIGITS], words[_DIGITS:]))


def words_of(data: torch.Tensor) -> torch.Tensor:
    """Flat uint8 as float32, two of them in each."""
    if data.numel() % 2 == 1:
        data = torch.cat([data, data.new_zeros(1)])
    elif data.storage_offset() % 2 == 1:  # a view of another size begins at a whole element of it
        data = data.clone()
    return data.view(torch.int16).to(torch.int32).bitwise_and(0xFFFF).to(torch.float32)


def bytes_of(words: torch.Tensor, count: int) -> torch.Tensor:
    return words.to(torch.int32).to(torch.int16).view(torch.uint8)[:count]

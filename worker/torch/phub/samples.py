"""The order of a training's samples, as phub-worker uses them."""
from __future__ import annotations

import ctypes
import operator
import weakref
from typing import Any, List

from phub import _library
from phub.errors import Error


class SampleStream:
    """An endless stream of samples: each epoch has every sample once, in an order that follows from the seed.

    A position of the stream says what a training has used. Any thread may read. Raises Error for a field that makes no
    sense.
    """

    def __init__(self, samples: int, seed: int = 0) -> None:
        self.samples = whole("samples", samples, 1, 2**32 - 1)
        self.seed = whole("seed", seed, 0, 2**64 - 1)
        library = _library.load()
        self._read = library.phub_samples_read
        self._handle = ctypes.c_void_p(library.phub_samples_new(self.samples, self.seed))
        if not self._handle:
            raise MemoryError(f"samples: there is no memory for {self.samples}")
        self._end = weakref.finalize(self, library.phub_samples_destroy, self._handle)

    def read(self, first: int, count: int) -> List[int]:
        """The samples at the positions from `first` on."""
        count = whole("count", count, 0, 2**32)
        first = whole("first", first, 0, 2**64 - 1 - count)
        numbers = (ctypes.c_uint32 * count)()
        if self._read(self._handle, first, count, numbers) != 0:
            raise MemoryError(f"samples: there is no memory for the order of {self.samples}")
        return list(numbers)

    def __reduce__(self) -> Any:
        return type(self), (self.samples, self.seed)


def whole(field: str, value: Any, low: int, high: int) -> int:
    """The number, if it is a whole one within the bounds. Raises Error."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{field}: {value!r} is not a whole number") from None
    if not low <= number <= high:
        raise Error(f"{field}: {number} is not from {low} to {high}")
    return number

"""The C ABI of libphub.so by ctypes: phub_c.h, declaration by declaration. Private to the package.

ctypes.CDLL gives up the GIL for the time of each call.
"""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import shutil
import sys
import sysconfig
from typing import Dict, List, Tuple

from phub.errors import LibraryError

ABI = 1
NOT_YET = 2
LAST = 3
ALL_KEYS = 2**32 - 1

_text, _float, _double, _int, _u32, _u64 = (
    ctypes.c_char_p, ctypes.c_float, ctypes.c_double, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64)
_client = _options = _samples = ctypes.c_void_p
_bytes = ctypes.POINTER(ctypes.c_size_t)

# Folders of a prefix where CMake installs libraries.
_FOLDERS = ["lib", "lib64"] + [f"lib/{each}" for each in [sysconfig.get_config_var("MULTIARCH")] if each]


class Key(ctypes.Structure):
    _fields_ = [("name", _text), ("elements", _u64), ("weight_decay", _float), ("exclude_from_lars", _int)]


# By name: the result's type and the arguments'.
SIGNATURES: Dict[str, Tuple[object, List[object]]] = {
    "phub_version": (_text, []),
    "phub_options_new": (_options, []),
    "phub_options_destroy": (None, [_options]),
    "phub_options_set": (_int, [_options, _text, _text, ctypes.POINTER(_text)]),
    "phub_connect": (_client, [_options]),
    "phub_destroy": (None, [_client]),
    "phub_interrupt": (None, [_client]),
    "phub_error": (_text, [_client]),
    "phub_register_keys": (_int, [_client, ctypes.POINTER(Key), ctypes.c_size_t]),
    "phub_add_keys": (_int, [_client, ctypes.POINTER(Key), ctypes.c_size_t]),
    "phub_gradient": (ctypes.c_void_p, [_client, _u32, _bytes]),
    "phub_parameter": (ctypes.c_void_p, [_client, _u32, _bytes]),
    "phub_push": (_int, [_client, _u32]),
    "phub_wait": (_int, [_client, _u32]),
    "phub_wait_all": (_int, [_client]),
    "phub_wait_for": (_int, [_client, _u32, _u32]),
    "phub_push_pull": (_int, [_client, _u32]),
    "phub_initialise": (_int, [_client]),
    "phub_snapshot": (_int, [_client, ctypes.POINTER(_text)]),
    "phub_rounds_before": (_u64, [_client]),
    "phub_set_hyper": (_int, [_client, _float, _float, _float]),
    "phub_set_samples": (_int, [_client, _float]),
    "phub_report_steps": (_int, [_client, _u64, _u64, _double, _double, _double]),
    "phub_set_loss_scale": (_int, [_client, _float]),
    "phub_vote": (_int, [_client, _int, _float]),
    "phub_was_skipped": (_int, [_client, _u32]),
    "phub_end": (_int, [_client, _text]),
    "phub_ending": (_text, [_client]),
    "phub_is_last": (_int, [_client, _u64, _u32]),
    "phub_worker_index": (_u32, [_client]),
    "phub_workers": (_u32, [_client]),
    "phub_samples_new": (_samples, [_u64, _u64]),
    "phub_samples_destroy": (None, [_samples]),
    "phub_samples_read": (_int, [_samples, _u64, ctypes.c_size_t, ctypes.POINTER(_u32)]),
}


def _candidates() -> List[str]:
    chosen = os.environ.get("PHUB_LIBRARY")
    if chosen:
        return [chosen]
    name = f"libphub.so.{ABI}"
    # A prefix of one's own, which the loader does not know, is where the programs of the same installation are, or this
    # package. The loader knows /usr/local/lib only once ldconfig has run.
    programs = [shutil.which(program) for program in ("phub-server", "phub-worker", "phubctl")]
    prefixes = [sys.prefix, *(os.path.dirname(os.path.dirname(each)) for each in programs if each),
                *map(str, pathlib.Path(__file__).resolve().parents[1:]), "/usr/local"]
    places = [os.path.join(prefix, folder, name) for prefix in prefixes for folder in _FOLDERS]
    return [name, *dict.fromkeys(place for place in places if os.path.exists(place))]


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The library, loaded once. Raises LibraryError where it is not."""
    failures = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
            continue
        for name, (result, arguments) in SIGNATURES.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise LibraryError(f"{path} has no {name}: it is older than this package; install the libphub "
                                   "that came with it") from None
            function.restype, function.argtypes = result, arguments
        return library
    raise LibraryError("libphub.so cannot be loaded (" + "; ".join(failures) + "): install it with `cmake --install "
                       "BUILD --component library`; of a prefix that the loader does not know, have PREFIX/bin in PATH, or "
                       "say in PHUB_LIBRARY where the library is")


def library_version() -> str:
    """Of the libphub that is loaded, as "0.1.0"."""
    return load().phub_version().decode()

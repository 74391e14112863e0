"""A server's snapshot of a job, as server/snapshot/file.h (in the sources) describes it: safetensors with a checksum."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

import torch

from phub.errors import Error

_HEADER_BYTES_MAX = 100_000_000  # as the servers have it


class Part(NamedTuple):
    """A tensor of the file: a run of a key's elements."""

    title: str
    key: str
    array: str  # "", the parameters; "state", "exp_avg", "exp_avg_sq", "ema", "rack_rest"
    begin: int  # elements
    end: int
    offset: int  # bytes, in the file


class Snapshot:
    def __init__(self, path: pathlib.Path, keys: Iterable[str]) -> None:
        """Reads the header; `keys` are the job's. Raises Error."""
        self.path = path
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, _HEADER_BYTES_MAX)))
            self.metadata: Dict[str, str] = header.pop("__metadata__")
            known = set(keys)
            entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
            self.parts = [_part(title, entry["data_offsets"], 8 + length, known) for title, entry in entries]
        except OSError as error:
            raise Error(f"the snapshot {path} cannot be read: {error.strerror}; is its server's state_folder here, and readable?"
                        ) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Error(f"{path} is no snapshot of a server's") from None
        if self.metadata.get("format") != "phub-snapshot" or self.metadata.get("version") not in ("1", "2"):
            raise Error(f"{path} is no snapshot of a version that is known here")

    @property
    def steps(self) -> int:
        """Updates that were made: neither the initial round nor those that votes left out."""
        return int(self.metadata["round"]) - 1 - int(self.metadata.get("left_out", "0"))

    def values(self, part: Part) -> torch.Tensor:
        """A copy."""
        count = part.end - part.begin
        with self.path.open("rb") as file:
            file.seek(part.offset)
            data = bytearray(file.read(4 * count))
        if len(data) != 4 * count:
            raise Error(f"the snapshot {self.path} ends before its data: it is damaged, take another")
        return torch.frombuffer(data, dtype=torch.float32) if count > 0 else torch.empty(0)

    def verify(self) -> None:
        """Reads all. Raises Error where the checksum is another."""
        if self.metadata["sha256"] != _digest(self.metadata, ((part.title, self.values(part)) for part in self.parts)):
            raise Error(f"the snapshot {self.path} has another checksum than it was written with: it is damaged, take another")


def write(path: pathlib.Path, metadata: Dict[str, str], tensors: List[Tuple[str, torch.Tensor]]) -> None:
    """Flat tensors of float32, in this order. Under another name until it is whole."""
    metadata = {name: text for name, text in metadata.items() if name != "sha256"}
    metadata = {**metadata, "version": "2"}
    metadata["sha256"] = _digest(metadata, tensors)
    header: Dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for title, values in tensors:
        end = offset + 4 * values.numel()
        header[title] = {"dtype": "F32", "shape": [values.numel()], "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    unfinished = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, values in tensors:
                file.write(_bytes_of(values))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise Error(f"the snapshot {path} cannot be written: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _part(title: str, offsets: List[int], data: int, keys: "set[str]") -> Part:
    base, array = title, ""
    if _without_run(base)[0] not in keys:
        base, _, array = title.rpartition(".")
    key, begin = _without_run(base)
    if key not in keys:
        raise ValueError(title)
    return Part(title, key, array, begin, begin + (offsets[1] - offsets[0]) // 4, data + offsets[0])


def _without_run(title: str) -> Tuple[str, int]:
    """The key, and from which element on."""
    run = re.fullmatch(r"(.*)\[(\d+):\d+\]", title, re.S)
    return (run[1], int(run[2])) if run else (title, 0)


def _digest(metadata: Dict[str, str], tensors: Iterable[Tuple[str, torch.Tensor]]) -> str:
    digest = hashlib.sha256()
    if metadata["version"] != "1":
        for name in sorted(set(metadata) - {"sha256"}):
            text = metadata[name].encode()
            digest.update(f"{name}={len(text)}:".encode() + text)
    for title, values in tensors:
        digest.update(f"{title}:{values.numel()};".encode())
        digest.update(_bytes_of(values))
    return digest.hexdigest()


def _bytes_of(values: torch.Tensor) -> bytes:
    return values.contiguous().view(torch.uint8).numpy().tobytes() if values.numel() > 0 else b""

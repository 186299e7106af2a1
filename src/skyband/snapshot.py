"""Numbers, text and arrays as checked bytes: nothing in a snapshot is code.

Layout: magic, version, digest of the rest, length of the header, header (JSON), then the arrays' bytes one after
another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from skyband.errors import SnapshotError

__all__ = ["VERSION", "Migration", "decode", "encode", "migrated", "resuming"]

Migration = Callable[[dict[str, Any]], dict[str, Any]]  # what one version saved, as the version after it saves it

MAGIC = b"SKYBAND\x00"
VERSION = 1
_DIGEST = 16
_PLAIN = "biufmM"  # kinds of arrays: numbers and times; an object could be anything
_HEAD = len(MAGIC) + 4 + _DIGEST


def encode(values: Mapping[str, Any]) -> bytes:
    """Pack JSON values, bytes and arrays, nested in mappings and lists, into one blob.

    >>> decode(encode({"k": 3, "scores": np.array([1.5, 2.5])}))["scores"]
    array([1.5, 2.5])
    """
    buffers = _Buffers()
    header = json.dumps(buffers.describe(values), separators=(",", ":")).encode()
    body = b"".join([len(header).to_bytes(8, "little"), header, *buffers.parts])
    return b"".join([MAGIC, VERSION.to_bytes(4, "little"), blake2b(body, digest_size=_DIGEST).digest(), body])


def decode(blob: bytes) -> dict[str, Any]:
    """Unpack what `encode` packed, after checking that it is whole and of this version."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise SnapshotError(f"a snapshot is bytes, not {type(blob).__name__}; pass what snapshot() returned.")
    blob = bytes(blob)
    if len(blob) < _HEAD or not blob.startswith(MAGIC):
        raise SnapshotError(f"these {len(blob)} bytes are no Skyband snapshot; nothing was resumed.")
    version = int.from_bytes(blob[len(MAGIC) : len(MAGIC) + 4], "little")
    if version != VERSION:
        raise SnapshotError(
            f"the snapshot has version {version} and this library reads version {VERSION}; "
            "resume it with the library that wrote it."
        )
    body = blob[_HEAD:]
    if blake2b(body, digest_size=_DIGEST).digest() != blob[_HEAD - _DIGEST : _HEAD]:
        raise SnapshotError(
            f"the snapshot of {len(blob)} bytes is damaged (its checksum differs); nothing was resumed."
        )
    with resuming():  # a checksum that is right says that nothing was damaged, not who wrote it
        stop = 8 + int.from_bytes(body[:8], "little")
        values = _restore(json.loads(body[8:stop]), memoryview(body)[stop:])
        if not isinstance(values, dict):
            raise TypeError(f"it is a {type(values).__name__}")
    return values


def migrated(saved: dict[str, Any], what: str, version: int, migrations: Mapping[int, Migration]) -> dict[str, Any]:
    """What was saved, as `version` saves it; ``migrations[n]`` leads from version n to n + 1.

    The number stands under ``"version"``; what was saved before there was one is version 1.

    >>> migrated({"k": 3}, "of a test", 2, {1: lambda saved: {**saved, "order": "desc"}})
    {'k': 3, 'order': 'desc'}
    """
    found = saved.get("version", 1)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise TypeError(f"version={found!r} is none")
    if found > version:
        raise SnapshotError(
            f"the snapshot {what} has version {found} and this library reads versions up to {version}; nothing was "
            "resumed. Resume it with the release of Skyband that wrote it, or a newer one."
        )
    for number in range(found, version):
        saved = migrations[number](saved)
    return saved


@contextmanager
def resuming() -> Iterator[None]:
    """Whatever goes wrong inside is the fault of a blob that holds something else than it should."""
    try:
        yield
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(
            f"the snapshot is whole but does not hold what this library writes ({type(error).__name__}: {error}); "
            "nothing was resumed. Resume it with what wrote it."
        ) from error


class _Buffers:
    """The arrays met while a value is described, and where the next one will stand."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._size = 0

    def describe(self, value: Any) -> Any:
        """The JSON form of `value`, in which arrays and bytes are named by their type and place."""
        if isinstance(value, np.ndarray):
            return {"$array": [value.dtype.str, list(value.shape), self._place(np.ascontiguousarray(value).tobytes())]}
        if isinstance(value, bytes):
            return {"$bytes": [len(value), self._place(value)]}
        if isinstance(value, Mapping):
            return {key: self.describe(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.describe(item) for item in value]
        if isinstance(value, np.generic):
            return value.item()
        return value

    def _place(self, data: bytes) -> int:
        at = self._size
        self.parts.append(data)
        self._size += len(data)
        return at


def _restore(value: Any, data: memoryview) -> Any:
    if isinstance(value, list):
        return [_restore(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        kind, shape, at = value["$array"]
        dtype = np.dtype(str(kind))
        if dtype.kind not in _PLAIN:
            raise TypeError(f"an array of {dtype} is none of numbers or times")
        count = int(np.prod(shape, dtype=np.int64))
        # A copy: kernels write into resumed arrays, and a view of the blob would be read-only.
        return np.frombuffer(data, dtype, count, at).reshape(shape).copy()
    if "$bytes" in value:
        length, at = value["$bytes"]
        if not 0 <= at <= at + length <= len(data):
            raise ValueError(f"{length} bytes at {at} are not there")
        return bytes(data[at : at + length])
    return {key: _restore(item, data) for key, item in value.items()}

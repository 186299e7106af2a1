"""Serialize numbers, text and arrays to bytes with a checksum. A snapshot contains no code.

Layout: magic, version, digest of the rest, length of the header, header (JSON), then the bytes of the arrays. The
version is that of this layout. Stored states have separate versions: see `StateFormat`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from skyband.errors import SnapshotError

__all__ = ["FORMATS", "VERSION", "StateFormat", "decode", "encode", "refuse_other_family", "resuming", "unchanged"]

MAGIC = b"SKYBAND\x00"
VERSION = 1
_DIGEST = 16
_PLAIN = "biufmM"  # dtype kinds: numbers and times, no objects
_HEAD = len(MAGIC) + 4 + _DIGEST


def encode(values: Mapping[str, Any]) -> bytes:
    """Serialize JSON values, bytes and arrays, nested in mappings and lists.

    >>> decode(encode({"k": 3, "scores": np.array([1.5, 2.5])}))["scores"]
    array([1.5, 2.5])
    """
    buffers = _Buffers()
    # json calls `describe` only for what it does not know, so that a thousand queries are written by compiled code.
    header = json.dumps(dict(values), separators=(",", ":"), default=buffers.describe).encode()
    body = [len(header).to_bytes(8, "little"), header, *buffers.parts]
    digest = blake2b(digest_size=_DIGEST)
    for part in body:
        digest.update(part)
    return b"".join([MAGIC, VERSION.to_bytes(4, "little"), digest.digest(), *body])


def decode(blob: bytes) -> dict[str, Any]:
    """Deserialize the bytes of `encode`, after checking the version and the checksum."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise SnapshotError(f"a snapshot must be bytes, got {type(blob).__name__}. Pass the result of snapshot().")
    blob = bytes(blob)
    if len(blob) < _HEAD or not blob.startswith(MAGIC):
        raise SnapshotError(f"these {len(blob)} bytes are not a Skyband snapshot; nothing was resumed.")
    version = int.from_bytes(blob[len(MAGIC) : len(MAGIC) + 4], "little")
    if version != VERSION:
        raise SnapshotError(
            f"the snapshot has version {version}, but this library supports version {VERSION}; nothing was resumed. "
            "Resume it with the version of Skyband that wrote it."
        )
    body = memoryview(blob)[_HEAD:]
    if blake2b(body, digest_size=_DIGEST).digest() != blob[_HEAD - _DIGEST : _HEAD]:
        raise SnapshotError(
            f"the snapshot of {len(blob)} bytes is damaged (its checksum differs); nothing was resumed."
        )
    with resuming():  # a correct checksum does not prove that Skyband wrote the contents
        stop = 8 + int.from_bytes(body[:8], "little")
        # Decode as UTF-8: given bytes, json would guess the encoding and load its codec.
        restore = partial(_restore, body[stop:])
        values = json.loads(str(body[8:stop], "utf-8"), object_hook=restore)
        if not isinstance(values, dict):
            raise TypeError(f"expected a mapping, got {type(values).__name__}")
    return values


def refuse_other_family(saved: Mapping[str, Any], family: str) -> None:
    """Raise if the snapshot is of another family; snapshots of top-k monitors store no family."""
    found = saved.get("family", "topk")
    if found != family:
        mine, other = (f"skyband.{'' if one == 'topk' else f'{one}.'}Monitor" for one in (family, found))
        raise SnapshotError(
            f"the snapshot was written by {other}, not by {mine}; nothing was resumed. Use {other}.resume."
        )


@contextmanager
def resuming() -> Iterator[None]:
    """Convert any error inside to a SnapshotError about unexpected contents."""
    try:
        yield
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(
            f"the snapshot has a correct checksum but unexpected contents ({type(error).__name__}: {error}); "
            "nothing was resumed. Resume it with the program that wrote it."
        ) from error


class _Buffers:
    """The bytes of the arrays in a value, and the offset of the next one."""

    def __init__(self) -> None:
        self.parts: list[Any] = []  # bytes, or arrays of bytes
        self._size = 0

    def describe(self, value: Any) -> Any:
        """Return a value that JSON does not know as one that it does: arrays and bytes as their type and offset."""
        if isinstance(value, np.ndarray):
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)  # the same memory
            return {"$array": [value.dtype.str, list(value.shape), self._place(data)]}
        if isinstance(value, bytes):
            return {"$bytes": [len(value), self._place(value)]}
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"a snapshot cannot contain {value!r} of type {type(value).__name__}")

    def _place(self, data: Any) -> int:
        at = self._size
        self.parts.append(data)
        self._size += len(data)
        return at


def _restore(data: memoryview, value: dict[str, Any]) -> Any:
    """Return the array or the bytes that a mapping stands for, or the mapping; `data` contains the bytes."""
    if "$array" in value:
        kind, shape, at = value["$array"]
        dtype = np.dtype(str(kind))
        if dtype.kind not in _PLAIN:
            raise TypeError(f"an array of {dtype} does not contain numbers or times")
        count = int(np.prod(shape, dtype=np.int64))
        # A copy, because kernels write to resumed arrays, and a view of bytes is read-only.
        return np.frombuffer(data, dtype, count, at).reshape(shape).copy()
    if "$bytes" in value:
        length, at = value["$bytes"]
        if not 0 <= at <= at + length <= len(data):
            raise ValueError(f"{length} bytes at offset {at} are missing")
        return bytes(data[at : at + length])
    return value


Migration = Callable[[dict[str, Any]], dict[str, Any]]
FORMATS: dict[str, StateFormat] = {}  # all imported formats by name


class StateFormat:
    """A kind of stored state: its name, its version, and the migrations from earlier versions.

    A state without a version is of version 1, from before versions were stored. `migrations` convert version 1 to 2,
    2 to 3, and so on to the current version. To change what is stored, append a migration. Keep the golden files in the
    tests, and add those of the new version.

    >>> totals = StateFormat("example totals", [lambda saved: {"total": saved["sum"]}])
    >>> totals.decode(encode({"sum": 3}))
    {'total': 3}
    >>> totals.decode(totals.encode({"total": 3}))
    {'total': 3}
    """

    def __init__(
        self,
        name: str,
        migrations: Sequence[Migration],
        *,
        pack: Callable[[Mapping[str, Any]], bytes] = encode,
        unpack: Callable[[bytes], dict[str, Any]] = decode,
    ) -> None:
        self.name = name
        self.version = 1 + len(migrations)
        self._migrations = tuple(migrations)
        self._pack, self._unpack = pack, unpack
        FORMATS[name] = self

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Serialize the state with its version."""
        return self._pack(self.stamped(values))

    def decode(self, blob: bytes) -> dict[str, Any]:
        """Deserialize a state of this or an earlier version, converted to this version."""
        return self.migrated(self._unpack(blob))

    def stamped(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state with its version."""
        return {"version": self.version, **values}

    def migrated(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored state converted to this version, without the version number; raise if it is later."""
        values = dict(saved)
        found = values.pop("version", 1)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= self.version:
            raise SnapshotError(
                f"the stored state of the {self.name} has version {found!r}, but this library supports versions 1 to "
                f"{self.version}. Nothing was resumed, and the stored state was not changed. Resume it with the "
                "version of Skyband that wrote it or a later one, or start without it."
            )
        for migrate in self._migrations[found - 1 :]:
            values = migrate(values)
        return values


def unchanged(saved: dict[str, Any]) -> dict[str, Any]:
    """Migrate without changes, to a version that only adds the version number."""
    return saved

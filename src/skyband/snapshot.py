"""Numbers, text and arrays as checked bytes: nothing in a snapshot is code.

Layout: magic, version, digest of the rest, length of the header, header (JSON), then the arrays' bytes one after
another. The version there is that of the layout. What is stored in it counts versions of its own: see `StateFormat`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from skyband.errors import SnapshotError

__all__ = ["FORMATS", "VERSION", "StateFormat", "decode", "encode", "refuse_other_family", "resuming", "unchanged"]

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
        # Read as UTF-8 only: of bytes, json would guess another encoding and load its codec.
        values = _restore(json.loads(str(body[8:stop], "utf-8")), memoryview(body)[stop:])
        if not isinstance(values, dict):
            raise TypeError(f"it is a {type(values).__name__}")
    return values


def refuse_other_family(saved: Mapping[str, Any], family: str) -> None:
    """Refuse what was saved by the monitor of another family of queries; top-k queries say nothing of theirs."""
    found = saved.get("family", "topk")
    if found != family:
        mine, other = (f"skyband.{'' if one == 'topk' else f'{one}.'}Monitor" for one in (family, found))
        raise SnapshotError(
            f"the snapshot is not one of {mine}, it is one of {other}; nothing was resumed. Use {other}.resume."
        )


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


Migration = Callable[[dict[str, Any]], dict[str, Any]]
FORMATS: dict[str, StateFormat] = {}  # by name: all that have been loaded


class StateFormat:
    """One kind of stored state: its name, its version, and how a state of an earlier version becomes one of this.

    A state that says no version is of version 1, from before versions were stored. `migrations` lead from version 1 to
    2, from 2 to 3, and so on to the version that is written. To change what is stored, append a migration; the golden
    files in the tests stay as they are, and those of the new version are added.

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
        """The state as bytes that say their version."""
        return self._pack(self.stamped(values))

    def decode(self, blob: bytes) -> dict[str, Any]:
        """The state behind bytes of this version or an earlier one, as this version has it."""
        return self.migrated(self._unpack(blob))

    def stamped(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The state with its version."""
        return {"version": self.version, **values}

    def migrated(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """A stored state as this version has it, without the version; SnapshotError if it is of a later one."""
        values = dict(saved)
        found = values.pop("version", 1)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= self.version:
            raise SnapshotError(
                f"the stored state of the {self.name} has version {found!r}, and this library reads versions 1 to "
                f"{self.version}. Nothing was resumed, and what is stored was not changed. Resume it with the version "
                "of Skyband that wrote it or a later one, or start without it."
            )
        for migrate in self._migrations[found - 1 :]:
            values = migrate(values)
        return values


def unchanged(saved: dict[str, Any]) -> dict[str, Any]:
    """The migration where a new version differs only in that it says its version."""
    return saved

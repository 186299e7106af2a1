"""Avro object container files: the header, and blocks of records.

A block has a number of records, its size, compressed records, and the sync marker of the file. The marker shows where
blocks begin, so a part of a file can be read from any position.
"""

from __future__ import annotations

import bz2
import lzma
import mmap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.connectors.arrow.unreadable import UnreadableError, reading

__all__ = ["Block", "Container", "is_complete", "opened_container"]

_MAGIC = b"Obj\x01"
_MARKER = 16  # bytes of a sync marker
_LARGEST = 1 << 30  # bytes of a block; decompressed too
_MOST_ENTRIES = 1000  # of the metadata


class Block(NamedTuple):
    """Compressed records."""

    number: int | None  # of the block in the file; None if the file is read from a later position
    rows: int
    begin: int  # position of the records in the file
    end: int
    problem: str = ""  # why it cannot be read, if so


class Container:
    """An opened file. Raises UnreadableError for what is not a container."""

    def __init__(self, data: Any) -> None:
        self._data = data
        if bytes(data[:4]) != _MAGIC:
            raise UnreadableError("it does not begin as an Avro file")
        entries, at = self._entries(4)
        if "avro.schema" not in entries:
            raise UnreadableError("its header has no schema")
        self.schema = entries["avro.schema"]
        codec = entries.get("avro.codec", b"null").decode("utf-8", "replace")
        if codec not in _CODECS:
            raise UnreadableError(f"its compression {codec!r} is not one of {', '.join(_CODECS)}")
        self._codec = _CODECS[codec]
        self._marker = bytes(data[at : at + _MARKER])
        if len(self._marker) < _MARKER:
            raise UnreadableError("its header is cut off")
        self._first = at + _MARKER

    @property
    def is_complete(self) -> bool:
        """Whether the file ends with its marker."""
        return bytes(self._data[-_MARKER:]) == self._marker

    def blocks(self, begin: int = 0, end: int | None = None, limit: int | None = None) -> Iterator[Block]:
        """Yield the blocks after each marker that begins in a range of positions; `limit`: bytes that are used."""
        size = len(self._data) if limit is None else min(limit, len(self._data))
        end = size if end is None else end
        number: int | None = 0
        at = self._first
        if begin > at - _MARKER:
            number = None
            found = self._data.find(self._marker, begin)
            if found < 0:
                return
            at = found + _MARKER
        while at < size and at - _MARKER < end:
            rows, here = self._number(at)
            length, here = self._number(here)
            if rows < 0 or not 0 <= length <= _LARGEST:
                raise UnreadableError(f"the block at byte {at} has {rows} rows in {length} bytes")
            if bytes(self._data[here + length : here + length + _MARKER]) != self._marker:
                raise UnreadableError(f"the block at byte {at} does not end with the marker of the file")
            yield Block(number, rows, here, here + length)
            number = None if number is None else number + 1
            at = here + length + _MARKER

    def records(self, block: Block) -> bytes:
        """Return the decompressed records of a block."""
        with reading():
            try:
                return self._codec(bytes(self._data[block.begin : block.end]))
            except (zlib.error, lzma.LZMAError, ValueError, EOFError) as error:
                raise UnreadableError(str(error) or "its compression is damaged") from None

    def _entries(self, at: int) -> tuple[dict[str, bytes], int]:
        """Return the metadata in the header, and the position after it."""
        found: dict[str, bytes] = {}
        while True:
            count, at = self._number(at)
            if count < 0:
                count = -count
                _, at = self._number(at)
            if not count:
                return found, at
            if count > _MOST_ENTRIES:
                raise UnreadableError("its header is damaged")
            for _ in range(count):
                name, at = self._bytes(at)
                value, at = self._bytes(at)
                found[name.decode("utf-8", "replace")] = value

    def _bytes(self, at: int) -> tuple[bytes, int]:
        size, at = self._number(at)
        if not 0 <= size <= len(self._data) - at:
            raise UnreadableError("its header is damaged")
        return bytes(self._data[at : at + size]), at + size

    def _number(self, at: int) -> tuple[int, int]:
        word, shift = 0, 0
        for place in range(10):
            if at + place >= len(self._data):
                raise UnreadableError("it is cut off")
            byte = self._data[at + place]
            word |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (word >> 1) ^ -(word & 1), at + place + 1
        raise UnreadableError(f"there is no number at byte {at}")


@contextmanager
def opened_container(file: Path) -> Iterator[Container]:
    """Open a file; errors of opening it and of its header are UnreadableErrors."""
    with reading(), file.open("rb") as stream:
        if not file.stat().st_size:
            raise UnreadableError("it has no bytes")
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        yield Container(data)


def is_complete(file: Path) -> bool:
    """Return whether a file ends with its marker, so that no block is cut off."""
    try:
        with opened_container(file) as container:
            return container.is_complete
    except UnreadableError:
        return False


def _inflated(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(-15)
    found = unpacker.decompress(data, _LARGEST)
    if not unpacker.eof:
        raise ValueError("a block is cut off, or is larger than 1 GiB")
    return found


def _snappy(data: bytes) -> bytes:
    body, checksum = data[:-4], data[-4:]
    size = shift = 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _LARGEST:
        raise ValueError("a block is larger than 1 GiB")
    found = bytes(pa.decompress(body, size, codec="snappy")) if body else b""
    if zlib.crc32(found).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum of a block is wrong")
    return found


def _zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(_LARGEST + 1)
    return _limited(found)


def _bzip2(data: bytes) -> bytes:
    return _limited(bz2.BZ2Decompressor().decompress(data, _LARGEST + 1))


def _xz(data: bytes) -> bytes:
    return _limited(lzma.LZMADecompressor().decompress(data, _LARGEST + 1))


def _limited(data: bytes) -> bytes:
    if len(data) > _LARGEST:
        raise ValueError("a block is larger than 1 GiB")
    return data


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}

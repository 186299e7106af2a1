"""The log of the files that a stream has read, in the format of Spark's own file source.

A checkpoint has one folder for each source. It holds one list of files for each offset of the source; every tenth list
repeats all earlier ones. Spark's file source and Skyband's read and write the same lists, so a stream can resume with
either. A list is written before Spark plans the micro-batch that reads its files; a repeated micro-batch reads the same
list.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import uuid4
from zlib import crc32

from skyband.errors import SnapshotError

__all__ = ["INTERVAL", "FileEntry", "FileLog", "uri_of"]

INTERVAL = 10  # Spark's default: every tenth list repeats the earlier ones
KEPT = 100  # older lists are removed, as Spark does
_VERSION = "v1"
_COMPACT = ".compact"
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*,;:$&+=@/")
_ASCII = 128


class FileEntry(NamedTuple):
    """A file that a stream reads."""

    path: str
    modified: int  # milliseconds since 1970; of a table: the version or snapshot that added it
    size: int | None  # bytes; None if Spark wrote the entry


class FileLog:
    """The lists of one source. `interval` is the session's setting of how often a list repeats the earlier ones."""

    def __init__(self, folder: Path, interval: int = INTERVAL) -> None:
        self._folder = folder
        self._batch_of: dict[str, int] = {}  # by path
        self._lists: dict[int, list[FileEntry]] = {}
        self._interval = _interval(interval, self._load())

    @property
    def last(self) -> int:
        """The number of the last list; -1 if there is none."""
        return max(self._lists, default=-1)

    @property
    def versions(self) -> tuple[int, int] | None:
        """The versions of a table that added the first and the last file; None if no file was read."""
        lists = [self._lists[number] for number in sorted(self._lists) if self._lists[number]]
        return (lists[0][0].modified, lists[-1][-1].modified) if lists else None

    def __contains__(self, path: str) -> bool:
        return path in self._batch_of

    def between(self, start: int, end: int) -> list[FileEntry]:
        """Return the files of the lists after `start`, up to `end`."""
        return [entry for number in range(start + 1, end + 1) for entry in self._lists.get(number, ())]

    def require(self, number: int) -> None:
        """Raise if Spark has planned a list that is not there: its files would be read a second time."""
        if number > self.last:
            raise self._damaged(str(number), f"Spark has planned it, but the last list is {self.last}")

    def add(self, entries: Sequence[FileEntry]) -> int:
        """Write a list of files; return its number. When this returns, the list survives a crash."""
        number = self.last + 1
        compact = (number + 1) % self._interval == 0
        lists = {**self._lists, number: list(entries)} if compact else {number: entries}
        lines = [_line(number, entry, len(some)) for number, some in lists.items() for entry in some]
        self._write(f"{number}{_COMPACT if compact else ''}", "\n".join([_VERSION, *lines]))
        self._remember(number, entries)
        if compact:
            self._clean(number)
        return number

    def _load(self) -> list[int]:
        """Read the lists; return the numbers of those that repeat all earlier ones."""
        if not self._folder.is_dir():
            return []
        names = {int(name.partition(".")[0]): name for name in os.listdir(self._folder) if name[:1].isdecimal()}
        compact = sorted(number for number, name in names.items() if name.endswith(_COMPACT))
        for number in range(compact[-1] if compact else 0, max(names, default=-1) + 1):
            if number not in names:
                raise self._damaged(str(number), "it is missing")
            for batch, entries in self._read(names[number]).items():
                self._remember(batch, entries)
            self._lists.setdefault(number, [])
        return compact

    def _remember(self, number: int, entries: Iterable[FileEntry]) -> None:
        self._lists.setdefault(number, []).extend(entries)
        self._batch_of.update((entry.path, number) for entry in self._lists[number])

    def _read(self, name: str) -> dict[int, list[FileEntry]]:
        try:
            version, *lines = (self._folder / name).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise self._damaged(name, str(error)) from None
        if version != _VERSION:
            raise self._damaged(name, f"its version is {version!r}, and only {_VERSION!r} is supported")
        found: dict[int, list[FileEntry]] = {}
        wanted: dict[int, int] = {}  # by batch: how many entries it has, if the lines contain it
        for line in lines:
            batch, entry, count = self._parsed(name, line)
            found.setdefault(batch, []).append(entry)
            if count is not None:
                wanted[batch] = count
        for batch, count in wanted.items():
            if len(found[batch]) != count:
                raise self._damaged(name, f"it has {len(found[batch])} of the {count} files of batch {batch}")
        number = int(name.partition(".")[0])
        if number not in found and (found or not name.endswith(_COMPACT)):
            raise self._damaged(name, f"it has no files of batch {number}")
        if not name.endswith(_COMPACT) and len(found) > 1:
            raise self._damaged(name, f"it has files of the batches {', '.join(map(str, sorted(found)))}")
        return found

    def _parsed(self, name: str, line: str) -> tuple[int, FileEntry, int | None]:
        try:
            raw: dict[str, Any] = json.loads(line)
            path = unquote(str(raw["path"]).removeprefix("file:").replace("//", "", 1))
            entry = FileEntry(path, int(raw["timestamp"]), raw.get("size"))
            batch = int(raw["batchId"])
            count, seal = raw.get("of") or (None, None)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(name, f"{line[:200]!r} is not an entry ({error})") from None
        check = _checksum(batch, entry)
        if ("check" in raw and raw["check"] != check) or (count is not None and seal != _seal(check, count)):
            raise self._damaged(name, f"the checksum of {line[:200]!r} is wrong")
        return batch, entry, count

    def _damaged(self, name: str, why: str) -> SnapshotError:
        return SnapshotError(
            f"the list of read files {str(self._folder / name)!r} cannot be used: {why}. Files would be skipped or "
            "read twice, so the stream was not started. Restore the checkpoint from a backup, or start with a new one."
        )

    def _write(self, name: str, text: str) -> None:
        target = self._folder / name
        unfinished = self._folder / f".{name}.{uuid4().hex}.tmp"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if target.exists():
                raise SnapshotError(
                    f"{str(target)!r} was written by another process. Two streams must not share a checkpoint; stop "
                    "the other one."
                )
            with unfinished.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            (self._folder / f".{name}.crc").unlink(missing_ok=True)  # Spark's checksum of a removed list
            os.replace(unfinished, target)
        except OSError as error:
            raise SnapshotError(
                f"the list of read files {str(target)!r} cannot be written ({error.strerror or error}). The stream "
                "stopped; no data is lost. Make the checkpoint writable and run it again."
            ) from None

    def _clean(self, compact: int) -> None:
        """Remove lists that the last ones repeat."""
        for name in os.listdir(self._folder):
            number = name.removeprefix(".").partition(".")[0]
            if number.isdecimal() and int(number) < compact - KEPT:
                (self._folder / name).unlink(missing_ok=True)


def uri_of(path: str) -> str:
    """Return the URI of a local path as Spark writes it.

    >>> uri_of("/data/a b%é.csv")
    'file:///data/a%20b%25é.csv'
    """
    return "file://" + "".join(
        letter if letter in _LEGAL or (ord(letter) >= _ASCII and letter.isprintable()) else _escaped(letter)
        for letter in path
    )


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogateescape"))


def _line(number: int, entry: FileEntry, count: int) -> str:
    """Return an entry as a line. `count` is how many entries its batch has, so that a missing line is noticed."""
    raw: dict[str, Any] = {"path": uri_of(entry.path), "timestamp": entry.modified, "batchId": number}
    if entry.size is not None:
        check = _checksum(number, entry)
        raw |= {"size": entry.size, "check": check, "of": [count, _seal(check, count)]}
    return json.dumps(raw, ensure_ascii=False, separators=(",", ":"))


def _checksum(number: int, entry: FileEntry) -> int:
    return crc32(repr((entry.path, entry.modified, entry.size, number)).encode("utf-8", "surrogateescape"))


def _seal(check: int, count: int) -> int:
    return crc32(f"{check} {count}".encode())


def _interval(default: int, compact: Sequence[int]) -> int:
    """Return the interval with which a log was written, as Spark derives it from the compact lists.

    >>> _interval(10, []), _interval(10, [9, 19]), _interval(10, [29]), _interval(10, [4]), _interval(4, [29])
    (10, 10, 10, 5, 5)
    """
    if not compact:
        return default
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    lists = compact[0] + 1
    if lists <= default:
        return lists
    if default < lists / 2:
        return next((at for at in range(default, lists // 2 + 1) if lists % at == 0), lists)
    return lists

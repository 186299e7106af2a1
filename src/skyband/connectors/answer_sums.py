"""Checksums of files of answers: SHA-256, in a file of the checkpoint, with lines as the command sha256sum writes them.

A run does not read its answers again, so it does not notice damage to them. `skyband verify --checksums` does, without
the input and without computing answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from threading import Lock
from typing import NamedTuple

__all__ = ["SUMS", "AnswerSums", "CheckedFiles"]

SUMS = "answers.sha256"  # in the checkpoint of a stream
_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)")
_WRITING = Lock()  # the sinks of a stream share a list
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


class CheckedFiles(NamedTuple):
    """Files of answers, compared with their checksums."""

    agree: int
    changed: list[str]  # files whose content differs from their checksum
    missing: list[str]
    unknown: list[str]  # files without a checksum: of an earlier version, or written with --once
    unreadable: list[int]  # numbers of damaged lines of the list

    @property
    def are_intact(self) -> bool:
        """Whether no file with a checksum was changed or removed."""
        return not (self.changed or self.missing or self.unreadable)


class AnswerSums:
    r"""The checksums of the files that the sinks of a stream have written.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     answers, sums = Path(folder, "s-00000000.csv"), AnswerSums(Path(folder, SUMS))
    ...     _ = answers.write_text("query,rank\n")
    ...     sums.put([answers])
    ...     _ = answers.write_text("query,rang\n")
    ...     checked = sums.check([answers])
    >>> checked.agree, [Path(name).name for name in checked.changed]
    (0, ['s-00000000.csv'])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mended = False

    def put(self, files: Iterable[Path]) -> None:
        """Append the checksums of new files."""
        lines = [_line(file) for file in files]
        with _WRITING:
            self._mend()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as out:
                out.write(b"".join(lines))

    def drop(self, path: Path) -> None:
        """Remove the checksums of a file, or of the files in a folder, before it is replaced or removed."""
        with _WRITING:
            name, inside = str(path.absolute()), f"{path.absolute()}{os.sep}"
            if self.path.exists():
                self._rewrite(line for line, named in self._lines() if named != name and not named.startswith(inside))

    def check(self, files: Iterable[Path]) -> CheckedFiles:
        """Compare the files that are listed with their checksums. `files` are those that exist, to find others."""
        found = CheckedFiles(0, [], [], [], [])
        sums: dict[str, str] = {}
        for number, (line, name) in enumerate(self._lines(), 1):
            if not name:
                found.unreadable.append(number)
            else:
                sums[name] = line.lstrip(b"\\")[:64].decode()
        for name, expected in sums.items():
            try:
                is_same = _digest(Path(name)) == expected
            except FileNotFoundError:
                found.missing.append(name)
                continue
            if not is_same:
                found.changed.append(name)
        found.unknown.extend(name for name in map(str, (file.absolute() for file in files)) if name not in sums)
        return found._replace(agree=len(sums) - len(found.changed) - len(found.missing))

    def _lines(self) -> Iterator[tuple[bytes, str]]:
        """Yield each line, and the path in it; an empty path if the line is damaged."""
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            yield line, _path_in(line)

    def _mend(self) -> None:
        """Remove a last line that a killed run has not finished: its micro-batch is repeated."""
        if self._mended:
            return
        self._mended = True
        if self.path.exists() and not (content := self.path.read_bytes()).endswith(b"\n") and content:
            self._rewrite(content.splitlines(keepends=True)[:-1])

    def _rewrite(self, lines: Iterable[bytes]) -> None:
        unfinished = self.path.with_name(f".{self.path.name}.new")
        unfinished.write_bytes(b"".join(lines))
        os.replace(unfinished, self.path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _line(path: Path) -> bytes:
    name = str(path.absolute())
    escaped = "".join(_ESCAPED.get(letter, letter) for letter in name)
    return f"{chr(92) if escaped != name else ''}{_digest(path)}  {escaped}\n".encode(errors="surrogateescape")


def _path_in(line: bytes) -> str:
    """Return the path in a line, or an empty text if the line is damaged."""
    match = _LINE.fullmatch(line.removesuffix(b"\n").decode(errors="surrogateescape"))
    if match is None or not line.endswith(b"\n"):
        return ""
    plain = {two: one for one, two in _ESCAPED.items()}
    return re.sub(r"\\[\\nr]", lambda found: plain[found[0]], match[3]) if match[1] else match[3]

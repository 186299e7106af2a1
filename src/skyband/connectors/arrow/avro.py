"""Rows of Avro files. Columns are matched by name, as by Avro's rules: new ones are ignored, missing ones are null."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.connectors.arrow.avro_container import Block, Container, opened_container
from skyband.connectors.arrow.avro_schema import (
    AvroColumn,
    AvroProgram,
    AvroSchemaError,
    is_read_as,
    program_of,
    united,
)
from skyband.connectors.arrow.avro_values import AvroValueError, decoded, typed
from skyband.connectors.arrow.batches import FileRows
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.texts import checked_texts
from skyband.connectors.arrow.unreadable import UnreadableError, UnreadableFiles
from skyband.connectors.files import FilesSource
from skyband.errors import InvalidInputError
from skyband.expressions.types import spark_name
from skyband.kernels.avro import PROBLEMS

__all__ = ["AvroFiles", "program_in"]


_BYTES = 1 << 22  # of decompressed blocks that are decoded at a time


class AvroFiles:
    """The rows of Avro files. Without `declared` columns, those of all files together, each in the widest type."""

    def __init__(self, name: str, stream: FilesSource, files: Sequence[Path], declared: pa.Schema | None) -> None:
        self._name, self._unreadable = name, UnreadableFiles(name, stream)
        self.schema = self._united(files) if declared is None else declared
        self._programs: dict[bytes, tuple[AvroProgram, list[int | None]]] = {}  # by schema of a file

    def narrow(self, wanted: Collection[str], texts: Collection[str]) -> AvroFiles:
        """Return a reader of the `wanted` columns only."""
        found = copy(self)
        found.schema = pa.schema([field for field in self.schema if field.name in wanted])
        found._programs = {}
        return found

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches of several blocks."""
        for split in splits:
            place = 0 if not split.begin else -1  # rows of the file before the block, if known
            try:
                with opened_container(split.file) as container:
                    blocks: list[_Read] = []
                    for block in self._blocks(container, split):
                        blocks.append(_Read(block, place, *_unpacked(container, block)))
                        place += 0 if place < 0 else block.rows
                        if sum(len(one.data) for one in blocks) >= _BYTES:
                            yield from self._rows(split.file, container, blocks)
                            blocks = []
                    yield from self._rows(split.file, container, blocks)
            except UnreadableError as error:
                yield self._skipped(split.file, error, "the file", -1)

    def _blocks(self, container: Container, split: Split) -> Iterator[Block]:
        """Yield blocks; one that cannot be found is the last one, and has no rows."""
        try:
            yield from container.blocks(split.begin, split.end, split.limit)
        except UnreadableError as error:
            yield Block(None, 0, 0, 0, str(error))

    def _rows(self, file: Path, container: Container, blocks: Sequence[_Read]) -> Iterator[FileRows]:
        """Yield the rows of blocks. A block is used completely or not at all."""
        program, places = self._program(file, container.schema)
        used = [one for one in blocks if not one.problem]
        counts = np.array([one.block.rows for one in used], np.int64)
        ends = np.cumsum([len(one.data) for one in used], dtype=np.int64)
        data = np.frombuffer(bytearray().join(one.data for one in used), np.uint8)
        begins = ends - np.array([len(one.data) for one in used], np.int64)
        found = decoded(data, program, begins, ends, counts)
        wrong = {
            one.block.begin: f"record {row} of the block: {PROBLEMS[int(problem)]}"
            for one, problem, row in zip(used, found.problems, found.wrong, strict=True)
            if problem
        }
        for one in blocks:
            problem = one.problem or wrong.get(one.block.begin)
            if problem:
                yield self._skipped(file, UnreadableError(problem), one.described, one.first)
        is_damaged = found.damaged()
        if not found.rows or is_damaged.all():
            return
        try:
            rows = typed(found, self.schema, places)
        except AvroValueError as error:
            if len(used) > 1:
                for one in used:
                    if one.block.begin not in wrong:
                        yield from self._rows(file, container, [one])
            else:
                yield self._skipped(file, UnreadableError(str(error)), used[0].described, used[0].first)
            return
        numbers = np.concatenate([np.arange(one.block.rows) + max(one.first, 0) for one in used])
        if is_damaged.any():
            rows, numbers = rows.filter(pa.array(~is_damaged)), numbers[~is_damaged]
        yield checked_texts(file, rows, numbers.tolist())

    def _skipped(self, file: Path, error: UnreadableError, what: str, row: int) -> FileRows:
        return self._unreadable.skipped(self.schema, file, error, what, row)

    def _program(self, file: Path, schema: bytes) -> tuple[AvroProgram, list[int | None]]:
        """Return the program of a file's schema, and for each column of the stream the one that it decodes."""
        if schema not in self._programs:
            program = program_in(schema, {name.lower() for name in self.schema.names})
            by_key: dict[str, int] = {column.name.lower(): at for at, column in enumerate(program.columns)}
            places = [by_key.get(name.lower()) for name in self.schema.names]
            for field, place in zip(self.schema, places, strict=True):
                there = None if place is None else program.columns[place].kind
                if there is not None and not is_read_as(there, field.type):
                    raise UnreadableError(
                        f"its column {field.name!r} has type {spark_name(there)}, which is not read as "
                        f"{spark_name(field.type)}"
                    )
            self._programs[schema] = program, places
        return self._programs[schema]

    def _united(self, files: Sequence[Path]) -> pa.Schema:
        """Return the columns of all files that can be read, in the order in which they appear."""
        columns: dict[str, list[AvroColumn]] = {}
        seen: set[bytes] = set()
        for file in files:
            try:
                with opened_container(file) as container:
                    if container.schema in seen:
                        continue
                    seen.add(container.schema)
                    for column in program_in(container.schema).columns:
                        columns.setdefault(column.name.lower(), []).append(column)
            except UnreadableError as error:
                if not self._unreadable.are_skipped or not error.is_damage:
                    raise self._unreadable.stopped(file, error) from None
        fields = []
        for found in columns.values():
            kind = united(found)
            if kind is None:
                kinds = ", ".join(dict.fromkeys(spark_name(column.kind) for column in found))
                raise InvalidInputError(
                    f"stream {self._name!r}: column {found[0].name!r} has different types in its Avro files: {kinds}. "
                    "Declare the columns with schema:, or move the files to different folders."
                )
            fields.append(pa.field(found[0].name, kind))
        if not fields:
            raise InvalidInputError(
                f"stream {self._name!r}: its Avro files have no column of a type that is read here. Numbers, text, "
                "bytes, booleans, enums, dates, timestamps and decimals are read; records, arrays and maps are not."
            )
        return pa.schema(fields)


class _Read(NamedTuple):
    """A block in memory, or the problem with which it was read."""

    block: Block
    first: int  # row of the file; -1: unknown
    data: bytes
    problem: str = ""

    @property
    def described(self) -> str:
        if not self.block.end and self.first <= 0:
            return "the file" if not self.first else "a part of the file"
        if not self.block.end:
            return f"the file from row {self.first} on"
        if self.first < 0:
            return f"the block at byte {self.block.begin}"
        return f"block {self.block.number} (rows {self.first} to {self.first + self.block.rows - 1})"


def _unpacked(container: Container, block: Block) -> tuple[bytes, str]:
    if block.problem:
        return b"", block.problem
    try:
        data = container.records(block)
    except UnreadableError as error:
        return b"", str(error)
    if block.rows > len(data):
        return b"", f"it has {block.rows} rows in {len(data)} bytes"
    return data, ""


def program_in(schema: bytes, wanted: Collection[str] | None = None) -> AvroProgram:
    """Return the program of a file's schema; raise UnreadableError if it is not supported."""
    try:
        found = program_of(schema, wanted)
    except AvroSchemaError as error:
        raise UnreadableError(str(error)) from None
    if len({column.name.lower() for column in found.columns}) < len(found.columns):
        raise UnreadableError("names of its columns differ only in case")
    return found

"""Decodes Protobuf messages into columns, and finds the headers of values that name a schema of a registry.

A message type is compiled to a table of its fields (`skyband.connectors.arrow.proto_program`), with one row for each
field that is read, sorted by number; fields that are not in the table are skipped. A nested message that is read (a
time, or a value in a wrapper) has another table. Every read is checked against the end of the message.

Columns have rows of 64-bit words: integers, bits of floats, or the position of bytes, whose sizes are separate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.little_endian import read_little

__all__ = ["HEADER_PROBLEMS", "OUT_OF_RANGE", "PROBLEMS", "decode_messages", "find_headers"]

# Columns of the table of fields: number, wire type, operation, column (-1: skipped), table of a nested message, number
# of columns that a nested message sets, oneof (0: none).
NUMBER, WIRE, OPERATION, COLUMN, TABLE, COUNT, ONEOF = range(7)
# Operations: how the word of a field follows from what is stored.
WORD, INT32, UINT32, ZIGZAG, ZIGZAG32, FLAG, SIGNED32, BYTES, MESSAGE, SKIP, ENUM = range(11)

_SHORT, _VARINT, _TAG, _GROUP, _DEEP, _SIZE, OUT_OF_RANGE = range(1, 8)
PROBLEMS = {
    _SHORT: "it ends before its last value",
    _VARINT: "a number has more than 64 bits",
    _TAG: "a field has no valid number or type",
    _GROUP: "a group does not end",
    _DEEP: "its values are nested too deeply",
    _SIZE: "a size is larger than the message",
    OUT_OF_RANGE: "a time is out of range",
}
_EMPTY, _MAGIC, _CUT, _PATH = range(1, 5)
HEADER_PROBLEMS = {
    _EMPTY: "the value has fewer than the 5 bytes with the number of its schema",
    _MAGIC: "the value does not begin with byte 0 and the number of its schema",
    _CUT: "the value ends before the number of its message type",
    _PATH: "the number of its message type is out of range",
}
_LARGEST_PATH, _LONGEST_PATH = 1 << 14, 4  # of message types in a schema


@inner_kernel
def _varint(data: Any, at: int, end: int) -> Any:
    """Return the number at a position, and the position after it; a negative position is a problem."""
    word, shift = np.uint64(0), np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        if shift == np.uint64(63) and byte >= np.uint64(0x80):
            return np.int64(0), -_VARINT
        word |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(word), at
        shift += np.uint64(7)
    return np.int64(0), -_SHORT


@inner_kernel
def _signed(word: Any) -> Any:
    """Return the low 32 bits as a signed number."""
    return ((word & np.int64(0xFFFFFFFF)) ^ np.int64(0x80000000)) - np.int64(0x80000000)


@inner_kernel
def _skipped_group(  # noqa: PLR0911 - a problem ends it
    data: Any, at: int, end: int, deepest: int, number: Any
) -> int:
    """Return the position after a group, whose begin has been read; negative: a problem."""
    depth = 1
    while at < end:
        tag, at = _varint(data, at, end)
        if at < 0:
            return at
        wire = tag & 7
        if tag >> 3 <= 0:
            return -_TAG
        if wire == 0:
            _, at = _varint(data, at, end)
            if at < 0:
                return at
        elif wire == 1:
            at += 8
        elif wire == 2:
            size, at = _varint(data, at, end)
            if at < 0:
                return at
            if size < 0 or size > end - at:
                return -_SIZE
            at += size
        elif wire == 3:
            depth += 1
            if depth > deepest:
                return -_DEEP
        elif wire == 4:
            depth -= 1
            if depth == 0:
                return at if tag >> 3 == number else -_GROUP
        elif wire == 5:
            at += 4
        else:
            return -_TAG
        if at > end:
            return -_SHORT
    return -_GROUP


@inner_kernel
def _message(  # noqa: PLR0911 - a problem ends it
    data: Any, at: int, end: int, fields: Any, tables: Any, symbols: Any, stack: Any, row: int,
    values: Any, sizes: Any, valid: Any, oneofs: Any,
) -> Any:  # fmt: skip
    """Decode one message; return its end, or the negative number of a problem."""
    depth: Any = 0
    table: Any = 0
    limit: Any = end
    near: Any = 0  # the row of the table after the last field; fields are usually written in order
    while True:
        if at == limit:
            if depth == 0:
                return at
            depth -= 1
            limit, table = stack[depth, 0], stack[depth, 1]
            near = tables[table, 0]
            continue
        tag, at = _varint(data, at, limit)
        if at < 0:
            return at
        number, wire = tag >> 3, tag & 7
        if number <= 0 or number >= 1 << 29:
            return -_TAG
        word: Any = np.int64(0)
        size: Any = np.int64(0)
        if wire == 0:
            word, at = _varint(data, at, limit)
            if at < 0:
                return at
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if size > limit - at:
                return -_SHORT
            word = read_little(data, at, size)
            at += size
        elif wire == 2:
            size, at = _varint(data, at, limit)
            if at < 0:
                return at
            if size < 0 or size > limit - at:
                return -_SIZE
            word = at
            at += size
        elif wire == 3:
            at = _skipped_group(data, at, limit, stack.shape[0], number)
            if at < 0:
                return at
            continue
        else:
            return -_TAG if wire > 4 else -_GROUP
        first, last = tables[table, 0], tables[table, 1]
        if near >= last or fields[near, NUMBER] != number:
            low, high = first, last
            while low < high:
                middle = (low + high) // 2
                if fields[middle, NUMBER] < number:
                    low = middle + 1
                else:
                    high = middle
            near = low
            if near >= last or fields[near, NUMBER] != number:
                near = first
                continue
        if fields[near, WIRE] != wire:
            continue  # a field of another type is an unknown field
        operation, column, oneof = fields[near, OPERATION], fields[near, COLUMN], fields[near, ONEOF]
        if operation == ENUM:
            word = _signed(word)
            known, begin = False, fields[near, TABLE]
            for place in range(begin, begin + fields[near, COUNT]):
                if symbols[place] == word:
                    known = True
            if not known:
                near += 1
                continue  # a closed enum has no such value: an unknown field
        if oneof > 0:
            for other in range(oneofs.size):
                if oneofs[other] == oneof and not fields[near, COLUMN] <= other < fields[near, COLUMN] + max(
                    fields[near, COUNT] * (operation == MESSAGE), 1
                ):
                    valid[other, row] = False
                    values[other, row] = sizes[other, row] = 0
        if operation == MESSAGE:
            if depth >= stack.shape[0]:
                return -_DEEP
            for other in range(column, column + fields[near, COUNT]):
                valid[other, row] = True
            stack[depth, 0], stack[depth, 1] = limit, table
            depth += 1
            table = fields[near, TABLE]
            limit, at = at, word
            near = tables[table, 0]
            continue
        if column >= 0:
            if operation in (INT32, SIGNED32):
                word = _signed(word)
            elif operation == UINT32:
                word &= np.int64(0xFFFFFFFF)
            elif operation == FLAG:
                word = np.int64(word != 0)
            elif operation in (ZIGZAG, ZIGZAG32):
                if operation == ZIGZAG32:
                    word &= np.int64(0xFFFFFFFF)
                word = np.int64(np.uint64(word) >> np.uint64(1)) ^ -(word & 1)
            values[column, row] = word
            sizes[column, row] = size
            valid[column, row] = True
        near += 1


@kernel
def decode_messages(
    data: Any, begins: Any, ends: Any, fields: Any, tables: Any, symbols: Any, stack: Any, values: Any, sizes: Any,
    valid: Any, oneofs: Any, problems: Any,
) -> None:  # fmt: skip
    """Decode messages; `problems` has the number of the problem of each (0: none)."""
    for row in range(begins.size):
        found = _message(
            data, begins[row], ends[row], fields, tables, symbols, stack, row, values, sizes, valid, oneofs
        )
        if found < 0:
            problems[row] = -found


@kernel
def find_headers(
    data: Any, begins: Any, ends: Any, valid: Any, has_path: bool, ids: Any, paths: Any, starts: Any, problems: Any
) -> None:
    """Find the number of the schema of each value, and the position after its header.

    With `has_path`, a list of zigzag numbers follows, which names a message type: its place in the schema, and that of
    each type inside another. The path is packed into one word: its length, then 14 bits for each place.
    """
    for row in range(begins.size):
        at, end = begins[row], ends[row]
        if not valid[row]:
            continue
        if end - at < 5:
            problems[row] = _EMPTY
            continue
        if data[at] != 0:
            problems[row] = _MAGIC
            continue
        ids[row] = (
            np.int64(data[at + 1]) << 24 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 8
            | np.int64(data[at + 4])
        )  # fmt: skip
        at += 5
        if has_path:
            word, at = _varint(data, at, end)
            if at < 0:
                problems[row] = _CUT
                continue
            count = np.int64(np.uint64(word) >> np.uint64(1)) ^ -(word & 1)
            path = np.int64(1)  # a list without numbers is the first message
            if count < 0 or count > _LONGEST_PATH:
                problems[row] = _PATH
                continue
            if count > 0:
                path = np.int64(count)
            for place in range(count):
                word, at = _varint(data, at, end)
                if at < 0:
                    problems[row] = _CUT
                    break
                number = np.int64(np.uint64(word) >> np.uint64(1)) ^ -(word & 1)
                if number < 0 or number >= _LARGEST_PATH:
                    problems[row] = _PATH
                    break
                path |= number << np.int64(3 + 14 * place)
            if problems[row] > 0:
                continue
            paths[row] = path
        starts[row] = at

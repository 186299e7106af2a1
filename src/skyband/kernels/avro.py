"""Decodes Avro records into columns.

A schema is compiled to a program (`skyband.connectors.arrow.avro_schema`): one instruction for each value of a record,
with jumps for unions, loops for arrays and maps that are skipped, and calls for nested records. A record is decoded by
one pass over the program. Every read is checked against the end of the data, and the number of steps is limited by the
size of the data, so damaged data ends with an error.

Columns have rows of 64-bit words: integers, bits of floats, or the position of bytes, whose sizes are separate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.little_endian import read_little

__all__ = ["PROBLEMS", "decode", "gather", "read_decimals"]

# Instructions: operation, column (-1: skipped), and one or two arguments.
END, LONG, INT, FLOAT, DOUBLE, BOOL, BYTES, FIXED, ENUM, NULL, UNION, JUMP, BEGIN, NEXT, CALL, RETURN, WIDE = range(17)

_SHORT, _VARINT, _BRANCH, _SIZE, _DEEP, _SYMBOL, _REST, _RANGE, _FLAG = range(1, 10)
PROBLEMS = {
    _SHORT: "it ends before its last value",
    _VARINT: "a number has more than 64 bits",
    _BRANCH: "a union has no such branch",
    _SIZE: "a size is negative",
    _DEEP: "its values are nested too deeply, or are too many",
    _SYMBOL: "an enum has no such symbol",
    _REST: "it has bytes after its last value",
    _RANGE: "an int has more than 32 bits",
    _FLAG: "a boolean is neither 0 nor 1",
}
_STEPS = 16  # instructions for each byte, at most: nested records without values have no bytes


@inner_kernel
def _varint(data: Any, at: int, end: int) -> Any:
    """Return the zigzag number at a position, and the position after it; a negative position is a problem."""
    word, shift = np.uint64(0), np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return np.int64(0), -_VARINT
        word |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(word >> np.uint64(1)) ^ -np.int64(word & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), -_SHORT


@inner_kernel
def _widened(bits: Any) -> Any:
    """Return the bits of a double that is equal to a float with these bits."""
    word = np.uint64(bits)
    sign: Any = (word >> np.uint64(31)) << np.uint64(63)
    low: Any = word & np.uint64(0x7FFFFF)
    power: Any = np.int64((word >> np.uint64(23)) & np.uint64(0xFF))
    if power == 255:
        return np.int64(sign | (np.uint64(2047) << np.uint64(52)) | (low << np.uint64(29)))
    if power == 0:
        if low == np.uint64(0):
            return np.int64(sign)
        power = 1
        while low < np.uint64(0x800000):
            low <<= np.uint64(1)
            power -= 1
        low &= np.uint64(0x7FFFFF)
    return np.int64(sign | (np.uint64(power + 896) << np.uint64(52)) | (low << np.uint64(29)))


@inner_kernel
def _record(  # noqa: PLR0911 - a problem ends it
    data: Any, at: int, end: int, program: Any, branches: Any, stack: Any, row: int, values: Any, sizes: Any, valid: Any
) -> Any:
    """Decode one record; return the position after it, or the negative number of a problem."""
    step: Any = 0
    depth: Any = 0
    left = program.shape[0] + _STEPS * (end - at)
    while True:
        left -= 1
        if left < 0:
            return -_DEEP
        operation, column, first, second = program[step, 0], program[step, 1], program[step, 2], program[step, 3]
        step += 1
        if operation == END:
            return at
        if operation in (LONG, INT, ENUM, UNION, BYTES):
            number, at = _varint(data, at, end)
            if at < 0:
                return at
            if operation == UNION:
                if number < 0 or number >= second:
                    return -_BRANCH
                step = branches[first + number]
                continue
            if operation == INT and (number < -(1 << 31) or number >= 1 << 31):
                return -_RANGE
            if operation == ENUM and (number < 0 or number >= first):
                return -_SYMBOL
            if operation == BYTES:
                if number < 0:
                    return -_SIZE
                if number > end - at:
                    return -_SHORT
                if column >= 0:
                    sizes[column, row] = number
                number, at = at, at + number
            if column >= 0:
                values[column, row] = number
                valid[column, row] = True
        elif operation in (FLOAT, DOUBLE, FIXED, BOOL, WIDE):
            if first > end - at:
                return -_SHORT
            if operation == BOOL and data[at] > 1:
                return -_FLAG
            if column >= 0:
                valid[column, row] = True
                if operation == FIXED:
                    values[column, row] = at
                    sizes[column, row] = first
                elif operation == WIDE:
                    values[column, row] = _widened(read_little(data, at, 4))
                else:
                    values[column, row] = read_little(data, at, first)
            at += first
        elif operation == NULL:
            pass
        elif operation == JUMP:
            step = first
        elif operation in (BEGIN, CALL):
            if depth >= stack.size:
                return -_DEEP
            stack[depth] = 0 if operation == BEGIN else step
            depth += 1
            if operation == CALL:
                step = first
        elif operation == RETURN:
            depth -= 1
            step = stack[depth]
        elif operation == NEXT:  # the next item of an array or map: the rest of the loop, or `first` after the last
            if stack[depth - 1] == 0:
                number, at = _varint(data, at, end)
                if at < 0:
                    return at
                if number < 0:  # a block with its size in bytes
                    size, at = _varint(data, at, end)
                    if at < 0:
                        return at
                    if size < 0:
                        return -_SIZE
                    if size > end - at:
                        return -_SHORT
                    at += size
                    step -= 1
                    continue
                if number == 0:
                    depth -= 1
                    step = first
                    continue
                stack[depth - 1] = number
            stack[depth - 1] -= 1


@kernel
def decode(
    data: Any,
    begins: Any,
    ends: Any,
    counts: Any,
    program: Any,
    branches: Any,
    stack: Any,
    values: Any,
    sizes: Any,
    valid: Any,
    problems: Any,
    wrong: Any,
) -> None:
    """Decode blocks of records, which follow each other from the begin of a block to its end.

    A block ends at its first problem; `wrong` is the number of that record in the block.
    """
    row = 0
    for block in range(begins.size):
        at, end, count = begins[block], ends[block], counts[block]
        for place in range(count):
            found = _record(data, at, end, program, branches, stack, row + place, values, sizes, valid)
            if found >= 0 and found < end and place == count - 1:
                found = -_REST
            if found < 0:
                problems[block] = -found
                wrong[block] = place
                break
            at = found
        row += count


@kernel
def gather(data: Any, begins: Any, sizes: Any, valid: Any, offsets: Any, found: Any) -> None:
    """Copy the bytes of a column one after another, to the given offsets."""
    for row in range(begins.size):
        if valid[row]:
            begin, to = begins[row], offsets[row]
            for place in range(sizes[row]):
                found[to + place] = data[begin + place]


@kernel
def read_decimals(data: Any, begins: Any, sizes: Any, valid: Any, found: Any) -> int:
    """Read big-endian numbers into 16 little-endian bytes each; return the first row that does not fit, or -1."""
    for row in range(begins.size):
        if not valid[row]:
            continue
        begin, size = begins[row], sizes[row]
        sign = 255 if size and data[begin] >= 128 else 0
        for place in range(16):
            found[row, place] = data[begin + size - 1 - place] if place < size else sign
        for place in range(16, size):
            if data[begin + size - 1 - place] != sign:
                return row
        if size > 16 and (found[row, 15] >= 128) != (sign == 255):
            return row
    return -1

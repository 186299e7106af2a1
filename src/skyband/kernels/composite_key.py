"""Several key columns as one byte string whose order is that of the columns, one after another.

A number is eight bytes, highest first, with the sign bit inverted. Text ends with two zero bytes, and a zero byte in it
is followed by 255, so that a prefix is smaller than a longer text.
"""

from __future__ import annotations

from typing import Any

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints

NUMBER = 8  # bytes
END = 2  # bytes after a text


@kernel
def add_text_lengths(letters: Any, begins: Ints, lengths: Ints, sizes: Ints) -> None:
    """Add the number of bytes that each text takes to `sizes`."""
    for i in range(begins.size):
        sizes[i] += lengths[i] + END
        for at in range(begins[i], begins[i] + lengths[i]):
            sizes[i] += letters[at] == 0


@kernel
def write_numbers(numbers: Ints, to: Any, at: Ints) -> None:
    """Write one number for each key at `at`, which moves on."""
    for i in range(numbers.size):
        for byte in range(NUMBER):
            to[at[i] + byte] = (numbers[i] >> (8 * (NUMBER - 1 - byte))) & 255
        to[at[i]] ^= 128
        at[i] += NUMBER


@kernel
def write_texts(letters: Any, begins: Ints, lengths: Ints, to: Any, at: Ints) -> None:
    """Write one text for each key at `at`, which moves on."""
    for i in range(begins.size):
        place = at[i]
        for source in range(begins[i], begins[i] + lengths[i]):
            to[place] = letters[source]
            place += 1
            if letters[source] == 0:
                to[place] = 255
                place += 1
        to[place] = to[place + 1] = 0
        at[i] = place + END


@kernel
def read_numbers(source: Any, at: Ints, numbers: Ints) -> None:
    """Read one number of each key at `at`, which moves on."""
    for i in range(at.size):
        found = (source[at[i]] ^ 128) - (256 if source[at[i]] < 128 else 0)
        for byte in range(1, NUMBER):
            found = found * 256 + source[at[i] + byte]
        numbers[i] = found
        at[i] += NUMBER


@kernel
def read_texts(source: Any, at: Ints, to: Any, offsets: Ints) -> None:
    """Read one text of each key at `at`, which moves on. Text i is ``to[offsets[i]:offsets[i + 1]]``."""
    written = 0
    for i in range(at.size):
        offsets[i] = written
        place = at[i]
        while source[place] != 0 or source[place + 1] != 0:
            to[written] = source[place]
            written += 1
            place += 2 if source[place] == 0 else 1
        at[i] = place + END
    offsets[at.size] = written

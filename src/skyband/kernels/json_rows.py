"""Reads the values of JSON objects into columns, if they have the usual form.

Usual values are those that every JSON parser reads in the same way: objects in UTF-8 without text after them, whose
keys are not repeated and have no escapes, and whose values have the types of the columns. Other values are left to the
caller, with everything that parsers treat in their own ways: escapes in text of a column, numbers in quotes, integers
for a column of another type, special numbers, malformed text. Nothing here decides that a value is malformed.

Columns have rows of 64-bit words, as those of Avro: integers, bits of doubles, or the position of text, whose sizes are
separate. A double with too many digits for exact arithmetic is left as text, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel

__all__ = ["BOOL", "DATE", "DOUBLE", "INTEGER", "LOCAL_TIME", "ROUNDED", "TEXT", "TIME", "VALID", "read_rows"]

# Types of columns. A TIME without an offset is in UTC or, if `utc` is false, not usual; a LOCAL_TIME has no offset.
INTEGER, DOUBLE, BOOL, TEXT, TIME, LOCAL_TIME, DATE = range(7)
VALID, ROUNDED = 1, 2  # states of values; 0: null. ROUNDED: the text of a double, which must be rounded
_UNUSUAL = -1
_DEPTH = 62  # of nested objects and lists that are skipped: one bit each
_MOST = 100  # digits of a number that is skipped
_DAY = 86_400_000_000


@inner_kernel
def _skip_space(data: Any, at: int, end: int) -> int:
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@inner_kernel
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@inner_kernel
def _text_end(data: Any, at: int, end: int, escapes: bool) -> int:  # noqa: PLR0911 - ends at the first problem
    """Return the position of the quote that ends the text that begins at `at`; valid escapes are skipped if allowed."""
    while at < end:
        byte = data[at]
        if byte == 34:
            return at
        if byte < 32:
            return _UNUSUAL
        if byte == 92:
            if not escapes or at + 1 >= end:
                return _UNUSUAL
            mark = data[at + 1]
            if mark not in (34, 92, 47, 98, 102, 110, 114, 116):
                return _UNUSUAL  # \u as well: it may be half of a pair
            at += 2
        elif byte < 128:
            at += 1
        else:  # UTF-8
            first: Any = np.int64(byte)
            if 0xC2 <= first <= 0xDF:
                more, low, high = 1, 0x80, 0xBF
            elif 0xE0 <= first <= 0xEF:
                more = 2
                low = 0xA0 if first == 0xE0 else 0x80
                high = 0x9F if first == 0xED else 0xBF
            elif 0xF0 <= first <= 0xF4:
                more = 3
                low = 0x90 if first == 0xF0 else 0x80
                high = 0x8F if first == 0xF4 else 0xBF
            else:
                return _UNUSUAL
            if at + more >= end or data[at + 1] < low or data[at + 1] > high:
                return _UNUSUAL
            for place in range(2, more + 1):
                if data[at + place] < 0x80 or data[at + place] > 0xBF:
                    return _UNUSUAL
            at += more + 1
    return _UNUSUAL


@inner_kernel
def _number_end(data: Any, at: int, end: int) -> int:
    """Return the position after a number, or that it is not usual."""
    begin = at
    if at < end and data[at] == 45:
        at += 1
    if at >= end or not _is_digit(data[at]):
        return _UNUSUAL
    if data[at] == 48:
        at += 1
    else:
        while at < end and _is_digit(data[at]):
            at += 1
    if at < end and data[at] == 46:
        at += 1
        if at >= end or not _is_digit(data[at]):
            return _UNUSUAL
        while at < end and _is_digit(data[at]):
            at += 1
    if at < end and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        if at >= end or not _is_digit(data[at]):
            return _UNUSUAL
        while at < end and _is_digit(data[at]):
            at += 1
    return at if at - begin <= _MOST else _UNUSUAL


@inner_kernel
def _is_word(data: Any, at: int, end: int, first: int, second: int, third: int, fourth: int) -> bool:
    return (
        at + 4 <= end
        and data[at] == first
        and data[at + 1] == second
        and data[at + 2] == third
        and data[at + 3] == fourth
    )


@inner_kernel
def _word_end(data: Any, at: int, end: int) -> int:
    """Return the position after null, true or false."""
    if _is_word(data, at, end, 110, 117, 108, 108) or _is_word(data, at, end, 116, 114, 117, 101):
        return at + 4
    if _is_word(data, at, end, 102, 97, 108, 115) and at + 5 <= end and data[at + 4] == 101:
        return at + 5
    return _UNUSUAL


@inner_kernel
def _skipped(data: Any, at: int, end: int) -> int:  # noqa: PLR0911 - ends at the first problem
    """Return the position after a value of any type, whose text is checked completely."""
    objects, depth = np.int64(0), 0  # bit d: whether the value that is open at depth d is an object
    while True:
        at = _skip_space(data, at, end)
        if at >= end:
            return _UNUSUAL
        byte = data[at]
        opened = False
        if byte in (123, 91):
            if depth >= _DEPTH:
                return _UNUSUAL
            depth += 1
            objects = (objects << 1) | (1 if byte == 123 else 0)
            at = _skip_space(data, at + 1, end)
            opened = True
        elif byte == 34:
            at = _text_end(data, at + 1, end, True)
            at = at + 1 if at >= 0 else at
        elif byte == 45 or _is_digit(byte):
            at = _number_end(data, at, end)
        else:
            at = _word_end(data, at, end)
        if at < 0:
            return at
        if not opened:
            at = _skip_space(data, at, end) if depth else at
        while depth:  # what follows a value, or the opening of one
            if at >= end:
                return _UNUSUAL
            byte, in_object = data[at], objects & 1
            if byte == (125 if in_object else 93):
                depth -= 1
                objects >>= 1
                at += 1
                opened = False
                at = _skip_space(data, at, end) if depth else at
                continue
            if not opened:
                if byte != 44:
                    return _UNUSUAL
                at = _skip_space(data, at + 1, end)
            if in_object:
                if at >= end or data[at] != 34:
                    return _UNUSUAL
                at = _text_end(data, at + 1, end, True)
                if at < 0:
                    return at
                at = _skip_space(data, at + 1, end)
                if at >= end or data[at] != 58:
                    return _UNUSUAL
                at += 1
            break
        if not depth:
            return at


@inner_kernel
def _digits(data: Any, at: int, count: int) -> Any:
    """Return the number in some digits; -1 if there are others."""
    number: Any = np.int64(0)
    for place in range(count):
        byte = data[at + place]
        if not _is_digit(byte):
            return np.int64(-1)
        number = 10 * number + (np.int64(byte) - 48)
    return number


@inner_kernel
def _days(data: Any, at: int, end: int) -> Any:
    """Return the days since 1970 of a date with ten letters; a number that no such date has if it is not usual."""
    nothing = np.int64(1 << 40)
    if at + 10 > end or data[at + 4] != 45 or data[at + 7] != 45:
        return nothing
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    if year < 1900 or month < 1 or month > 12 or day < 1:
        return nothing
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if month == 2:
        longest = 29 if leap else 28
    elif month in (4, 6, 9, 11):
        longest = 30
    else:
        longest = 31
    if day > longest:
        return nothing
    # Days since March 1 of year 0, which has its leap day at its end.
    shifted = year - 1 if month <= 2 else year
    since_march = (month + 9) % 12
    days = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * since_march + 2) // 5 + day - 1
    return days - np.int64(719468)


@inner_kernel
def _micros(data: Any, at: int, end: int, zone: int) -> Any:  # noqa: PLR0911 - ends at the first problem
    """Return a time in microseconds; a number that no time has if it is not usual.

    `zone`: 0: it must have an offset or Z; 1: it may have one; 2: it must not have one.
    """
    nothing = np.int64(1 << 62)
    days = _days(data, at, end)
    at += 10
    if days == np.int64(1 << 40) or at + 9 > end or (data[at] != 84 and data[at] != 32):
        return nothing
    if data[at + 3] != 58 or data[at + 6] != 58:
        return nothing
    hour, minute, second = _digits(data, at + 1, 2), _digits(data, at + 4, 2), _digits(data, at + 7, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return nothing
    found = days * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000
    at += 9
    if at < end and data[at] == 46:
        at += 1
        unit: Any = np.int64(100_000)
        begin = at
        while at < end and _is_digit(data[at]) and at - begin < 6:
            found += (np.int64(data[at]) - 48) * unit
            unit //= 10
            at += 1
        if at == begin:
            return nothing
    if at == end:
        return found if zone >= 1 else nothing
    if zone == 2:
        return nothing
    if data[at] == 90:
        return found if at + 1 == end else nothing
    if at + 6 != end or data[at + 3] != 58 or (data[at] != 43 and data[at] != 45):
        return nothing
    hours, minutes = _digits(data, at + 1, 2), _digits(data, at + 4, 2)
    if hours < 0 or hours > 17 or minutes < 0 or minutes > 59:
        return nothing
    offset = (hours * 60 + minutes) * 60_000_000
    return found - offset if data[at] == 43 else found + offset


@inner_kernel
def _column_of(data: Any, at: int, size: int, names: Any, starts: Any, expected: int) -> int:
    """Return the column with a name, beginning with the expected one; -1 if there is none."""
    count = starts.size - 1
    for step in range(count):
        column = expected + step
        if column >= count:
            column -= count
        begin = starts[column]
        if starts[column + 1] - begin == size:
            place = 0
            while place < size and names[begin + place] == data[at + place]:
                place += 1
            if place == size:
                return column
    return -1


@inner_kernel
def _number(  # noqa: PLR0911 - ends at the first problem
    data: Any, at: int, end: int, kind: int, most: Any, powers: Any, row: int, words: Any, doubles: Any, sizes: Any,
    state: Any
) -> int:  # fmt: skip
    """Read a number into a column's row; return the position after it."""
    after = _number_end(data, at, end)
    if after < 0:
        return after
    negative = data[at] == 45
    whole, digits, scale, exact = np.uint64(0), 0, 0, True
    place, is_integer = at + (1 if negative else 0), True
    while place < after:
        byte = data[place]
        if byte == 46:
            is_integer = False
        elif byte in (101, 69):
            is_integer = False
            break
        else:
            if digits or byte != 48:
                digits += 1
            if digits <= 19:
                whole = whole * np.uint64(10) + np.uint64(byte - 48)
                scale += 0 if is_integer else 1
            else:
                exact = False
        place += 1
    if kind == INTEGER:
        if not is_integer or digits > 19 or whole > np.uint64(most):
            return _UNUSUAL
        words[row] = -np.int64(whole) if negative else np.int64(whole)
        state[row] = VALID
        return after
    if place < after:
        place += 1
        down = data[place] == 45
        if down or data[place] == 43:
            place += 1
        if after - place > 3:
            return _UNUSUAL
        power = _digits(data, place, after - place)
        scale += power if down else -power
    if negative and whole == np.uint64(0) and is_integer:
        return _UNUSUAL  # -0 is an integer, which has no sign
    if exact and whole <= np.uint64(1 << 53) and -22 <= scale <= 22:
        found = np.float64(whole)
        found = found / powers[scale] if scale >= 0 else found * powers[-scale]
        doubles[row] = -found if negative else found
        state[row] = VALID
        return after
    if scale < -250 or scale > 250 or after - at > 40:
        return _UNUSUAL
    words[row] = at
    sizes[row] = after - at
    state[row] = ROUNDED
    return after


@inner_kernel
def _text(data: Any, at: int, end: int, kind: int, utc: bool, row: int, words: Any, sizes: Any, state: Any) -> int:
    """Read a text or a time into a column's row; return the position after its quote."""
    begin = at + 1
    after = _text_end(data, begin, end, False)
    if after < 0:
        return after
    if kind == TEXT:
        words[row] = begin
        sizes[row] = after - begin
    elif kind in (TIME, LOCAL_TIME):
        zone = 2 if kind == LOCAL_TIME else 1 if utc else 0
        found = _micros(data, begin, after, zone)
        if found == np.int64(1 << 62):
            return _UNUSUAL
        words[row] = found
    elif kind == DATE:
        found = _days(data, begin, after)
        if found == np.int64(1 << 40) or after - begin != 10:
            return _UNUSUAL
        words[row] = found
    else:
        return _UNUSUAL
    state[row] = VALID
    return after + 1


@inner_kernel
def _object(  # noqa: PLR0911 - ends at the first problem
    data: Any, at: int, end: int, names: Any, starts: Any, kinds: Any, most: Any, powers: Any, utc: bool, row: int,
    words: Any, doubles: Any, sizes: Any, state: Any
) -> int:  # fmt: skip
    """Read one object; return the position after it, or that it is not usual."""
    at = _skip_space(data, at, end)
    if at >= end or data[at] != 123:
        return _UNUSUAL
    at = _skip_space(data, at + 1, end)
    if at < end and data[at] == 125:
        return at + 1
    seen, expected = np.int64(0), 0
    while True:
        if at >= end or data[at] != 34:
            return _UNUSUAL
        begin = at + 1
        at = _text_end(data, begin, end, False)
        if at < 0:
            return at
        column = _column_of(data, begin, at - begin, names, starts, expected)
        at = _skip_space(data, at + 1, end)
        if at >= end or data[at] != 58:
            return _UNUSUAL
        at = _skip_space(data, at + 1, end)
        if at >= end:
            return _UNUSUAL
        if column < 0:
            at = _skipped(data, at, end)
        else:
            expected = column + 1 if column + 2 < starts.size else 0
            bit = np.int64(1) << column
            if seen & bit:
                return _UNUSUAL
            seen |= bit
            byte, kind = data[at], kinds[column]
            if byte == 34:
                at = _text(data, at, end, kind, utc, row, words[column], sizes[column], state[column])
            elif byte == 45 or _is_digit(byte):
                if kind not in (INTEGER, DOUBLE):
                    return _UNUSUAL
                at = _number(
                    data, at, end, kind, most[column], powers, row, words[column], doubles[column], sizes[column],
                    state[column]
                )  # fmt: skip
            elif byte == 110:
                at = _word_end(data, at, end)
            elif kind == BOOL:
                words[column, row] = 1 if byte == 116 else 0
                state[column, row] = VALID
                at = _word_end(data, at, end)
            else:
                return _UNUSUAL
        if at < 0:
            return at
        at = _skip_space(data, at, end)
        if at >= end:
            return _UNUSUAL
        if data[at] == 125:
            return at + 1
        if data[at] != 44:
            return _UNUSUAL
        at = _skip_space(data, at + 1, end)


@kernel
def read_rows(
    data: Any, begins: Any, ends: Any, names: Any, starts: Any, kinds: Any, most: Any, powers: Any, utc: bool,
    words: Any, doubles: Any, sizes: Any, state: Any, done: Any
) -> None:  # fmt: skip
    """Read usual objects into columns, and mark their rows in `done`; other rows are null.

    `names` has the names of columns, at `starts`; `most` the largest integer of each, and `powers` powers of ten as
    doubles. `doubles` is the memory of `words`.
    """
    for row in range(begins.size):
        at = _object(
            data, begins[row], ends[row], names, starts, kinds, most, powers, utc, row, words, doubles, sizes, state
        )
        if at >= 0 and _skip_space(data, at, ends[row]) == ends[row]:
            done[row] = True
        else:
            for column in range(kinds.size):
                state[column, row] = 0

"""JSON documents, which Spark reads with the option multiLine: a list of objects, or one object over several lines."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["document_lines"]

_SPACES = b" \t\r\n"


def document_lines(text: bytes) -> bytes | None:
    r"""Return the objects of a document, one per line, as they are written; None if it is another document.

    The objects themselves are not checked.

    >>> document_lines(b'[{"a": 1,\n "b": "x,{\\"y"}, {"a": 2}]')
    b' {"a": 1,  "b": "x,{\\"y"}\n {"a": 2} '
    >>> document_lines(b'{\n "a": [1]}'), document_lines(b"[]"), document_lines(b'[{"a": 1}, 2]')
    (b'{  "a": [1]}', b'  ', None)
    """
    letters = np.frombuffer(text.strip(_SPACES), np.uint8).copy()
    if not letters.size:
        return b""
    in_text = _in_text(letters)
    if in_text is None or letters[0] not in b"{[":
        return None
    letters[_any_of(letters, b"\r\n")] = ord(" ")
    opens, closes = (_any_of(letters, some) & ~in_text for some in (b"{[", b"}]"))
    depth = np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int32)
    if (depth[:-1] <= 0).any() or depth[-1] != 0:
        return None  # more than one value, or a bracket too many
    if letters[0] == ord("["):
        starts = np.flatnonzero(opens & (depth == 2))
        of_list = ~in_text & ~closes & (depth == 1)
        commas = np.flatnonzero((letters == ord(",")) & of_list)
        others = letters[of_list][1:]
        if not _alternate(starts, commas) or (letters[starts] != ord("{")).any() or not _any_of(others, b" \t,").all():
            return None
        letters[commas] = ord("\n")
        letters[0] = letters[-1] = ord(" ")
    return letters.tobytes()


def _in_text(letters: Any) -> Any:
    """Return a mask of the letters inside of texts, with opening quotes; None if one does not end in its line."""
    quotes = letters == ord('"')
    slashes = letters == ord("\\")
    if slashes.any():
        places = np.arange(letters.size)
        last = np.maximum.accumulate(np.where(slashes, -1, places))  # the last letter that is not a backslash
        escaped = np.zeros(letters.size, bool)
        escaped[1:] = (places[:-1] - last[:-1]) % 2 == 1
        quotes &= ~escaped
    inside = np.bitwise_xor.accumulate(quotes.view(np.uint8)).view(bool)
    return None if inside[-1] or (inside & _any_of(letters, b"\r\n")).any() else inside


def _any_of(letters: Any, wanted: bytes) -> Any:
    return np.logical_or.reduce([letters == letter for letter in wanted])


def _alternate(starts: Any, commas: Any) -> bool:
    """Return whether there is one comma between two starts, and no other."""
    if starts.size != commas.size + 1:
        return not starts.size and not commas.size
    return bool((starts[:-1] < commas).all() and (commas < starts[1:]).all())

"""Lines of logs in a checkpoint: JSON with a checksum at the end, which also covers the line before.

A flipped bit can leave valid JSON with another path or another number, so a line is not read without its checksum. If a
line was removed from the middle, the checksum of the next one differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

__all__ = ["checked", "checksum_of", "sealed"]

_KEY = b',"check":"'
_DIGITS = 16
_TAIL = len(_KEY) + _DIGITS + 2  # with the quote and the brace at the end


def sealed(values: Mapping[str, Any], before: str = "") -> bytes:
    """Return a line without its line break. `before` is the checksum of the line before.

    >>> line = sealed({"batch": 0})
    >>> line[:9], checked(line)
    (b'{"batch":', {'batch': 0})
    """
    text = json.dumps(dict(values), separators=(",", ":")).encode()
    return text[:-1] + _KEY + _digest(text, before).encode() + b'"}'


def checksum_of(line: bytes) -> str:
    """Return the checksum at the end of a line; an empty text if there is none.

    >>> checksum_of(b'{"batch":0}'), len(checksum_of(sealed({"batch": 0})))
    ('', 16)
    """
    at = len(line) - _TAIL
    is_there = at > 0 and line[at:].startswith(_KEY) and line.endswith(b'"}')
    return line[at + len(_KEY) : -2].decode("latin-1") if is_there else ""


def checked(line: bytes, before: str = "") -> dict[str, Any]:
    """Return the values of a line; raise ValueError if it is damaged. Lines of earlier versions have no checksum.

    >>> checked(b'{"batch":0}')
    {'batch': 0}
    >>> try:
    ...     checked(sealed({"batch": 0}).replace(b"0", b"1", 1))
    ... except ValueError as error:
    ...     print(error)
    its checksum differs: it was damaged, or a line before it was changed or removed
    """
    found = checksum_of(line)
    text = line[:-_TAIL] + b"}" if found else line
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("it is not a mapping")
    if found and found != _digest(text, before):
        raise ValueError("its checksum differs: it was damaged, or a line before it was changed or removed")
    return values


def _digest(text: bytes, before: str) -> str:
    return blake2b(before.encode("latin-1") + b"\n" + text, digest_size=_DIGITS // 2).hexdigest()

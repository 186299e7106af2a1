"""Keys of any type as flat arrays, for kernels that compare them."""

from __future__ import annotations

from typing import Any, NamedTuple

from skyband.kernels.stream import Ints

__all__ = ["Keys"]


class Keys(NamedTuple):
    """Sort information of the keys, one entry per slot."""

    prefix: Ints  # the number itself, or the first eight bytes of a text as a number
    begins: Ints  # where its bytes begin
    lengths: Ints  # the number of bytes; 0 if the prefix is the whole key
    letters: Any  # uint8: the bytes of all keys
    groups: Ints  # the group of the key

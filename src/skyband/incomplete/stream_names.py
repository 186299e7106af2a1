"""Names of streams as numbers, and objects as hashes of their content."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.columns import as_arrow
from skyband.errors import InvalidInputError, UnknownNameError
from skyband.kernels.stream import Ints

__all__ = ["content_hashes", "stream_names", "stream_numbers"]


def stream_names(column: Any) -> tuple[str | int, ...]:
    """The names in a column of streams, in their order."""
    return tuple(sorted(value for value in _names(column).drop_null().unique().to_pylist()))


def stream_numbers(column: Any, declared: tuple[str | int, ...]) -> Ints:
    """The place of each tuple's stream among the declared ones; -1 where it has none."""
    array = _names(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), -1)
    encoded = array.dictionary_encode()
    places = {name: place for place, name in enumerate(declared)}
    known = np.empty(len(encoded.dictionary) + 1, np.int64)
    known[-1] = -1
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name not in places:
            raise UnknownNameError.among("stream", str(name), map(str, declared))
        known[code] = places[name]
    indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    found: Ints = known[indices]
    return found


def _names(column: Any) -> pa.Array:
    array = as_arrow(column, "streams")
    kind = array.type
    if not (pa.types.is_null(kind) or pa.types.is_integer(kind) or kind in (pa.string(), pa.large_string())):
        raise InvalidInputError(f"streams are of type {kind}; a stream is named by text or by a whole number.")
    return array


def content_hashes(stored: pa.Array) -> Ints:
    """A whole number for each object that follows from the object alone."""
    if pa.types.is_integer(stored.type):
        whole: Ints = stored.to_numpy(zero_copy_only=False).astype(np.int64)
        return whole
    if pa.types.is_floating(stored.type):
        bits: Ints = np.ascontiguousarray(stored.to_numpy(zero_copy_only=False)).view(np.int64)
        return bits
    encoded = stored.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    digests = [int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True) for text in texts]
    found: Ints = np.array(digests, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return found

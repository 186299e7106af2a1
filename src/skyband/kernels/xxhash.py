"""XXH64 over columns, in the form that Spark's `xxhash64` has: the hash of one column is the seed of the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel

__all__ = ["hash_bytes", "hash_ints", "hash_longs"]

# Every operand is unsigned: numba turns a mix of signed and unsigned 64-bit integers into floats.
_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_LOW_32 = np.uint64(0xFFFFFFFF)
_ZERO, _FOUR, _EIGHT, _WORD = np.uint64(0), np.uint64(4), np.uint64(8), np.uint64(64)


@inner_kernel
def _rotated(word: Any, bits: Any) -> Any:
    return (word << bits) | (word >> (_WORD - bits))


@inner_kernel
def _final(state: Any) -> Any:
    state = (state ^ (state >> np.uint64(33))) * _PRIME_2
    state = (state ^ (state >> np.uint64(29))) * _PRIME_3
    return state ^ (state >> np.uint64(32))


@inner_kernel
def _with_int(state: Any, word: Any) -> Any:
    return _rotated(state ^ ((word & _LOW_32) * _PRIME_1), np.uint64(23)) * _PRIME_2 + _PRIME_3


@inner_kernel
def _with_long(state: Any, word: Any) -> Any:
    mixed = _rotated(word * _PRIME_2, np.uint64(31)) * _PRIME_1
    return _rotated(state ^ mixed, np.uint64(27)) * _PRIME_1 + _PRIME_4


@inner_kernel
def _lane(state: Any, word: Any) -> Any:
    return _rotated(state + word * _PRIME_2, np.uint64(31)) * _PRIME_1


@inner_kernel
def _merged(state: Any, lane: Any) -> Any:
    return (state ^ _lane(_ZERO, lane)) * _PRIME_1 + _PRIME_4


@inner_kernel
def _read(data: Any, at: int, size: int) -> Any:
    """The little-endian number in `size` bytes."""
    word = _ZERO
    for place in range(size):
        word |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return word


@kernel
def hash_ints(words: Any, valid: Any, seeds: Any) -> None:
    """Add a column of 32-bit values to the hashes; a null adds nothing."""
    for row in range(words.size):
        if valid[row]:
            seeds[row] = _final(_with_int(seeds[row] + _PRIME_5 + _FOUR, words[row]))


@kernel
def hash_longs(words: Any, valid: Any, seeds: Any) -> None:
    """Add a column of 64-bit values to the hashes; a null adds nothing."""
    for row in range(words.size):
        if valid[row]:
            seeds[row] = _final(_with_long(seeds[row] + _PRIME_5 + _EIGHT, words[row]))


@kernel
def hash_bytes(data: Any, begins: Any, ends: Any, valid: Any, seeds: Any) -> None:
    """Add a column of byte strings, ``data[begins[row] : ends[row]]``, to the hashes; a null adds nothing."""
    for row in range(begins.size):
        if not valid[row]:
            continue
        at, end, seed = begins[row], ends[row], seeds[row]
        length = end - at
        if length >= 32:
            first, second = seed + _PRIME_1 + _PRIME_2, seed + _PRIME_2
            third, fourth = seed, seed - _PRIME_1
            while end - at >= 32:
                first = _lane(first, _read(data, at, 8))
                second = _lane(second, _read(data, at + 8, 8))
                third = _lane(third, _read(data, at + 16, 8))
                fourth = _lane(fourth, _read(data, at + 24, 8))
                at += 32
            state = (
                _rotated(first, np.uint64(1))
                + _rotated(second, np.uint64(7))
                + _rotated(third, np.uint64(12))
                + _rotated(fourth, np.uint64(18))
            )
            state = _merged(_merged(_merged(_merged(state, first), second), third), fourth)
        else:
            state = seed + _PRIME_5
        state += np.uint64(length)
        while end - at >= 8:
            state = _with_long(state, _read(data, at, 8))
            at += 8
        if end - at >= 4:
            state = _with_int(state, _read(data, at, 4))
            at += 4
        while at < end:
            state = _rotated(state ^ (np.uint64(data[at]) * _PRIME_5), np.uint64(11)) * _PRIME_1
            at += 1
        seeds[row] = _final(state)

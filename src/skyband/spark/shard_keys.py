"""Shard keys that Spark's hash partitioner leads to different partitions, so that shards work side by side."""

from __future__ import annotations

__all__ = ["spread"]

_SEED = 42
_MASK = 0xFFFFFFFF


def spread(shards: int) -> dict[int, int]:
    """A key for each shard: with as many partitions as shards, each has a partition to itself.

    They follow from the number of shards alone: keys name the state in a checkpoint, whatever session takes it up.

    >>> keys = spread(4)
    >>> sorted(_murmur3(key) % 4 for key in keys.values())
    [0, 1, 2, 3]
    """
    keys: dict[int, int] = {}
    used: set[int] = set()
    key = 0
    for shard in range(shards):
        while _murmur3(key) % shards in used:
            key += 1
        keys[shard] = key
        used.add(_murmur3(key) % shards)
    return keys


def _murmur3(value: int) -> int:
    """Spark's hash of a non-negative long, as a signed number."""
    state = _mixed(_SEED, value & _MASK)
    state = _mixed(state, value >> 32 & _MASK) ^ 8
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = ((state ^ (state >> shift)) * factor) & _MASK
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


def _mixed(state: int, word: int) -> int:
    word = _turned(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_turned(state ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK

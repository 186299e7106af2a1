"""Segments: what a shard stores beside its one value, by number, so that it need not be written with every step."""

from __future__ import annotations

from typing import Protocol

__all__ = ["MemorySegments", "Segments"]


class Segments(Protocol):
    """A store of numbered segments. A segment is written once, and read only when it is needed."""

    def get(self, number: int) -> bytes:
        """A segment that was put."""

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""

    def remove(self, number: int) -> None:
        """Drop a segment that was put."""


class MemorySegments(dict[int, bytes]):
    """Segments in this process."""

    def get(self, number: int) -> bytes:  # type: ignore[override]
        """A segment that was put."""
        return self[number]

    def put(self, number: int, data: bytes) -> None:
        """Store a segment."""
        self[number] = data

    def remove(self, number: int) -> None:
        """Drop a segment that was put."""
        del self[number]

"""What a completed micro-batch did and when, for who watches a run. Without listeners nothing is collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["BatchEvent", "Listener", "add_listener", "are_wanted", "remove_listener", "report"]

Listener = Callable[["BatchEvent"], None]
_LISTENERS: list[Listener] = []


class BatchEvent(NamedTuple):
    """A completed micro-batch."""

    stream: str
    number: int
    began: int  # nanoseconds since 1970
    ended: int
    parts: tuple[tuple[str, int, int], ...] = ()  # name, begin and end of what it did, in order
    counts: Mapping[str, int] = {}  # such as rows read and windows answered


def add_listener(listener: Listener) -> None:
    """Call a function after each micro-batch of this process. It must return soon and raise nothing."""
    _LISTENERS.append(listener)


def remove_listener(listener: Listener) -> None:
    """Stop calling a function."""
    _LISTENERS.remove(listener)


def are_wanted() -> bool:
    """Whether there is a listener."""
    return bool(_LISTENERS)


def report(event: BatchEvent) -> None:
    """Pass a micro-batch to the listeners.

    >>> seen = []
    >>> add_listener(seen.append)
    >>> report(BatchEvent("trades", 7, 0, 1))
    >>> remove_listener(seen.append)
    >>> seen[0].number
    7
    """
    for listener in tuple(_LISTENERS):
        listener(event)

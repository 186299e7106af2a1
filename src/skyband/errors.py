"""Every error Skyband raises on purpose: the value, the rule it breaks, and the consequence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

__all__ = [
    "InvalidInputError",
    "InvalidQueryError",
    "InvalidSQLError",
    "MissingDependencyError",
    "PipelineError",
    "Problem",
    "SkybandError",
    "SnapshotError",
    "UnknownNameError",
    "UnsupportedError",
    "WorkloadFileError",
    "brief",
    "type_name",
]


_LONGEST = 80  # letters of a value in a message


def brief(value: object) -> str:
    """A value as a message shows it: in one line, or by its type where it is larger, such as a data frame.

    >>> brief("ts"), brief(list(range(1000)))
    ("'ts'", 'a value of type list')
    """
    try:
        is_large = len(value) > _LONGEST  # type: ignore[arg-type]  # not everything has a length
    except TypeError:
        is_large = False
    text = "" if is_large else repr(value)
    return text if text and len(text) <= _LONGEST and "\n" not in text else f"a value of type {type_name(value)}"


def type_name(value: object) -> str:
    """The name of a value's type, with its module unless it is one of Python's own.

    >>> type_name([]), type_name(brief)
    ('list', 'function')
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class SkybandError(Exception):
    """The root of all errors this library raises on purpose.

    >>> import skyband as sb
    >>> try:
    ...     sb.TopK(k=0, size=10)
    ... except sb.SkybandError as error:
    ...     print(type(error).__name__)
    InvalidQueryError
    """


class InvalidQueryError(SkybandError, ValueError):
    """A query or a workload that has no meaning, refused when it is written down.

    >>> import skyband as sb
    >>> try:
    ...     sb.TopK(k=0, size="1 hour")
    ... except sb.InvalidQueryError as error:
    ...     print(error)
    k=0 must lie in 1..2147483647; an answer ranks at least one object.
    """


class InvalidSQLError(InvalidQueryError):
    """A statement that cannot be read, with the place in the text, the line itself, and what was expected there.

    >>> import skyband as sb
    >>> try:
    ...     sb.sql("TOPK price, 10 OVR 5 MINUTES")
    ... except sb.InvalidSQLError as error:
    ...     print(error)
    line 1, column 16: expected FROM, WHERE, BY, OVER, EVERY, ORIGIN or FULL, got 'OVR'
      TOPK price, 10 OVR 5 MINUTES
                     ^
    hint: did you mean OVER?
    """

    line: int = 1
    """Where the trouble is, counted from 1."""
    column: int = 1
    """Where in its line, counted from 1."""
    hint: str = ""
    """What helps, if there is something to say."""


class InvalidInputError(SkybandError, ValueError):
    """Stream data that cannot be taken; what was held before stays as it was.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=3, size=100))
    >>> try:
    ...     monitor.push(None, ["7"])
    ... except sb.InvalidInputError as error:
    ...     print(error)
    scores are of type string; a score must be a number, or objects cannot be ranked.
    """


class UnknownNameError(SkybandError, ValueError):
    """A name that nothing answers to; the message lists the names that come close.

    >>> import skyband as sb
    >>> try:
    ...     sb.Monitor(sb.TopK(k=3, size=100), algorithm="niave")
    ... except sb.UnknownNameError as error:
    ...     print(error)
    algorithm 'niave' does not exist; did you mean 'naive'?
    """

    @classmethod
    def among(cls, what: str, name: object, known: Iterable[str]) -> UnknownNameError:
        """Build the error for `name`, with the nearest of the `known` names as a hint."""
        names = sorted(known)
        near = get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(names)}."
        return cls(f"{what} {name!r} does not exist; {hint}")


class UnsupportedError(SkybandError, ValueError):
    """A sound request that the chosen algorithm cannot serve; the message names one that can.

    >>> import skyband as sb
    >>> try:
    ...     sb.Monitor(sb.TopK(k=3, size="365 days", slide="1 microsecond"), algorithm="mintopk")
    ... except sb.UnsupportedError as error:
    ...     print(str(error).partition("; ")[2])
    use algorithm='panes', which needs none, or a longer slide.
    """


class SnapshotError(SkybandError, ValueError):
    """A snapshot that is damaged, of another version, or of another query.

    >>> import skyband as sb
    >>> try:
    ...     sb.Monitor.resume(b"PAR1")
    ... except sb.SnapshotError as error:
    ...     print(error)
    these 4 bytes are no Skyband snapshot; nothing was resumed.
    """


class MissingDependencyError(SkybandError, ImportError):
    """Something outside this library that a part of it needs, and that is not there; the message says how to get it.

    >>> import skyband as sb
    >>> from skyband import java
    >>> try:
    ...     java.check({"JAVA_HOME": "/nowhere"})
    ... except sb.MissingDependencyError as error:
    ...     print(str(error).partition("; ")[0])
    JAVA_HOME=/nowhere has no bin/java
    """


class PipelineError(SkybandError, RuntimeError):
    """A running stream that stopped for a reason outside this library; the message has the reason's first line.

    >>> import skyband as sb
    >>> issubclass(sb.PipelineError, sb.SkybandError)
    True
    """


class Problem(NamedTuple):
    """One thing that is wrong with a file, and where; lines and columns begin at 1, and 0 is the file as a whole.

    >>> print(Problem("skyband.yaml", 12, 5, "queries[0].k", "0 must be at least 1."))
    skyband.yaml:12:5 queries[0].k: 0 must be at least 1.
    """

    file: str
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        message = self.message.replace("\n", "\n  ")  # so that the next problem stands out
        return f"{place} {self.key}: {message}" if self.key else f"{place}: {message}"


class WorkloadFileError(SkybandError, ValueError):
    """A workload file that cannot be used: all its `problems` at once, each with its place in the file.

    >>> import skyband as sb
    >>> try:
    ...     sb.read_workload("nowhere.yaml")
    ... except sb.WorkloadFileError as error:
    ...     print(error.problems[0].message)
    there is no such file; skyband init writes one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))

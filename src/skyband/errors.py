"""The exceptions that Skyband raises. Messages contain the value, the rule it breaks, and the consequence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

__all__ = [
    "InvalidInputError",
    "InvalidQueryError",
    "InvalidSQLError",
    "MissingDependencyError",
    "NeedsSparkError",
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


_LONGEST = 80  # characters of a value in a message


def brief(value: object) -> str:
    """Return a value as messages show it: in one line, or by its type if it is large, such as a data frame.

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
    """Return the name of a value's type, with its module unless it is a builtin.

    >>> type_name([]), type_name(brief)
    ('list', 'function')
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class SkybandError(Exception):
    """The base class of all errors that this library raises.

    >>> import skyband as sb
    >>> try:
    ...     sb.TopK(k=0, size=10)
    ... except sb.SkybandError as error:
    ...     print(type(error).__name__)
    InvalidQueryError
    """


class InvalidQueryError(SkybandError, ValueError):
    """A query or a workload is not valid. Raised when it is created.

    >>> import skyband as sb
    >>> try:
    ...     sb.TopK(k=0, size="1 hour")
    ... except sb.InvalidQueryError as error:
    ...     print(error)
    k must be between 1 and 2147483647, got 0.
    """


class InvalidSQLError(InvalidQueryError):
    """An SQL statement cannot be parsed. The message shows the line, the column and what was expected there.

    >>> import skyband as sb
    >>> try:
    ...     sb.sql("TOPK price, 10 OVR 5 MINUTES")
    ... except sb.InvalidSQLError as error:
    ...     print(error)
    line 1, column 16: expected FROM, WHERE, BY, DISTINCT, HALF_LIFE, OVER, EVERY, ORIGIN or FULL, got 'OVR'
      TOPK price, 10 OVR 5 MINUTES
                     ^
    hint: did you mean OVER?
    """

    line: int = 1
    """The line of the error, from 1."""
    column: int = 1
    """The column of the error in its line, from 1."""
    hint: str = ""
    """How to correct the statement; empty if there is no hint."""


class InvalidInputError(SkybandError, ValueError):
    """Stream data is not valid. The whole push is rejected, and the state does not change.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=3, size=100))
    >>> try:
    ...     monitor.push(None, ["7"])
    ... except sb.InvalidInputError as error:
    ...     print(error)
    scores must be numbers, got type string.
    """


class UnknownNameError(SkybandError, ValueError):
    """A name does not exist. The message lists similar names.

    >>> import skyband as sb
    >>> try:
    ...     sb.Monitor(sb.TopK(k=3, size=100), algorithm="niave")
    ... except sb.UnknownNameError as error:
    ...     print(error)
    algorithm 'niave' does not exist; did you mean 'naive'?
    """

    @classmethod
    def among(cls, what: str, name: object, known: Iterable[str]) -> UnknownNameError:
        """Return the error for `name`, with the most similar of the `known` names as a hint."""
        names = sorted(known)
        near = get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(names)}."
        return cls(f"{what} {name!r} does not exist; {hint}")


class UnsupportedError(SkybandError, ValueError):
    """A valid request is not supported by the chosen algorithm or family. The message names an alternative.

    >>> import skyband as sb
    >>> try:
    ...     sb.Monitor(sb.TopK(k=3, size="365 days", slide="1 microsecond"), algorithm="mintopk")
    ... except sb.UnsupportedError as error:
    ...     print(str(error).partition(". ")[2])
    Use algorithm='panes', which keeps nothing per window, or a longer slide.
    """


class NeedsSparkError(UnsupportedError):
    """Files can be read only by Spark's readers. A stream on Spark then lets Spark read them.

    >>> import skyband as sb
    >>> issubclass(NeedsSparkError, sb.UnsupportedError)
    True
    """


class SnapshotError(SkybandError, ValueError):
    """A snapshot is damaged, or belongs to another version or another query.

    >>> import skyband as sb
    >>> try:
    ...     sb.Monitor.resume(b"PAR1")
    ... except sb.SnapshotError as error:
    ...     print(error)
    these 4 bytes are not a Skyband snapshot; nothing was resumed.
    """


class MissingDependencyError(SkybandError, ImportError):
    """An optional dependency is missing. The message explains how to install it.

    >>> import skyband as sb
    >>> from skyband import java
    >>> try:
    ...     java.check({"JAVA_HOME": "/nowhere"})
    ... except sb.MissingDependencyError as error:
    ...     print(str(error).partition("; ")[0])
    JAVA_HOME=/nowhere has no bin/java
    """


class PipelineError(SkybandError, RuntimeError):
    """A running stream failed for a reason outside this library. The message contains the first line of the cause.

    >>> import skyband as sb
    >>> issubclass(sb.PipelineError, sb.SkybandError)
    True
    """


class Problem(NamedTuple):
    """One problem of a file with its location. Lines and columns begin at 1; line 0 is the whole file.

    >>> print(Problem("skyband.yaml", 12, 5, "queries[0].k", "must be at least 1, got 0."))
    skyband.yaml:12:5 queries[0].k: must be at least 1, got 0.
    """

    file: str
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        message = self.message.replace("\n", "\n  ")  # indented, so that each problem starts at the margin
        return f"{place} {self.key}: {message}" if self.key else f"{place}: {message}"


class WorkloadFileError(SkybandError, ValueError):
    """A workload file is not valid. `problems` lists all problems, each with its location in the file.

    >>> import skyband as sb
    >>> try:
    ...     sb.read_workload("nowhere.yaml")
    ... except sb.WorkloadFileError as error:
    ...     print(error.problems[0].message)
    the file does not exist; skyband init writes one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))

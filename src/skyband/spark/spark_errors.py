"""Convert errors of Spark to errors of this library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

import skyband.errors
from skyband.errors import InvalidInputError, PipelineError, SkybandError, SnapshotError

__all__ = [
    "first_line",
    "is_gone",
    "is_slow_worker",
    "is_stuck",
    "plain_error",
    "reason_of",
    "uncomputable",
    "unless_gone",
]

# A traceback line with a reason; wrapper errors of Py4J and of waiting threads are skipped.
_REASON = re.compile(
    r"\s*(?:Caused by)?:?\s*"
    r"([\w.$]*(?:Error|Exception): (?!An error occurred while calling|Exception thrown in awaitResult|An "
    r"exception was thrown from the Python worker)\S.*)"
)
_FULL = "No space left on device"
_UNCOMPUTABLE = re.compile(r"SQLSTATE: 22\w{3}\s+== SQL [^\n]*==\n([^\n]+)\n")  # class 22: data exception
_NAMED = re.compile(r":?\s*[\w.$]*(?:Error|Exception): (?=\S)")


_HEADER = re.compile(
    r"CSV header (?:does not conform to the schema\.|is not equal to number of fields in the schema:)"
    r"\s*(.*?)\s*CSV file: (\S+)",
    re.DOTALL,
)


def first_line(error: BaseException) -> str:
    r"""Return the reason of an error in one line; for errors from Java, without the class name.

    >>> first_line(ValueError("An error occurred while calling o4.load.\n: org.example.SomeException: not found"))
    'not found'
    >>> first_line(OSError())
    'OSError'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return _NAMED.sub("", lines[1], count=1)
    return lines[0]


def is_gone(error: BaseException) -> bool:
    """Whether an error means that the JVM, which runs Spark, has ended.

    >>> is_gone(ConnectionRefusedError()), is_gone(ValueError())
    (True, False)
    """
    return isinstance(error, ConnectionError) or type(error).__name__ in ("Py4JError", "Py4JNetworkError")


def is_slow_worker(error: BaseException) -> bool:
    """Whether Spark did not wait for a Python process that it had started. It waits ten seconds, on any machine.

    >>> is_slow_worker(RuntimeError("Python worker failed to connect back. SQLSTATE: XXKST"))
    True
    """
    return "Python worker failed to connect back" in str(error)


@contextmanager
def unless_gone() -> Iterator[None]:
    """Ignore errors in the block if the JVM has ended.

    >>> with unless_gone():
    ...     raise ConnectionRefusedError
    """
    try:
        yield
    except Exception as error:
        if not is_gone(error):
            raise


def is_stuck(error: BaseException) -> bool:
    """Whether a stream did not stop within the timeout.

    >>> is_stuck(RuntimeError("java.util.concurrent.TimeoutException: … failed to stop within 1 ms"))
    True
    """
    return "failed to stop within" in str(error)


def uncomputable(error: BaseException) -> str | None:
    r"""Return the part of an expression that failed for a row, if Spark quotes it; else None.

    For messages only: rows and queries can inject any text into an error.

    >>> uncomputable(ValueError("… SQLSTATE: 22018\n== SQL (line 1, position 1) ==\nCAST(g AS INT)\n"))
    'CAST(g AS INT)'
    """
    found = _UNCOMPUTABLE.search(str(error))
    return None if found is None else found[1].strip()


def plain_error(error: BaseException) -> BaseException:
    """Return our error if one is wrapped in a Spark error, else a PipelineError with the reason in one line.

    Errors that are not from Spark are returned unchanged.
    """
    text = str(error)
    if (known := _different_header(f"{text}\n{getattr(error, '_stackTrace', '')}") or _other_spark(text)) is not None:
        return known
    for name in re.findall(r"skyband\.errors\.(\w+): ", text):
        kind = getattr(skyband.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SkybandError):
            said = text.split(f"skyband.errors.{name}: ", 1)[1].split("\n", 1)[0].strip()
            return kind(said)
    if (found := _of_machine(error)) is not None:
        return found
    if isinstance(error, PySparkException) or type(error).__name__ == "Py4JJavaError":  # Py4J: planning failed
        return PipelineError(f"the stream stopped: {reason_of(error)}")
    return error


def _of_machine(error: BaseException) -> PipelineError | None:
    """Return our error if the machine is the reason: memory, load or disk; else None."""
    text = str(error)
    if is_gone(error) or "JAVA_GATEWAY_EXITED" in text:
        return PipelineError(
            "the stream stopped: the Java process that runs Spark has ended. It was killed, or ran out of memory. No "
            "data is lost; run it again."
        )
    if is_slow_worker(error):
        return PipelineError(
            "the stream stopped: this machine did not start a Python process within the ten seconds that Spark waits "
            "(Python worker failed to connect back). It is too busy, or its disk is. No data is lost; run it again."
        )
    if _FULL in text:
        # Use the shortest line with a path: Spark wraps the message in several errors.
        lines = {re.sub(r"^.*(?:Error|Exception): ", "", line.strip()) for line in text.splitlines() if _FULL in line}
        why = min((line for line in lines if "/" in line), key=len, default=_FULL)
        return PipelineError(
            f"the stream stopped: a disk is full ({why}). No data is lost; free disk space and run it again."
        )
    return None


def reason_of(error: BaseException) -> str:
    """Return the first line of an error's text with a reason."""
    reasons = [found[1] for line in str(error).splitlines() if (found := _REASON.match(line))]
    return reasons[0] if reasons else first_line(error)


def _other_spark(text: str) -> SnapshotError | None:
    """Return our error if another minor version of Spark wrote the checkpoint; else None."""
    if "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA" not in text:
        return None
    return SnapshotError(
        "the checkpoint was written by another minor version of Spark, and this session cannot resume it. Spark 4.1 "
        "and later resume checkpoints of Spark 4.0 in a classic session, not with Spark Connect; Spark 4.0 does not "
        "resume those of later versions. Nothing was changed."
    )


def _different_header(text: str) -> InvalidInputError | None:
    """Return our error if Spark found a CSV file with a different header; else None."""
    found = _HEADER.search(text)
    if found is None:
        return None
    said = "; ".join(line.strip() for line in found[1].splitlines() if line.strip())
    return InvalidInputError(
        f"the stream stopped: the header of {found[2]} differs from the header of the other files ({said}). Columns "
        "are read by position and would be mixed up, so this micro-batch was not answered. Rewrite the file under the "
        "same name with its columns in that order, and run it again; no data is lost. To ignore headers and read "
        "columns by position, set options: {enforceSchema: true}."
    )

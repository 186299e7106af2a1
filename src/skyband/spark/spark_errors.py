"""What went wrong inside Spark, said as this library says it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

import skyband.errors
from skyband.errors import InvalidInputError, PipelineError, SkybandError

__all__ = ["first_line", "is_gone", "is_stuck", "plain_error", "reason_of", "uncomputable", "unless_gone"]

# A line of a traceback that tells something; that the bridge to Java or a waiting thread failed is nothing to tell.
_REASON = re.compile(
    r"\s*(?:Caused by)?:?\s*"
    r"([\w.$]*(?:Error|Exception): (?!An error occurred while calling|Exception thrown in awaitResult)\S.*)"
)
_FULL = "No space left on device"
_UNCOMPUTABLE = re.compile(r"SQLSTATE: 22\w{3}\s+== SQL [^\n]*==\n([^\n]+)\n")  # class 22: a value that does not fit
_NAMED = re.compile(r":?\s*[\w.$]*(?:Error|Exception): (?=\S)")


_HEADER = re.compile(
    r"CSV header (?:does not conform to the schema\.|is not equal to number of fields in the schema:)"
    r"\s*(.*?)\s*CSV file: (\S+)",
    re.DOTALL,
)


def first_line(error: BaseException) -> str:
    r"""The reason in one line: of Python's below its traceback, of Java's without its class.

    >>> first_line(ValueError("An error occurred while calling o4.load.\n: org.example.SomeException: it is gone"))
    'it is gone'
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
    """Whether an error says that Java, which runs Spark, has ended: there is nobody to ask or to stop any more.

    >>> is_gone(ConnectionRefusedError()), is_gone(ValueError())
    (True, False)
    """
    return isinstance(error, ConnectionError) or type(error).__name__ in ("Py4JError", "Py4JNetworkError")


@contextmanager
def unless_gone() -> Iterator[None]:
    """Ask Spark for something, or nothing where Java has ended.

    >>> with unless_gone():
    ...     raise ConnectionRefusedError
    """
    try:
        yield
    except Exception as error:
        if not is_gone(error):
            raise


def is_stuck(error: BaseException) -> bool:
    """Whether a stream did not stop when it was asked to.

    >>> is_stuck(RuntimeError("java.util.concurrent.TimeoutException: … failed to stop within 1 ms"))
    True
    """
    return "failed to stop within" in str(error)


def uncomputable(error: BaseException) -> str | None:
    r"""The part of an expression that could not be computed for some row, where Spark quotes it; else None.

    For messages only: rows and queries can put anything into the text of an error.

    >>> uncomputable(ValueError("… SQLSTATE: 22018\n== SQL (line 1, position 1) ==\nCAST(g AS INT)\n"))
    'CAST(g AS INT)'
    """
    found = _UNCOMPUTABLE.search(str(error))
    return None if found is None else found[1].strip()


def plain_error(error: BaseException) -> BaseException:
    """What a user did wrong, said as this library says it; what Spark did wrong, in its first line."""
    text = str(error)
    if (another := _another_header(f"{text}\n{getattr(error, '_stackTrace', '')}")) is not None:
        return another
    for name in re.findall(r"skyband\.errors\.(\w+): ", text):
        kind = getattr(skyband.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SkybandError):
            said = text.split(f"skyband.errors.{name}: ", 1)[1].split("\n", 1)[0].strip()
            return kind(said)
    if is_gone(error) or "JAVA_GATEWAY_EXITED" in text:
        return PipelineError(
            "the stream stopped: Java, which runs Spark, has ended; it was killed, or there was not enough memory for "
            "it. Nothing is lost: run it again."
        )
    if _FULL in text:
        # Of many lines about the same, the shortest that says where: Spark wraps it in the names of its own errors.
        lines = {re.sub(r"^.*(?:Error|Exception): ", "", line.strip()) for line in text.splitlines() if _FULL in line}
        why = min((line for line in lines if "/" in line), key=len, default=_FULL)
        return PipelineError(f"the stream stopped: a disk is full ({why}). Nothing is lost: make room, and run again.")
    if isinstance(error, PySparkException) or type(error).__name__ == "Py4JJavaError":  # the bridge's: planning failed
        return PipelineError(f"the stream stopped: {reason_of(error)}")
    return error


def reason_of(error: BaseException) -> str:
    """The first line of an error's text that gives a reason."""
    reasons = [found[1] for line in str(error).splitlines() if (found := _REASON.match(line))]
    return reasons[0] if reasons else first_line(error)


def _another_header(text: str) -> InvalidInputError | None:
    """What to say where Spark has found a CSV file with another header; None if it says nothing of the kind."""
    found = _HEADER.search(text)
    if found is None:
        return None
    said = "; ".join(line.strip() for line in found[1].splitlines() if line.strip())
    return InvalidInputError(
        f"the stream stopped: the header of {found[2]} is not that of the other files ({said}). Read by position, its "
        "columns would be mixed up, so this micro-batch was not answered. Write the file again under its name, with "
        "the columns in that order, and run again; nothing is lost. To read files by position, whatever their headers "
        "say, write options: {enforceSchema: true}."
    )

"""What went wrong inside Spark, said as this library says it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

import skyband.errors
from skyband.errors import PipelineError, SkybandError

__all__ = ["first_line", "is_gone", "plain_error", "uncomputable", "unless_gone", "unstoppable"]

# A line of a traceback that tells something; that the bridge to Java or a waiting thread failed is nothing to tell.
_REASON = re.compile(
    r"\s*(?:Caused by)?:?\s*"
    r"([\w.$]*(?:Error|Exception): (?!An error occurred while calling|Exception thrown in awaitResult)\S.*)"
)
_FULL = "No space left on device"
_UNCOMPUTABLE = re.compile(r"SQLSTATE: 22\w{3}\s+== SQL [^\n]*==\n([^\n]+)\n")  # class 22: a value that does not fit
_NAMED = re.compile(r":?\s*[\w.$]*(?:Error|Exception): (?=\S)")


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


def unstoppable(stream: str | None, error: BaseException) -> PipelineError | None:
    """What to say of a stream that did not stop when it was asked to; None where something else went wrong.

    >>> str(unstoppable("rows", RuntimeError("java.util.concurrent.TimeoutException: … failed to stop within 1 ms")))
    "stream 'rows' did not stop in time and ends when Spark stops. Nothing is lost: run it again."
    """
    if "failed to stop within" not in str(error):
        return None
    named = "the stream" if stream is None else f"stream {stream!r}"
    return PipelineError(f"{named} did not stop in time and ends when Spark stops. Nothing is lost: run it again.")


def uncomputable(error: BaseException) -> str | None:
    r"""The part of an expression that could not be computed for some row, where that is what stopped a stream.

    >>> uncomputable(ValueError("… SQLSTATE: 22018\n== SQL (line 1, position 1) ==\nCAST(g AS INT)\n"))
    'CAST(g AS INT)'
    """
    found = _UNCOMPUTABLE.search(str(error))
    return None if found is None else found[1].strip()


def plain_error(error: BaseException) -> BaseException:
    """What a user did wrong, said as this library says it; what Spark did wrong, in its first line."""
    text = str(error)
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
    if isinstance(error, PySparkException):
        told = [found[1] for line in text.splitlines() if (found := _REASON.match(line))]
        return PipelineError(f"the stream stopped: {told[0] if told else first_line(error)}")
    return error

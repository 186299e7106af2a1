"""What went wrong inside Spark, said as this library says it."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

import skyband.errors
from skyband.errors import PipelineError, SkybandError

__all__ = ["first_line", "plain_error"]

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


def plain_error(error: BaseException) -> BaseException:
    """What a user did wrong, said as this library says it; what Spark did wrong, in its first line."""
    text = str(error)
    for name in re.findall(r"skyband\.errors\.(\w+): ", text):
        kind = getattr(skyband.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, SkybandError):
            said = text.split(f"skyband.errors.{name}: ", 1)[1].split("\n", 1)[0].strip()
            return kind(said)
    if isinstance(error, PySparkException):
        told = [line.strip() for line in text.splitlines() if re.match(r"\s*[\w.]*(Error|Exception): ", line)]
        return PipelineError(f"the stream stopped: {told[0] if told else first_line(error)}")
    return error

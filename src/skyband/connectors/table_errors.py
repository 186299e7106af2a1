"""Errors of deltalake and pyiceberg in one line, with their cause."""

from __future__ import annotations

import re

__all__ = ["cause_of", "is_denied"]

_COLOURS = re.compile(r"\x1b\[\d*m")
_ANSWER = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")  # of an object store
_CAUSE = "↳"
_NOISE = re.compile(r"^(?:Kernel error -> )|(?: in [\d.]+m?s\b.*)|^\d+, .*|^[\d.]+s\b.*")
# Waiting does not help with these. NoSuchKey and SlowDown are not among them.
_DENIED = re.compile(
    r"necessary privileges|\b(?:AccessDenied|ACCESS_DENIED|SignatureDoesNotMatch|InvalidAccessKeyId|ExpiredToken|"
    r"AllAccessDisabled|AccountProblem|NoSuchBucket|NO_SUCH_BUCKET|InvalidBucketName|AuthenticationFailed|"
    r"PermanentRedirect)\b"
)


def cause_of(error: BaseException) -> str:
    r"""Return what failed and why: the first line of an error, and what the storage has answered or the last cause.

    >>> cause_of(OSError("Kernel error -> Generic S3 error\n \x1b[31m↳\x1b[0m Error performing list request\n"
    ...                  "  \x1b[31m↳\x1b[0m <Error><Code>NoSuchBucket</Code><Message>Not there</Message></Error>"))
    'Generic S3 error (NoSuchBucket: Not there)'
    >>> cause_of(OSError("Generic S3 error\n ↳ error sending request\n  ↳ Connection refused (os error 111)\n"))
    'Generic S3 error (Connection refused (os error 111))'
    >>> cause_of(ValueError())
    'ValueError'
    """
    text = _COLOURS.sub("", str(error))
    parts = [_NOISE.sub("", part.partition("\n")[0].strip()).rstrip(". ") for part in text.split(_CAUSE)]
    first, *causes = [part for part in parts if part] or [type(error).__name__]
    answer = _ANSWER.search(text)
    if answer is not None:
        causes = [": ".join(part.strip().rstrip(".") for part in answer.groups() if part)]
    return f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first


def is_denied(error: BaseException) -> bool:
    """Whether a storage rejects the keys, the rights or the bucket, so that waiting does not help.

    >>> is_denied(OSError("… <Code>NoSuchBucket</Code> …")), is_denied(OSError("Connection refused"))
    (True, False)
    """
    return isinstance(error, PermissionError) or _DENIED.search(str(error)) is not None
